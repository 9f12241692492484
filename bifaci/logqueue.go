package bifaci

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Bounds of a logQueue.
const (
	maxQueuedRecords = 256         // records; more are lost, and counted
	logPatience      = time.Second // how long the end of a run waits for the author's logger
)

// logQueue stands in front of the author's slog handler: the runtime logs from its reader and under way to a terminal, and a
// logger that blocks, such as one on a standard error that nobody reads, must hold up neither frames nor heartbeats.
type logQueue struct {
	slog.Handler
	backlog *logBacklog
}

// logBacklog is what all loggers derived from one share: the records that wait, and the one goroutine that hands them on, which is
// there while any do.
type logBacklog struct {
	mu      sync.Mutex
	records []queuedRecord
	lost    int
	idle    chan struct{} // not nil while the goroutine runs; closed when it ends
}

type queuedRecord struct {
	h slog.Handler
	r slog.Record
}

// queued puts a queue in front of log's handler.
func queued(log *slog.Logger) (*slog.Logger, *logBacklog) {
	b := new(logBacklog)
	return slog.New(logQueue{log.Handler(), b}), b
}

// Handle never waits for the handler behind it.
func (q logQueue) Handle(_ context.Context, r slog.Record) error {
	b := q.backlog
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.records) >= maxQueuedRecords {
		b.lost++
		return nil
	}
	b.records = append(b.records, queuedRecord{q.Handler, r.Clone()})
	if b.idle == nil {
		b.idle = make(chan struct{})
		go b.write() // ends when everything is written; drain waits for it
	}
	return nil
}

// WithAttrs implements [slog.Handler].
func (q logQueue) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logQueue{q.Handler.WithAttrs(attrs), q.backlog}
}

// WithGroup implements [slog.Handler].
func (q logQueue) WithGroup(name string) slog.Handler {
	return logQueue{q.Handler.WithGroup(name), q.backlog}
}

// write hands on what waits. What a handler returns is its author's business: there is nobody else to tell.
func (b *logBacklog) write() {
	for {
		b.mu.Lock()
		records, lost := b.records, b.lost
		b.records, b.lost = nil, 0
		if len(records) == 0 {
			close(b.idle)
			b.idle = nil
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		for _, r := range records {
			err := r.h.Handle(context.Background(), r.r)
			_ = err
		}
		if lost > 0 {
			last := records[len(records)-1]
			note := slog.NewRecord(last.r.Time, slog.LevelWarn, "messages were lost because the logger is slow", 0)
			note.AddAttrs(slog.Int("lost", lost))
			err := last.h.Handle(context.Background(), note)
			_ = err
		}
	}
}

// drain waits until everything is written, for a logger that blocks at most logPatience; then it keeps its one goroutine.
func (b *logBacklog) drain() {
	b.mu.Lock()
	idle := b.idle
	b.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-time.After(logPatience):
	}
}
