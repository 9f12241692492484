package bifaci

import (
	"context"
	"errors"
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
	turn chan struct{}      // capacity 1: one goroutine resolves at a time; made by the first reference
	all  map[int]*reference // by place among the request's streams; guarded by turn

	mu    sync.Mutex
	open  []itemSource
	feeds []*feed.Feed
	taps  map[string]*tap // by stream id of the reference
}

// reference is one of them. Whoever gives up while it is being resolved leaves it to the next who asks.
type reference struct {
	wire   *InputStream // the value, as it comes
	value  []byte       // what was read of it
	stream *InputStream // what it stands for, when that is known
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
		t = newTap()
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
		t.shut()
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
	ref := refs.all[n]
	if ref == nil {
		wire, err := newWireStream(in)
		if err != nil {
			return nil, err
		}
		ref = &reference{wire: wire}
		refs.all[n] = ref
	}
	if ref.stream != nil {
		return ref.stream, nil
	}
	var s *InputStream
	var err error
	if live {
		s, err = w.openFeed(ctx, ref, in.ID(), media)
	} else {
		s, err = w.openPaths(ctx, ref, media)
	}
	if err != nil {
		return nil, err
	}
	ref.stream, ref.value = s, nil
	refs.mu.Lock()
	refs.open = append(refs.open, s.src)
	refs.mu.Unlock()
	return s, nil
}

// refs makes the request's references on first use.
func (w *wireRequest) refs() *references {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.references == nil {
		w.references = &references{turn: make(chan struct{}, 1), all: make(map[int]*reference)}
	}
	return w.references
}

// readReference reads the whole value of a reference.
func (w *wireRequest) readReference(ctx context.Context, ref *reference) ([]byte, error) {
	for it, err := range ref.wire.Items(ctx) {
		if err != nil {
			return nil, err
		}
		ref.value = append(ref.value, it.Bytes...)
		it.Release()
		if len(ref.value) > maxReference {
			fault := protocolError("the value of the reference %s exceeds %d bytes", ref.wire.MediaURN(), maxReference)
			w.link.poison(w, fault)
			return nil, fault
		}
	}
	return ref.value, nil
}

// argumentFor is the cap's argument that a reference is the value of.
func argumentFor(def *manifest.Cap, media urn.Media) (manifest.Arg, bool) {
	if def == nil {
		return manifest.Arg{}, false
	}
	for _, a := range def.Args {
		if m, err := urn.ParseMedia(a.MediaURN); err == nil && m.Equivalent(media) {
			return a, true
		}
	}
	return manifest.Arg{}, false
}

// openPaths resolves a file-path reference: the content of one file, or of several as the items of a sequence. Files are
// opened when they are read.
func (w *wireRequest) openPaths(ctx context.Context, ref *reference, media urn.Media) (*InputStream, error) {
	arg, ok := argumentFor(w.route.def, media)
	content, hasContent := arg.ContentURN()
	if !ok || !hasContent {
		return ref.wire, nil
	}
	value, err := w.readReference(ctx, ref)
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
		return nil, failure.Newf(failure.FilePath, failure.Input, "%w", err).ForArgument(ref.wire.MediaURN())
	}
	src := &fileSource{paths: files, argURN: ref.wire.MediaURN(), whole: arg.IsSequence, chunk: int(min(w.link.stages.Limits.MaxChunk, frame.MaxBody)),
		limit: w.link.c.opts.maxItemSize}
	return &InputStream{media: content, sequence: arg.IsSequence, src: src}, nil
}
