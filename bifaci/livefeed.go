package bifaci

import (
	"context"
	"io"
	"sync"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/feed"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
	"github.com/pipe-cartridge/pipe/stages"
)

// tap ends a live feed as CLOSE_STREAM does, also one whose device is still being opened or that nobody has asked for yet.
type tap struct {
	ctx    context.Context // of the tap alone; ends when it is shut
	cancel context.CancelFunc

	mu   sync.Mutex
	feed *feed.Feed // guarded by mu: nil while the device is not open
}

func newTap() *tap {
	t := new(tap)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// opened says which feed the tap is of.
func (t *tap) opened(f *feed.Feed) {
	t.mu.Lock()
	t.feed = f
	t.mu.Unlock()
}

// shut ends the feed, now or as soon as it is open. It reports whether it had not ended before.
func (t *tap) shut() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return false
	}
	t.cancel()
	if t.feed == nil {
		return true
	}
	select {
	case <-t.feed.Done():
		return false
	default:
		t.feed.Close() // the tap does it too, a moment later
		return true
	}
}

// open opens the feed of a tap. It waits for the device under ctx; the feed lives as long as life does, which ends.
func (t *tap) open(ctx, life context.Context, ref string, selector feed.Selector, opts ...feed.Option) (*feed.Feed, error) {
	life, giveUp := context.WithCancelCause(life)
	stop := context.AfterFunc(ctx, func() { giveUp(context.Cause(ctx)) })
	f, err := feed.Open(life, ref, selector, append(opts[:len(opts):len(opts)], feed.WithTap(t.ctx))...)
	if err != nil {
		stop()
		giveUp(err)
		return nil, err
	}
	if !stop() { // whoever asked has left; the next one opens it again
		giveUp(context.Cause(ctx))
		<-f.Done()
		return nil, context.Cause(ctx)
	}
	t.opened(f)
	return f, nil
}

// openFeed resolves a live reference: an unbounded sequence of what is captured, once its selector is complete.
func (w *wireRequest) openFeed(ctx context.Context, ref *reference, id string, media urn.Media) (*InputStream, error) {
	value, err := w.readReference(ctx, ref)
	if err != nil {
		return nil, err
	}
	backends := w.link.c.opts.feeds
	label, selector, err := liveInput(w.route.def, ref.wire.MediaURN(), media, value, backends)
	if err != nil {
		return nil, err
	}
	refs := w.refs()
	f, err := refs.tapOf(id).open(ctx, w.ctx, ref.wire.MediaURN(), selector, append(backends[:len(backends):len(backends)],
		feed.WithOverruns(&w.link.overruns))...)
	if err != nil {
		return nil, err
	}
	refs.mu.Lock()
	refs.feeds = append(refs.feeds, f)
	refs.mu.Unlock()
	return liveStream(label, f, w.flushGrants), nil
}

// liveInput checks a live reference and its value: there are such feeds, an argument takes one, and the selector
// says what it may.
func liveInput(def *manifest.Cap, ref string, media urn.Media, value []byte, backends []feed.Option) (label string, s feed.Selector, err error) {
	if err := feed.Available(ref, backends...); err != nil {
		return "", s, err
	}
	if label, err = feedLabel(def, ref, media); err != nil {
		return "", s, err
	}
	s, err = feed.ParseSelector(value)
	return label, s, err
}

// liveStream is an open feed as an input stream.
func liveStream(label string, f *feed.Feed, beforeWait func()) *InputStream {
	return &InputStream{media: label, meta: f.Meta(), sequence: true, unbounded: true, src: feedSource{f, beforeWait}}
}

// feedLabel finds the argument that a live reference is for, and the label of what it delivers.
func feedLabel(def *manifest.Cap, ref string, media urn.Media) (string, error) {
	mismatch := func(format string, args ...any) error {
		return failure.Newf(failure.FeedMismatch, failure.Internal, format, args...).ForArgument(ref)
	}
	arg, ok := argumentFor(def, media)
	label := arg.StreamURN()
	switch {
	case ok && !arg.HasStdin():
		return "", mismatch("the argument %s has no stdin source, so nothing says what the feed delivers", arg.MediaURN)
	case !ok:
		content, _ := feed.ContentURN(ref)
		have, err := urn.ParseMedia(content)
		if err != nil || def == nil {
			return "", mismatch("the live reference %s fits no argument", ref)
		}
		var isMain bool
		if arg, isMain = def.MainInput(); !isMain {
			return "", mismatch("the live reference %s fits no argument", ref)
		}
		want, err := urn.ParseMedia(arg.MediaURN)
		if err != nil || !have.ConformsTo(want) {
			return "", mismatch("the live reference %s delivers %s, which is no %s", ref, content, arg.MediaURN)
		}
		label = content
	}
	if !arg.IsSequence {
		return "", mismatch("the argument %s is no sequence, and a feed delivers items", arg.MediaURN)
	}
	return label, nil
}

// feedSource reads a live feed.
type feedSource struct {
	f          *feed.Feed
	beforeWait func() // grants what is pending; nil in CLI mode
}

func (s feedSource) next(ctx context.Context) (Item, error) {
	if s.beforeWait != nil {
		s.beforeWait()
	}
	it, err := s.f.Next(ctx)
	if err != nil {
		return Item{}, err
	}
	return Item{Bytes: it.Data, Meta: it.Meta}, nil
}

func (s feedSource) piece(ctx context.Context) (stages.Piece, error) {
	it, err := s.next(ctx)
	if err != nil {
		return stages.Piece{}, err
	}
	meta, err := frame.AppendMeta(nil, it.Meta)
	if err != nil {
		return stages.Piece{}, err
	}
	return stages.NewPiece(append(frame.AppendBytesHead(nil, len(it.Bytes)), it.Bytes...), true).WithMeta(meta), nil
}

func (s feedSource) discard() { s.f.Cancel(io.EOF) }

// closeStream takes a CLOSE_STREAM: it ends the live feed of the named reference, or of all, whose STREAM_END was routed before
// . Nothing else is touched.
func (l *link) closeStream(f *frame.Frame) stats.Fate {
	w, fate := l.find(f)
	if w == nil || w.stopped.Load() {
		return fate
	}
	named, hasName := "", f.Has.Has(frame.KeyStreamID)
	if hasName {
		named = string(f.StreamID)
	}
	if w.closeFeeds(func(id string) bool { return !hasName || id == named }) == 0 {
		l.c.opts.log.Info("close_stream finds no open feed", "rid", f.ID.String())
	}
	return fate
}

// closeFeeds ends the live feeds of the references that match, and counts those that were open.
func (w *wireRequest) closeFeeds(match func(id string) bool) (closed int) {
	for _, ref := range w.recv.Ended() {
		if _, live, _ := isReference(ref.MediaURN()); live && match(ref.ID()) && w.refs().tapOf(ref.ID()).shut() {
			closed++
		}
	}
	return closed
}
