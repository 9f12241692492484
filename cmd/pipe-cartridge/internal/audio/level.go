package audio

import "math"

// Parts of the measure of loudness.
const (
	blocking     = 0.95  // of the filter b[n] = x[n] − x[n−1] + blocking·b[n−1], which takes hum and rumble away
	emphasis     = 0.9   // of the filter y[n] = b[n] − emphasis·b[n−1], which makes the noise of rooms even
	smoothFrames = 3     // that a level is the mean of
	silenceDB    = -120. // of digital silence
)

// leveller measures how loud frames are, in dB of full scale.
type leveller struct {
	last   float64               // sample
	high   float64               // the same without its lowest frequencies
	powers [smoothFrames]float64 // of the last frames
	frames int                   // seen, up to smoothFrames
}

func (l *leveller) reset() { *l = leveller{} }

// next is the level of the last 30 ms up to the end of frame, or of fewer when there are no more.
func (l *leveller) next(frame []float32) float64 {
	var sum float64
	for _, x := range frame {
		high := float64(x) - l.last + blocking*l.high
		y := high - emphasis*l.high
		l.last, l.high = float64(x), high
		sum += y * y
	}
	copy(l.powers[1:], l.powers[:])
	l.powers[0] = sum / float64(len(frame))
	l.frames = min(l.frames+1, smoothFrames)
	var mean float64
	for _, p := range l.powers[:l.frames] {
		mean += p
	}
	return max(10*math.Log10(mean/float64(l.frames)), silenceDB)
}

// Parts of the noise floor.
const (
	floorSlots      = 10
	floorSlotFrames = 30  // a slot is 300 ms, all slots are 3 s
	floorFrames     = 50  // until so many are seen, silence is the floor
	lowestFloorDB   = -80 // what is softer is silence
	floorBiasDB     = 1   // how far the softest 30 ms of noise are below its level
)

// noiseFloor is the level of the softest part of the last three seconds. The zero value has seen nothing.
type noiseFloor struct {
	lows   [floorSlots]float64 // newest first; the first one is still filled
	slots  int                 // of lows in use
	frames int                 // in the first slot
}

// set takes steady noise of this level for the past.
func (n *noiseFloor) set(level float64) {
	for i := range n.lows {
		n.lows[i] = level
	}
	n.slots, n.frames = floorSlots, 0
}

// add takes the level of one more frame.
func (n *noiseFloor) add(level float64) {
	if n.frames == floorSlotFrames || n.slots == 0 {
		copy(n.lows[1:], n.lows[:])
		n.slots, n.frames = min(n.slots+1, floorSlots), 0
	}
	if n.frames == 0 || level < n.lows[0] {
		n.lows[0] = level
	}
	n.frames++
}

// value is the floor in dB. Until enough is known to tell a voice from noise it is that of silence.
func (n *noiseFloor) value() float64 {
	if n.slots*floorSlotFrames-floorSlotFrames+n.frames < floorFrames {
		return lowestFloorDB
	}
	low := n.lows[0]
	for _, l := range n.lows[1:n.slots] {
		low = min(low, l)
	}
	return max(low+floorBiasDB, lowestFloorDB)
}

// spread is the range of levels. The zero value is empty.
type spread struct {
	low, high float64
	any       bool
}

func (s *spread) add(level float64) {
	if !s.any {
		*s = spread{level, level, true}
	}
	s.low, s.high = min(s.low, level), max(s.high, level)
}

// over reports whether the levels are at least so far apart.
func (s *spread) over(db float64) bool { return s.any && s.high-s.low >= db }
