package tones

import (
	"time"

	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
)

// listener is one stream: samples in with push, segments out in heard. It counts in samples since the origin, the
// first one after a gap, so times are exact however long the audio is.
type listener struct {
	bank    *bank
	tracker tracker
	readers assembler

	pending [hop]float64 // samples of a hop that is not full yet
	filled  int
	origin  time.Duration // of sample 0
	samples int64         // since the origin, whole hops
	heard   []engine.Segment
}

func newListener() *listener { return &listener{bank: newBank()} }

// push takes samples. A sample that is no finite number counts as silence.
func (l *listener) push(samples []float32) {
	for _, s := range samples {
		v := float64(s)
		if v-v != 0 { // true for NaN and the infinities only
			v = 0
		}
		l.pending[l.filled] = v
		if l.filled++; l.filled == hop {
			l.filled = 0
			l.frame()
		}
	}
}

// stop ends everything, because gap of audio is missing after the samples so far, or nothing follows.
func (l *listener) stop(gap time.Duration) {
	total := l.samples + int64(l.filled)
	clear(l.pending[l.filled:])
	l.filled = 0
	for range hops + 1 { // a window of silence shows the end of a mark that still sounds
		l.frame()
		clear(l.pending[:])
	}
	l.readers.interrupt()
	l.collect()
	l.origin += durationOf(total) + gap
	l.samples = 0
	l.bank.reset()
	l.tracker = tracker{}
}

// frame analyses the pending hop.
func (l *listener) frame() {
	l.samples += hop
	now := l.samples - window/2 // centre of the window
	var f frame
	l.bank.push(&l.pending, &f)
	var m mark
	if l.tracker.push(&f, now, &m) {
		l.readers.take(classify(&m))
	}
	since, sounding := l.tracker.since()
	l.readers.tick(now, since, sounding)
	l.collect()
}

// collect makes segments of what was read.
func (l *listener) collect() {
	for _, r := range l.readers.done {
		l.heard = append(l.heard, engine.Segment{
			Start:      l.origin + durationOf(max(r.start, 0)),
			End:        l.origin + durationOf(max(r.end, 0)),
			Text:       r.text,
			Engine:     name,
			Confidence: r.confidence,
		})
	}
	l.readers.done = l.readers.done[:0]
}

// durationOf is exact: a sample lasts 62 500 ns.
func durationOf(samples int64) time.Duration {
	return time.Duration(samples) * (time.Second / sampleRate)
}
