package bifaci

import (
	"context"
	"errors"
	"math"
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/stages"
)

func isBlank(s string) bool { return strings.TrimSpace(s) == "" }

// diagnostic makes a LOG record and refuses what a receiver would have to refuse.
func diagnostic(level string, class failure.Class, message, argURN string) (frame.LogRecord, error) {
	rec := frame.LogRecord{Level: level, Class: class, Message: message, ArgURN: argURN}
	if rec.IsProgress() {
		return rec, errors.New("log: the level progress belongs to Progress")
	}
	return rec, rec.Check()
}

func progressRecord(p float64, message string) (frame.LogRecord, error) {
	if math.IsNaN(p) {
		return frame.LogRecord{}, errors.New("progress: not a number")
	}
	if isBlank(message) {
		message = frame.LevelProgress
	}
	return frame.LogRecord{Level: frame.LevelProgress, Message: message, Progress: min(max(p, 0), 1)}, nil
}

// wireSink is the response stream of a request on a link: the sender, and the request's flow on which LOGs travel too.
type wireSink struct {
	*stages.Sender
	w *wireRequest
}

func (s wireSink) log(ctx context.Context, rec frame.LogRecord) error { return s.w.log(ctx, rec) }

func (s wireSink) finish(progress float64, message string) { s.w.finish(progress, message) }

// log sends a LOG on the request's flow. It waits for room in the lane only.
func (w *wireRequest) log(ctx context.Context, rec frame.LogRecord) error {
	if w.ended.Load() {
		w.link.Straggler(frame.TypeLog) // never an error
		return nil
	}
	b, err := w.link.lanes.Begin(ctx, w.flushGrants)
	if err != nil && ctx.Err() != nil && w.link.lanes.Err() == nil {
		b, err = w.link.lanes.Begin(context.WithoutCancel(ctx), w.flushGrants) // a cancelled handler may still log
	}
	if err != nil {
		return w.link.sendError(err, frame.TypeLog)
	}
	defer b.End()
	f := b.Frame(frame.TypeLog)
	f.Meta = frame.AppendLogMeta(nil, rec)
	f.Has = f.Has.With(frame.KeyMeta)
	return b.Put(&w.flow, f, nil)
}

// finish notes what END will say.
func (w *wireRequest) finish(progress float64, message string) {
	if math.IsNaN(progress) {
		progress = 1
	}
	w.mu.Lock()
	w.last = &lastWords{min(max(progress, 0), 1), message}
	w.mu.Unlock()
}

// classOf gives the class of a failure for a cascade.
func classOf(f *failure.Failure) failure.Class {
	if f == nil || !f.Class.Valid() {
		return failure.Internal
	}
	return f.Class
}
