package bifaci

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/feed"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
	"github.com/pipe-cartridge/pipe/stages"
)

// maxReference bounds the value of a reference, bytes.
const maxReference = 1 << 20

// references are the input streams of a request that stand for something else: paths of files, and selectors of live feeds.
// They are resolved when the handler asks for the stream, on its goroutine; what they have open ends with the request.
type references struct {
	turn chan struct{} // capacity 1: one goroutine resolves at a time; made by the first reference

	mu       sync.Mutex
	resolved map[int]*InputStream // by place among the request's streams
	open     []itemSource
	feeds    []*feed.Feed
	taps     map[string]*tap // by stream id of the reference
}

// tap ends a live feed as CLOSE_STREAM does, also one that is not open yet.
type tap struct {
	ctx   context.Context
	close context.CancelFunc
}

// tapOf gives the tap of a reference stream.
func (r *references) tapOf(stream string) *tap {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taps == nil {
		r.taps = make(map[string]*tap)
	}
	t := r.taps[stream]
	if t == nil {
		t = new(tap)
		t.ctx, t.close = context.WithCancel(context.Background())
		r.taps[stream] = t
	}
	return t
}

// end closes what the references have open, when the handler has returned, and waits for it.
func (r *references) end() {
	r.mu.Lock()
	open, feeds, taps := r.open, r.feeds, r.taps
	r.open, r.feeds, r.taps = nil, nil, nil
	r.mu.Unlock()
	for _, s := range open {
		s.discard()
	}
	for _, f := range feeds {
		f.Cancel(ErrClosed)
	}
	for _, f := range feeds {
		<-f.Done()
	}
	for _, t := range taps {
		t.close()
	}
}

// endReferences ends what the request's references have open.
func (w *wireRequest) endReferences() {
	w.mu.Lock()
	refs := w.references
	w.mu.Unlock()
	if refs != nil {
		refs.end()
	}
}

// isReference tells most labels apart without parsing them.
func isReference(label string) (media urn.Media, live, path bool) {
	label = strings.ToLower(label)
	if !strings.Contains(label, "live") && !strings.Contains(label, "file-path") {
		return media, false, false
	}
	media, err := urn.ParseMedia(label)
	if err != nil {
		return media, false, false
	}
	return media, media.IsLiveFeed(), media.IsFilePath()
}

