package sphinx

import (
	"slices"
	"time"

	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
)

const (
	frameSamples  = engine.SampleRate / 100 // 10 ms, the child's own frame
	windowFrames  = 10                      // what is called quiet is 100 ms: longer than the stop inside a word
	pauseFrames   = 100                     // a clear pause is a second
	pauseRatio    = 100.0                   // and 20 dB below
	loudFrames    = 30                      // the level that speech exceeded for 300 ms, which a click does not
	audiblePower  = 1e-6                    // −60 dB of full scale; less is no speech to end
	firstQuantile = 0.03                    // the share of quiet points that may be cut at first
)

// endpointer says where an utterance has to end, from nothing but the power of 10 ms frames: after a clear pause, and
// in audio that has none, at the quietest point that comes, before the limit. Every end it finds is made one by adding
// silence, so the limit holds whatever the child's own voice detection thinks of the audio.
type endpointer struct {
	limit, search int // frames: where an end is forced, where the search for a quiet point begins

	frames int                   // since the last end
	quiet  int                   // frames in a row that are a pause
	recent [windowFrames]float64 // power of the last frames, a ring
	sorted []float64             // power of all windows since the last end, ascending; at most limit of them
}

func newEndpointer(limit time.Duration) *endpointer {
	frames := int(limit / (10 * time.Millisecond))
	return &endpointer{limit: frames, search: frames - frames/4, sorted: make([]float64, 0, frames)}
}

// reset begins a new utterance.
func (e *endpointer) reset() {
	e.frames, e.quiet = 0, 0
	e.sorted = e.sorted[:0]
}

// frame takes the mean power of the next 10 ms, full scale 1, and reports whether the utterance ends behind it. The
// next frame then belongs to a new one.
func (e *endpointer) frame(power float64) (ends bool) {
	e.recent[e.frames%windowFrames] = power
	e.frames++
	if e.frames < windowFrames {
		return false
	}
	var window float64
	for _, p := range e.recent {
		window += p / windowFrames
	}
	at, _ := slices.BinarySearch(e.sorted, window)
	e.sorted = slices.Insert(e.sorted, at, window)
	if e.paused(window) || e.overdue(window) {
		e.reset()
		return true
	}
	return false
}

// paused reports a clear pause after something that was loud.
func (e *endpointer) paused(window float64) bool {
	loud := e.sorted[max(0, len(e.sorted)-loudFrames)]
	if loud < audiblePower || window > loud/pauseRatio {
		e.quiet = 0
		return false
	}
	e.quiet++
	return e.quiet >= pauseFrames
}

// overdue reports a point that is quiet enough for how long the utterance has been going on: among the quietest 3 %
// of it at first, anywhere at the limit.
func (e *endpointer) overdue(window float64) bool {
	if e.frames < e.search {
		return false
	}
	x := float64(e.frames-e.search) / float64(max(1, e.limit-e.search))
	share := firstQuantile + (1-firstQuantile)*x*x
	return e.frames >= e.limit || window <= e.sorted[int(share*float64(len(e.sorted)-1))]
}
