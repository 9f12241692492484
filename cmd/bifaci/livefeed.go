package main

import (
	"fmt"

	"github.com/pipe-cartridge/pipe/bifaci/feed"
	"github.com/pipe-cartridge/pipe/bifaci/host"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// liveFeed is what --feed asks for: the cartridge captures, and gets the reference with its selector.
type liveFeed struct {
	reference urn.Media
	selector  string
}

// newLiveFeed reads --feed and --feed-selector.
func newLiveFeed(name, selector string) (*liveFeed, error) {
	ref, known := feed.Reference(name)
	if !known {
		ref = name
	}
	media, err := urn.ParseMedia(ref)
	if err != nil || !media.IsLiveFeed() {
		return nil, fmt.Errorf("--feed %s: want %s, %s, %s or a live reference such as media:audio;live;microphone", name, feed.Synthetic, feed.Microphone, feed.Webcam)
	}
	if _, err := feed.ParseSelector([]byte(selector)); err != nil {
		return nil, fmt.Errorf("--feed-selector: %w", err)
	}
	return &liveFeed{media, selector}, nil
}

// take puts the feed in the place of the argument that is declared for it, else of the main input. Whether it fits is the
// cartridge's to say.
func (f *liveFeed) take(plan *callPlan, args []manifest.Arg, values []*string) {
	for i, a := range args {
		if m, err := urn.ParseMedia(a.MediaURN); err == nil && m.Equivalent(f.reference) {
			values[i] = &f.selector
			return
		}
	}
	plan.args = append(plan.args, host.Argument{MediaURN: f.reference.String(), Value: []byte(f.selector)})
	plan.inputGiven = true
}
