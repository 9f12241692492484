package stages

import (
	"bytes"
	"sync"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Bounds of a Tracer.
const (
	maxTracedFrames = 1024        // events that wait for the hook; more are missed, and counted
	maxTracedField  = 1 << 10     // bytes; a longer text or meta is left out
	tracePatience   = time.Second // how long Close waits for the hook
)

// Direction says which way a frame went, seen from this side of the link.
type Direction uint8

// The directions.
const (
	In Direction = iota
	Out
)

// String is "in" or "out".
func (d Direction) String() string {
	if d == In {
		return "in"
	}
	return "out"
}

// FrameEvent is one frame as a trace hook sees it.
type FrameEvent struct {
	Direction Direction
	// Time is when the frame was decoded, or when it was put in line for the writer.
	Time time.Time
	// Frame is the header: without the payload, and without every text and meta above 1 KiB. It shares nothing with the link.
	Frame frame.Frame
	// PayloadBytes is the length of the payload.
	PayloadBytes int
	// Missed is how many frames were not reported between the event before and this one, because the hook was slow.
	Missed uint64
}

// Tracer hands a link's frames to a hook, in the order in which they were decoded and put in line for the writer. The hook is
// called by one goroutine at a time and without any lock; a link never waits for it. A nil Tracer traces nothing.
type Tracer struct {
	hook func(FrameEvent)

	mu     sync.Mutex
	events []FrameEvent
	missed uint64
	idle   chan struct{} // not nil while the goroutine runs; closed when it ends
}

// NewTracer makes a tracer; without a hook it is nil.
func NewTracer(hook func(FrameEvent)) *Tracer {
	if hook == nil {
		return nil
	}
	return &Tracer{hook: hook}
}

// Frame reports one frame. It never waits.
func (t *Tracer) Frame(dir Direction, f *frame.Frame) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.events) >= maxTracedFrames {
		t.missed++
		return
	}
	t.events = append(t.events, FrameEvent{Direction: dir, Time: time.Now(), Frame: header(f), PayloadBytes: len(f.Payload), Missed: t.missed})
	t.missed = 0
	if t.idle == nil {
		t.idle = make(chan struct{})
		go t.report() // ends when everything is reported; Close waits for it
	}
}

// header copies a frame without its payload.
func header(f *frame.Frame) frame.Frame {
	h := *f
	h.Payload, h.Has = nil, f.Has.Without(frame.KeyPayload)
	for _, field := range []struct {
		key   frame.Key
		bytes *[]byte
	}{
		{frame.KeyMeta, &h.Meta}, {frame.KeyStreamID, &h.StreamID}, {frame.KeyMediaURN, &h.MediaURN}, {frame.KeyCap, &h.Cap},
		{frame.KeyContentType, &h.ContentType},
	} {
		switch {
		case !h.Has.Has(field.key):
			*field.bytes = nil // may be left from an earlier frame
		case len(*field.bytes) > maxTracedField:
			*field.bytes, h.Has = nil, h.Has.Without(field.key)
		default:
			*field.bytes = bytes.Clone(*field.bytes)
		}
	}
	return h
}

// report calls the hook for what waits.
func (t *Tracer) report() {
	var events []FrameEvent
	for {
		clear(events)
		t.mu.Lock()
		if len(t.events) == 0 {
			close(t.idle)
			t.idle = nil
			t.mu.Unlock()
			return
		}
		events, t.events = t.events, events[:0]
		t.mu.Unlock()
		for i := range events {
			t.hook(events[i])
		}
	}
}

// Close waits until everything is reported, for a hook that blocks at most a second; then it keeps its one goroutine. Nothing may be
// reported any more.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	idle := t.idle
	t.mu.Unlock()
	if idle == nil {
		return
	}
	timer := time.NewTimer(tracePatience)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}
