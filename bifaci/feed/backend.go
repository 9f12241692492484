package feed

import (
	"context"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
)

// Backend is a kind of device.
type Backend interface {
	// Open makes the device that s asks for ready to capture, or fails without leaving anything behind. It may block; ctx
	// releases it, and ends when the capture shall stop. "ring" is no longer among the params; one that the backend does
	// not know is an error. An error that is not a [failure.Classified] one becomes FEED_UNAVAILABLE, class environment.
	Open(ctx context.Context, s Selector) (Capture, error)
}

// Capture is a device that is ready.
type Capture struct {
	// Meta is the meta of the stream: what is really captured, which need not be what was asked for.
	Meta frame.Meta
	// Run captures into the sink until ctx, that of Open, ends, [Sink.Push] returns false or the device is through, and
	// releases the device before it returns. nil is the device's own end, an error its failure, and either means nothing
	// when the feed has ended otherwise. It is called exactly once, even when nothing shall be captured.
	Run func(ctx context.Context, to *Sink) error
}

// Option changes what [Open] and [New] do.
type Option func(*options)

type options struct {
	total    *stats.Overruns
	tap      context.Context
	backends map[string]Backend // by family; instead of the built-in ones
}

func newOptions(opts []Option) (o options) {
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithOverruns gives the total in which lost items are counted too. The default counts for the feed only.
func WithOverruns(total *stats.Overruns) Option {
	return func(o *options) { o.total = total }
}

// WithTap makes the end of tap close the feed, as [Feed.Close] does. A tap that has ended before the device is open lets
// it open and then captures nothing. The default is none.
func WithTap(tap context.Context) Option {
	return func(o *options) { o.tap = tap }
}

// WithBackend makes [Open] open the feeds of a family ([Synthetic], [Microphone], [Webcam]) by b, instead of the built-in backend
// or where this build has none. What the family delivers stays as it is. A name of no family has no effect.
func WithBackend(familyName string, b Backend) Option {
	return func(o *options) {
		if o.backends == nil {
			o.backends = make(map[string]Backend)
		}
		o.backends[familyName] = b
	}
}
