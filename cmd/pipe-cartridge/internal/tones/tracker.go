package tones

import "math"

const (
	morseBins   = 27         // bins that can hold a Morse pitch or the low tone of DTMF: 375 to 1025 Hz
	fall        = 4          // a mark ends when the power falls to a quarter of its peak: half the amplitude
	rise        = 4          // a mark opens when the power has risen fourfold from the lowest since the last one
	faintest    = 5e-7       // power of a tone of amplitude 0.001, -60 dB of full scale; weaker ones are not heard
	historyLen  = 512        // frames of a mark that are kept to find its edges, 1 s
	edgeSamples = window / 2 // how long an edge of a mark stays visible in the frames to each side
)

// mark is a stretch of audio with more power between 375 and 1025 Hz than before and after. Most marks are no tone at
// all but noise; what a mark is, tell its kind and quality.
type mark struct {
	start, end int64   // samples since the tracker began, to half the amplitude
	spectrum   frame   // mean over the mark, without what sounds all the time
	peak       float64 // largest power of one filter
	wobble     float64 // standard deviation of the amplitude over its mean, away from the edges; 0 for short marks
}

func (m *mark) length() int64 { return m.end - m.start }

// tracker finds marks in frames: a trigger with hysteresis on the strongest filter, whose thresholds hang on the mark's
// own peak, so that neither level nor fading matters and an edge sits where the amplitude is half.
type tracker struct {
	on     bool
	valley float64 // lowest envelope since the last mark
	last   float64 // the frame before
	steady background

	// While on:
	peak     float64
	restart  float64   // peak that makes everything before it too weak to belong to the mark
	sum      frame     // of the frames since the last restart
	frames   int       // in sum
	start    int64     // edge of the mark as far as known
	history  []float64 // envelope from the frame before the mark on, at most historyLen
	historyT int64     // centre of history[0]
}

// push takes the frame whose window is centred on sample at, frames coming hop by hop. When a mark has ended with it,
// push fills m and tells so.
func (t *tracker) push(f *frame, at int64, m *mark) bool {
	envelope := t.steady.strongest(f)
	defer func() { t.last = envelope }()
	if !t.on {
		t.valley = min(t.valley, envelope)
		if envelope <= rise*t.valley || envelope < faintest {
			return false
		}
		t.open(at)
	}
	if envelope < t.peak/fall {
		t.close(at, envelope, m)
		t.valley = envelope
		return true
	}
	if len(t.history) < historyLen {
		t.history = append(t.history, envelope)
	}
	if envelope > t.peak {
		t.peak = envelope
		if envelope > t.restart {
			t.restart, t.sum, t.frames = fall*envelope, frame{}, 0
		}
		if len(t.history) < historyLen {
			t.findStart()
		}
	}
	for k, v := range f {
		t.sum[k] += v
	}
	t.frames++
	return false
}

// since is where the mark that is under way began; false when there is none.
func (t *tracker) since() (int64, bool) { return t.start, t.on }

func (t *tracker) open(at int64) {
	t.on = true
	t.peak, t.restart = 0, 0
	t.history = append(t.history[:0], t.last)
	t.historyT = at - hop
	t.start = at
}

// findStart looks back from the newest frame, the peak, for where half its amplitude was crossed.
func (t *tracker) findStart() {
	threshold := t.peak / fall
	for i := len(t.history) - 2; i >= 0; i-- {
		if before := t.history[i]; before < threshold {
			t.start = t.historyT + int64(i)*hop + crossing(before, t.history[i+1], threshold)
			return
		}
	}
	t.start = t.historyT
}

func (t *tracker) close(at int64, envelope float64, m *mark) {
	threshold := t.peak / fall
	m.start = t.start
	m.end = at - hop + crossing(t.last, envelope, threshold)
	m.peak = t.peak
	m.spectrum = t.sum
	for k := range m.spectrum {
		m.spectrum[k] /= float64(t.frames)
	}
	t.steady.remove(&m.spectrum)
	m.wobble = t.wobble(m)
	t.on = false
}

// wobble measures the frames whose window lies wholly inside the mark.
func (t *tracker) wobble(m *mark) float64 {
	first := (m.start + edgeSamples - t.historyT + hop - 1) / hop
	last := min((m.end-edgeSamples-t.historyT)/hop, int64(len(t.history)-1))
	if last-first < 4 {
		return 0 // too few to tell
	}
	var sum, squares float64
	for _, power := range t.history[first : last+1] {
		sum += math.Sqrt(power)
		squares += power
	}
	n := float64(last + 1 - first)
	mean := sum / n
	return math.Sqrt(max(squares/n-mean*mean, 0)) / mean
}

// crossing says how many samples after the frame with power before the amplitude crosses that of threshold, on a
// straight line to the next frame with power after.
func crossing(before, after, threshold float64) int64 {
	a, b, t := math.Sqrt(before), math.Sqrt(after), math.Sqrt(threshold)
	if a == b {
		return 0
	}
	return int64(math.Round(hop * (t - a) / (b - a)))
}
