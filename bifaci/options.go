package bifaci

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/feed"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/stages"
)

// Defaults of the options.
const (
	defaultMaxItemSize       = 256 << 20 // bytes, R-6.29
	defaultMaxStreams        = 256
	defaultKeepaliveInterval = 5 * time.Second
)

type options struct {
	limits         frame.Limits
	log            *slog.Logger
	shutdownGrace  time.Duration
	maxStreams     int
	maxItemSize    int64
	maxQueued      int
	reorder        bool
	ageFlush       bool
	contractChecks bool
	keepalive      time.Duration
	watch          bool
	cliPolicy      *Policy
	feeds          []feed.Option // backends
	wrong          error         // of an option that cannot be taken; New returns it
	trace          func(FrameEvent)
	publish        func(fmt.Stringer)
}

func defaultOptions() options {
	return options{
		limits:      frame.DefaultLimits(),
		log:         slog.New(slog.DiscardHandler),
		maxStreams:  defaultMaxStreams,
		maxItemSize: defaultMaxItemSize,
		keepalive:   defaultKeepaliveInterval,
		watch:       true,
	}
}

// Option changes one setting of a [Cartridge].
type Option func(*options)

// WithLimits sets the limits that the cartridge proposes in its HELLO. The default is [frame.DefaultLimits].
func WithLimits(l frame.Limits) Option { return func(o *options) { o.limits = l } }

// WithLogger sends the runtime's own messages to log; nothing is logged per frame above debug. log may be slow, or block: it is
// called from one goroutine of its own, and what it cannot keep up with is lost. The default is silence.
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// WithShutdownGrace bounds the wait for handlers at the end of the link: after d their contexts are cancelled, after
// another d Serve returns an error although a handler still runs. The default, 0, waits without bound.
func WithShutdownGrace(d time.Duration) Option { return func(o *options) { o.shutdownGrace = d } }

// WithMaxStreamsPerRequest bounds the input streams of one request. The default is 256.
func WithMaxStreamsPerRequest(n int) Option { return func(o *options) { o.maxStreams = n } }

// WithMaxItemSize bounds one item of a sequence stream, in bytes. The default is 256 MiB; 0 means no bound.
func WithMaxItemSize(n int64) Option { return func(o *options) { o.maxItemSize = n } }

// WithMaxQueued bounds how many requests wait in line; one more is answered QUEUE_FULL. The default, 0, means no bound.
func WithMaxQueued(n int) Option { return func(o *options) { o.maxQueued = n } }

// WithReorder puts the reorder stage between decode and route, for transports that may change the order of frames
// . It is off by default: a pipe is ordered.
func WithReorder(on bool) Option { return func(o *options) { o.reorder = on } }

// WithAgeFlush sends coalesced bytes 20 ms after the oldest of them was written, without waiting for a next write.
func WithAgeFlush(on bool) Option { return func(o *options) { o.ageFlush = on } }

// WithContractChecks refuses an output start that breaks the cap's output definition, instead of reporting it.
func WithContractChecks(on bool) Option { return func(o *options) { o.contractChecks = on } }

// WithProcessorWatch switches the processor watch of [Cartridge.Main] and [Cartridge.Run] on or off. While handlers compute on every
// processor it gives the Go scheduler more of them (GOMAXPROCS), so that the reader's goroutine, which answers heartbeats, need
// not wait for its turn behind them; it takes them back when they have done. It is on by default, and never runs when the
// environment sets GOMAXPROCS or in [Cartridge.Serve].
func WithProcessorWatch(on bool) Option { return func(o *options) { o.watch = on } }

// WithKeepaliveInterval sets how often RunWithKeepalive reports progress. The default is 5 s.
func WithKeepaliveInterval(d time.Duration) Option { return func(o *options) { o.keepalive = d } }

// WithCLIPolicy sets the network policy of command-line mode. Without it everything is allowed there.
func WithCLIPolicy(p Policy) Option { return func(o *options) { o.cliPolicy = &p } }

// WithFeedBackend opens the live feeds of a family ([feed.Synthetic], [feed.Microphone] or [feed.Webcam]) by b, instead of the
// built-in backend or where this build has none: a device of the author's own, or a capture that a test plays by hand. [New]
// fails for any other family.
func WithFeedBackend(family string, b feed.Backend) Option {
	return func(o *options) {
		if _, ok := feed.Reference(family); !ok || b == nil {
			o.wrong = fmt.Errorf("bifaci: WithFeedBackend(%q, %T): want %s, %s or %s and a backend", family, b, feed.Synthetic, feed.Microphone,
				feed.Webcam)
		}
		o.feeds = append(o.feeds, feed.WithBackend(family, b))
	}
}

// FrameEvent is one frame as the hook of [WithFrameTrace] sees it.
type FrameEvent = stages.FrameEvent

// WithFrameTrace calls hook for every frame of the link, in both directions, with its header and without its payload.
// hook may be slow, or block: it is called from one goroutine of its own, and how many frames it did not see is in the next event
// that it does see. It is not called after Serve has returned, unless it blocked for a second at the end.
func WithFrameTrace(hook func(FrameEvent)) Option { return func(o *options) { o.trace = hook } }

// WithExpvar calls publish once, when the cartridge is made, with a variable whose String is [Cartridge.Stats] as JSON. It is an
// expvar.Var: func(v fmt.Stringer) { expvar.Publish("cartridge", v) } publishes it.
func WithExpvar(publish func(v fmt.Stringer)) Option { return func(o *options) { o.publish = publish } }

// withoutCancel keeps ctx's values and drops its end, which the link watches once for all requests.
func withoutCancel(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }
