package feed

import (
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Sample is what a backend captures at a time.
type Sample struct {
	// Data is the content; the feed takes it over.
	Data []byte
	// PTS is when it was captured, since the start of the capture. It does not go backwards.
	PTS time.Duration
	// Captured is the same on the wall clock; the zero value stands for [Sink.Started] + PTS.
	Captured time.Time
	// Lost is the number of items that the device itself has lost since the sample before this one. They count as
	// captured and lost, as if they had been pushed.
	Lost uint64
}

// Item is one item as the reader gets it. It may be kept and changed.
type Item struct {
	Data []byte
	// Meta is what spec/wire.md 8.5 lists: seq, pts_us and capture_ts_us, and gap on the first item after a loss.
	// Its values have the types that [frame.DecodeMeta] would give them.
	Meta frame.Meta
}

// captured is a sample in the ring or in the hand-over.
type captured struct {
	data      []byte
	seq       uint64
	ptsUS     uint64 // microseconds
	captureUS uint64 // Unix microseconds
}

// cost is what a captured item takes of the ring's bytes.
func (c captured) cost() int64 {
	const bookkeeping = 64 // bytes
	return int64(len(c.data)) + bookkeeping
}

// micros is d in microseconds, and 0 if it is negative.
func micros(d time.Duration) uint64 { return uint64(max(d.Microseconds(), 0)) }
