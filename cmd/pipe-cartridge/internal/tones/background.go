package tones

const (
	backgroundFrames = 250  // frames in a stretch, 0.5 s
	backgroundParts  = 8    // stretches that are remembered, 4 s: longer than any mark, so keyed tones never count as background
	backgroundMargin = 3    // what exceeds the background by less than 5 dB still belongs to it
	smoothing        = 0.25 // of the power per frame; faster than the spaces between characters at 35 words a minute
)

// background knows what sounds in each filter without pause, hum or a carrier, and takes it away. A steady tone would
// otherwise be the strongest filter for ever and hide all keying. Until 4 s have been heard nothing counts as steady,
// because audio may well begin with a mark.
type background struct {
	smooth frame
	lowest [backgroundParts]frame // per stretch; the one at part is under way
	part   int
	parts  int // whole stretches seen, up to backgroundParts
	frames int // in the stretch under way
	level  frame
}

// strongest is the highest power of a filter that can hold a Morse pitch, less what is always there.
func (b *background) strongest(f *frame) float64 {
	low := &b.lowest[b.part]
	best := 0.0
	for k, v := range f {
		b.smooth[k] += smoothing * (v - b.smooth[k])
		if b.frames == 0 || b.smooth[k] < low[k] {
			low[k] = b.smooth[k]
		}
	}
	for k, v := range f[:morseBins] {
		best = max(best, v-b.level[k])
	}
	if b.frames++; b.frames == backgroundFrames {
		b.frames = 0
		b.part = (b.part + 1) % backgroundParts
		b.parts = min(b.parts+1, backgroundParts)
		b.settle()
	}
	return best
}

// remove takes the background out of a spectrum.
func (b *background) remove(s *frame) {
	for k := range s {
		s[k] = max(s[k]-b.level[k], 0)
	}
}

// settle computes the level anew once enough has been heard.
func (b *background) settle() {
	if b.parts < backgroundParts {
		return
	}
	b.level = b.lowest[0]
	for _, low := range b.lowest[1:] {
		for k, v := range low {
			b.level[k] = min(b.level[k], v)
		}
	}
	for k := range b.level {
		b.level[k] *= backgroundMargin
	}
}
