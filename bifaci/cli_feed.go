package bifaci

import (
	"context"
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/feed"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// The words with which any command whose input is a sequence takes a live feed instead, unless its cap declares them for itself.
const (
	feedFlag         = "--feed"          // a family by name, such as microphone, or a live reference
	feedSelectorFlag = "--feed-selector" // its selector, as JSON
)

// cliFeed is a live feed that a command line asks for. It is opened when the handler asks for it.
type cliFeed struct {
	ref      string
	selector feed.Selector
	tap      *tap // the interrupt shuts it
}

// feedWords finds the live feed of the words and the argument that takes it. fed is -1 when there is none.
func (r *cliRun) feedWords(def *manifest.Cap, args []manifest.Arg, words []string) (fed int, v *cliValue, err error) {
	name, ok := flagValue(words, feedFlag)
	if !ok || declares(args, feedFlag) {
		return -1, nil, nil
	}
	ref, media, err := liveReference(name)
	if err != nil {
		return -1, nil, err
	}
	var selector string
	if !declares(args, feedSelectorFlag) {
		selector, _ = flagValue(words, feedSelectorFlag)
	}
	label, live, err := r.liveFeed(def, ref, []byte(selector))
	if err != nil {
		return -1, nil, err
	}
	takes, own := argumentFor(def, media)
	for i, a := range args {
		if own && a.MediaURN == takes.MediaURN || !own && def.IsMainInput(a) {
			return i, &cliValue{arg: a, media: label, live: live, kind: fromFeed}, nil
		}
	}
	return -1, nil, failure.Newf(failure.FeedMismatch, failure.Internal, "the live reference %s fits no argument", ref).ForArgument(ref)
}

func declares(args []manifest.Arg, flag string) bool {
	for _, a := range args {
		if f, ok := a.Flag(); ok && f == flag {
			return true
		}
	}
	return false
}

// liveReference is the live reference that a word names: a family, or a reference itself.
func liveReference(word string) (ref string, media urn.Media, err error) {
	ref, ok := feed.Reference(word)
	if !ok {
		ref = word
	}
	media, err = urn.ParseMedia(ref)
	if err != nil || !media.IsLiveFeed() {
		return "", media, failure.Newf(failure.FeedUnavailable, failure.Environment, "there is no live feed %s; want %s, or a reference such as %s",
			quoted(word), strings.Join(feedNames(), ", "), "media:audio;live;microphone")
	}
	return ref, media, nil
}

func feedNames() []string { return []string{feed.Synthetic, feed.Microphone, feed.Webcam} }

// liveFeed checks what the words say about a feed; the feed is open to interrupts from then on.
func (r *cliRun) liveFeed(def *manifest.Cap, ref string, selector []byte) (label string, f *cliFeed, err error) {
	media, err := urn.ParseMedia(ref)
	if err != nil {
		return "", nil, err
	}
	label, s, err := liveInput(def, ref, media, selector, r.c.opts.feeds)
	if err != nil {
		return "", nil, err
	}
	f = &cliFeed{ref: ref, selector: s, tap: newTap()}
	r.mu.Lock()
	r.taps = append(r.taps, f.tap)
	r.mu.Unlock()
	return label, f, nil
}

// closeFeeds ends the live input of a command: live feeds are tapped off, and a streaming standard input ends as if it had been
// closed. It reports whether there was any that went on.
func (r *cliRun) closeFeeds() bool {
	closed := r.stdin.close()
	r.mu.Lock()
	taps := r.taps
	r.mu.Unlock()
	for _, t := range taps {
		closed = t.shut() || closed
	}
	return closed
}

// feed opens the feed of value n, once for the request.
func (p *cliPackage) feed(ctx context.Context, n int, v *cliValue) (*InputStream, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s := p.live[n]; s != nil {
		return s, nil
	}
	f, err := v.live.tap.open(ctx, p.life, v.live.ref, v.live.selector, p.run.c.opts.feeds...)
	if err != nil {
		return nil, err
	}
	s := liveStream(v.media, f, nil)
	p.live[n] = s
	p.mu.Lock()
	p.feeds = append(p.feeds, f)
	p.mu.Unlock()
	return s, nil
}

// feedsFor lists the families that a cap's input may come from, for its help.
func (c *Cartridge) feedsFor(def *manifest.Cap) (names []string) {
	for _, name := range feedNames() {
		ref, media, err := liveReference(name)
		if err != nil {
			continue
		}
		if _, _, err := liveInput(def, ref, media, nil, c.opts.feeds); err == nil {
			names = append(names, name)
		}
	}
	return names
}