// resolve gives what a stream of the wire stands for; an ordinary stream stands for itself.
func (w *wireRequest) resolve(ctx context.Context, n int, in *stages.Inbox) (*InputStream, error) {
	media, live, path := isReference(in.MediaURN())
	if !live && !path {
		return newWireStream(in)
	}
	refs := w.refs()
	select {
	case refs.turn <- struct{}{}:
		defer func() { <-refs.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	refs.mu.Lock()
	s := refs.resolved[n]
	refs.mu.Unlock()
	if s != nil {
		return s, nil
	}
	var err error
	if live {
		s, err = w.openFeed(ctx, in, media)
	} else {
		s, err = w.openPaths(ctx, in, media)
	}
	if err != nil {
		return nil, err
	}
	refs.mu.Lock()
	refs.resolved[n] = s
	refs.open = append(refs.open, s.src)
	refs.mu.Unlock()
	return s, nil
}

// refs makes the request's references on first use.
func (w *wireRequest) refs() *references {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.references == nil {
		w.references = &references{turn: make(chan struct{}, 1), resolved: make(map[int]*InputStream)}
	}
	return w.references
}

// readReference reads the whole value of a reference.
func (w *wireRequest) readReference(ctx context.Context, in *stages.Inbox) ([]byte, error) {
	s, err := newWireStream(in)
	if err != nil {
		return nil, err
	}
	var value []byte
	for it, err := range s.Items(ctx) {
		if err != nil {
			return nil, err
		}
		value = append(value, it.Bytes...)
		it.Release()
		if len(value) > maxReference {
			fault := protocolError("the value of the reference %s exceeds %d bytes", in.MediaURN(), maxReference)
			w.link.poison(w, fault)
			return nil, fault
		}
	}
	return value, nil
}

// argument is the cap's argument that a reference is the value of.
func (w *wireRequest) argument(media urn.Media) (manifest.Arg, bool) {
	if w.route.def == nil {
		return manifest.Arg{}, false
	}
	for _, a := range w.route.def.Args {
		if m, err := urn.ParseMedia(a.MediaURN); err == nil && m.Equivalent(media) {
			return a, true
		}
	}
	return manifest.Arg{}, false
}

// openPaths resolves a file-path reference: the content of one file, or of several as the items of a sequence. Files are
// opened when they are read.
func (w *wireRequest) openPaths(ctx context.Context, in *stages.Inbox, media urn.Media) (*InputStream, error) {
	arg, ok := w.argument(media)
	content, hasContent := arg.ContentURN()
	if !ok || !hasContent {
		return newWireStream(in)
	}
	value, err := w.readReference(ctx, in)
	if err != nil {
		return nil, err
	}
	patterns := []string{string(value)}
	if arg.IsSequence {
		patterns = pathLines(string(value))
	}
	files, err := expandPaths(patterns)
	if err == nil && !arg.IsSequence && len(files) != 1 {
		err = errors.New("several files where the argument takes one")
	}
	if err != nil {
		return nil, failure.Newf(failure.FilePath, failure.Input, "%w", err).ForArgument(in.MediaURN())
	}
	src := &fileSource{paths: files, argURN: in.MediaURN(), whole: arg.IsSequence, chunk: int(min(w.link.stages.Limits.MaxChunk, frame.MaxBody)),
		limit: w.link.c.opts.maxItemSize}
	return &InputStream{media: content, sequence: arg.IsSequence, src: src}, nil
}

// openFeed resolves a live reference: an unbounded sequence of what is captured, once its selector is complete.
func (w *wireRequest) openFeed(ctx context.Context, in *stages.Inbox, media urn.Media) (*InputStream, error) {
	ref := in.MediaURN()
	value, err := w.readReference(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := feed.Available(ref); err != nil {
		return nil, err
	}
	label, err := w.feedLabel(ref, media)
	if err != nil {
		return nil, err
	}
	selector, err := feed.ParseSelector(value)
	if err != nil {
		return nil, err
	}
	refs := w.refs()
	f, err := feed.Open(w.ctx, ref, selector, feed.WithOverruns(&w.link.overruns), feed.WithTap(refs.tapOf(in.ID()).ctx))
	if err != nil {
		return nil, err
	}
	refs.mu.Lock()
	refs.feeds = append(refs.feeds, f)
	refs.mu.Unlock()
	return &InputStream{media: label, meta: f.Meta(), sequence: true, unbounded: true, src: feedSource{f, w}}, nil
}

// feedLabel finds the argument that a live reference is for, and the label of what it delivers.
func (w *wireRequest) feedLabel(ref string, media urn.Media) (string, error) {
	mismatch := func(format string, args ...any) error {
		return failure.Newf(failure.FeedMismatch, failure.Internal, format, args...).ForArgument(ref)
	}
	arg, ok := w.argument(media)
	label := arg.StreamURN()
	switch {
	case ok && !arg.HasStdin():
		return "", mismatch("the argument %s has no stdin source, so nothing says what the feed delivers", arg.MediaURN)
	case !ok:
		content, _ := feed.ContentURN(ref)
		have, err := urn.ParseMedia(content)
		if err != nil || w.route.def == nil {
			return "", mismatch("the live reference %s fits no argument", ref)
		}
		var isMain bool
		if arg, isMain = w.route.def.MainInput(); !isMain {
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
	f *feed.Feed
	w *wireRequest
}

func (s feedSource) next(ctx context.Context) (Item, error) {
	s.w.flushGrants()
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
func (l *link) closeStream(f *frame.Frame) {
	w := l.find(f)
	if w == nil || w.stopped.Load() {
		return
	}
	named, hasName := "", f.Has.Has(frame.KeyStreamID)
	if hasName {
		named = string(f.StreamID)
	}
	if w.closeFeeds(func(id string) bool { return !hasName || id == named }) == 0 {
		l.c.opts.log.Info("close_stream finds no open feed", "rid", f.ID.String())
	}
}

// closeFeeds ends the live feeds of the references that match, and counts them.
func (w *wireRequest) closeFeeds(match func(id string) bool) (closed int) {
	for _, ref := range w.recv.Ended() {
		if _, live, _ := isReference(ref.MediaURN()); live && match(ref.ID()) {
			w.refs().tapOf(ref.ID()).close()
			closed++
		}
	}
	return closed
}
