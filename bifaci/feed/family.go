package feed

import (
	"context"
	"sync"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// The names of the families, which are also how a command line speaks of them.
const (
	Synthetic  = "synthetic"
	Microphone = "microphone"
	Webcam     = "webcam"
)

// family is a kind of live feed.
type family struct {
	name    string
	pattern urn.Media // accepts the references
	content string    // what the feed delivers
	backend Backend   // nil where this build has none
}

// families is the closed set of. It never changes.
var families = sync.OnceValue(func() []family {
	return []family{
		{Synthetic, reference("media:live;synthetic"), "media:feed-frames", synthetic{}},
		{Microphone, reference("media:audio;live;microphone"), "media:audio-frames;pcm", microphone{}},
		{Webcam, reference("media:image;live;webcam"), "media:image;video-frame", nil},
	}
})

func reference(pattern string) urn.Media {
	m, err := urn.ParseMedia(pattern)
	if err != nil {
		panic(err) // a constant of this file
	}
	return m
}

// familyOf finds the first family whose pattern accepts the reference.
func familyOf(refURN string) (family, bool) {
	ref, err := urn.ParseMedia(refURN)
	if err != nil {
		return family{}, false
	}
	for _, f := range families() {
		if f.pattern.Accepts(ref) {
			return f, true
		}
	}
	return family{}, false
}

// ContentURN gives the media URN of what a live-feed reference delivers. It is known in every build, also where the
// device cannot be opened. False means that no family accepts the reference.
func ContentURN(refURN string) (contentURN string, ok bool) {
	f, ok := familyOf(refURN)
	return f.content, ok
}

// Reference gives the plain reference of a family, such as media:audio;live;microphone of [Microphone]. False means that there
// is no such family.
func Reference(familyName string) (refURN string, ok bool) {
	for _, f := range families() {
		if f.name == familyName {
			return f.pattern.String(), true
		}
	}
	return "", false
}

// Available returns nil if feeds can be opened for the reference, by this build or by [WithBackend], and else the failure of
// FEED_UNAVAILABLE, class environment, naming the reference. Whether a device is there is only known when it is opened.
func Available(refURN string, opts ...Option) error {
	_, err := backendFor(refURN, newOptions(opts))
	return err
}

func backendFor(refURN string, o options) (Backend, error) {
	f, known := familyOf(refURN)
	own := o.backends[f.name]
	var why string
	switch {
	case !known:
		why = "no family of live feeds accepts it"
	case own != nil:
		return own, nil
	case f.backend == nil:
		why = "this build has no backend for " + f.pattern.String()
	default:
		return f.backend, nil
	}
	return nil, unavailable("live feed %s: %s", refURN, why).ForArgument(refURN)
}

// Open opens the feed that a reference and its selector stand for. See [New], which it is for the backend of its family;
// each failure names the reference and blames it as the argument. A reference without a backend is the failure of
// [Available].
func Open(ctx context.Context, refURN string, s Selector, opts ...Option) (*Feed, error) {
	b, err := backendFor(refURN, newOptions(opts))
	if err != nil {
		return nil, err
	}
	f, err := New(ctx, b, s, opts...)
	switch {
	case err == nil:
		return f, nil
	case ctx.Err() != nil:
		return nil, err
	}
	named := failure.From(err).ForArgument(refURN)
	named.Message, named.Err = "live feed "+refURN+": "+named.Message, err
	return nil, named
}

// unavailable is the failure of.
func unavailable(format string, args ...any) *failure.Failure {
	return failure.Newf(failure.FeedUnavailable, failure.Environment, format, args...)
}
