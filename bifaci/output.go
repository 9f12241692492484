package bifaci

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/stages"
)

// OutputStream is one outgoing stream: the response of a request, or an argument of a call. A data call waits while the
// receiver's window is full and ends early when the request ends; an error of a data call breaks the stream for
// good, so that what is missing can never pass for success. Safe for concurrent use; data calls are served in order.
type OutputStream struct {
	sink      outputSink
	ctx       context.Context // of calls without one of their own: the request's
	contract  contract        // asked before a start, R-6.35; nil when there is nothing to check
	keepalive time.Duration   // of RunWithKeepalive; 0 means the default
}

// outputSink is where an output goes: a wire stream, or standard output in CLI mode.
type outputSink interface {
	Start(ctx context.Context, m stages.Mode) error
	Started() bool
	Fresh() bool // neither started nor closed
	Write(ctx context.Context, p []byte) error
	EmitValue(ctx context.Context, v any) error
	EmitItem(ctx context.Context, v any, meta []byte) error
	Forward(ctx context.Context, p stages.Piece) error
	Flush(ctx context.Context) error
	Close(ctx context.Context) error
	log(ctx context.Context, rec frame.LogRecord) error
	finish(progress float64, message string)
}

// StartOption is how a stream is started; [Sequence] is one itself.
type StartOption func(*startConfig)

type startConfig struct {
	sequence bool
	meta     frame.Meta
}

// Sequence starts a stream of items instead of a run of bytes.
func Sequence(c *startConfig) { c.sequence = true }

// WithMeta gives the stream meta.
func WithMeta(m frame.Meta) StartOption { return func(c *startConfig) { c.meta = m } }

// Start sends STREAM_START for a stream of promised length, at once. It is optional: the first data call starts the stream
// in its own mode. A second start of either kind returns [ErrStarted].
func (o *OutputStream) Start(opts ...StartOption) error { return o.start(false, opts) }

// StartUnbounded is Start without a promise of length. The cap's output should declare streaming.
func (o *OutputStream) StartUnbounded(opts ...StartOption) error { return o.start(true, opts) }

func (o *OutputStream) start(unbounded bool, opts []StartOption) error {
	var c startConfig
	for _, opt := range opts {
		opt(&c)
	}
	m := stages.Mode{Sequence: c.sequence, Unbounded: unbounded}
	if c.meta != nil {
		raw, err := frame.AppendMeta(nil, c.meta)
		if err != nil {
			return fmt.Errorf("stream meta: %w", err)
		}
		m.Meta = raw
	}
	if err := o.audit(c.sequence, unbounded); err != nil {
		return err
	}
	return o.sink.Start(o.ctx, m)
}

// audit asks the contract before a stream is started by a start or by its first data call.
func (o *OutputStream) audit(sequence, unbounded bool) error {
	if o.contract == nil || o.sink.Started() {
		return nil
	}
	return o.contract.check(sequence, unbounded)
}

// Write sends bytes under the request's context. Small writes coalesce into chunks of 4 KiB and more; there is no timer, so
// a handler that pauses on a live stream should Flush.
func (o *OutputStream) Write(p []byte) (int, error) { return o.WriteContext(o.ctx, p) }

// WriteContext is Write under a context of the caller's.
func (o *OutputStream) WriteContext(ctx context.Context, p []byte) (int, error) {
	if o.contract != nil {
		if err := o.audit(false, false); err != nil {
			return 0, err
		}
	}
	if err := o.sink.Write(ctx, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// EmitCBOR sends one value on a scalar stream: a byte string as Write does, text as pieces of text, an array element by
// element, a map entry by entry, anything else as one chunk.
func (o *OutputStream) EmitCBOR(ctx context.Context, v any) error {
	if err := o.audit(false, false); err != nil {
		return err
	}
	return o.sink.EmitValue(ctx, v)
}

// EmitItem sends one item of a sequence, with meta or nil. It is never delayed.
func (o *OutputStream) EmitItem(ctx context.Context, v any, meta frame.Meta) error {
	if err := o.audit(true, false); err != nil {
		return err
	}
	var raw []byte
	if meta != nil {
		var err error
		if raw, err = frame.AppendMeta(nil, meta); err != nil {
			return fmt.Errorf("item meta: %w", err)
		}
	}
	return o.sink.EmitItem(ctx, v, raw)
}

// EmitAll emits every value of seq as an item without meta; an error of seq ends it and is returned.
func (o *OutputStream) EmitAll(ctx context.Context, seq iter.Seq2[any, error]) error {
	for v, err := range seq {
		if err != nil {
			return err
		}
		if err := o.EmitItem(ctx, v, nil); err != nil {
			return err
		}
	}
	return nil
}

// Forward sends a piece of an input stream on, without a copy and without hashing it again. The output has the input's mode;
// start it so when it is a sequence. The piece is used up.
func (o *OutputStream) Forward(ctx context.Context, p Piece) error { return o.sink.Forward(ctx, p.p) }

// Flush sends what small writes have left.
func (o *OutputStream) Flush(ctx context.Context) error { return o.sink.Flush(ctx) }

// Close flushes and ends the stream. It is optional and idempotent; a stream that was never started stays so. Data calls
// after it return [ErrClosed].
func (o *OutputStream) Close(ctx context.Context) error { return o.sink.Close(ctx) }

// Finish sets what END says; the last call wins. Without it progress is 1.0 and there is no message.
func (o *OutputStream) Finish(progress float64, message string) { o.sink.finish(progress, message) }

// Log sends a LOG with the given level ("debug", "info", "warn", "error", "status", or any other but "progress"). It needs no
// credit and works while data waits. After the request's terminal it does nothing and returns nil.
func (o *OutputStream) Log(level string, class failure.Class, message string) error {
	rec, err := diagnostic(level, class, message, "")
	if err != nil {
		return err
	}
	return o.sink.log(o.ctx, rec)
}

// LogForArgument is Log with the media URN of the argument it is about.
func (o *OutputStream) LogForArgument(level string, class failure.Class, message, argURN string) error {
	if isBlank(argURN) {
		return fmt.Errorf("log: the argument URN is blank")
	}
	rec, err := diagnostic(level, class, message, argURN)
	if err != nil {
		return err
	}
	return o.sink.log(o.ctx, rec)
}

// Progress sends a progress LOG. p is clamped to 0…1, NaN is an error; values need not grow. An empty message becomes
// "progress".
func (o *OutputStream) Progress(p float64, message string) error {
	rec, err := progressRecord(p, message)
	if err != nil {
		return err
	}
	return o.sink.log(o.ctx, rec)
}
