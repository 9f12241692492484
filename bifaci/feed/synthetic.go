package feed

import (
	"bytes"
	"context"
	"math"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Bounds of the synthetic feed's parameters; our choice, so that nobody asks for what cannot be had.
const (
	maxIntervalMS = 24 * 60 * 60 * 1000 // a day
	maxItemBytes  = 16 << 20
)

// synthetic is the feed that needs no device: items of known content at known times. It has one device, under
// whatever name.
type synthetic struct{}

// Open reads the parameters.
func (synthetic) Open(_ context.Context, s Selector) (Capture, error) {
	items, intervalMS, itemBytes := uint64(10), uint64(10), uint64(32)
	err := readParams(s.Params,
		param{"items", &items, 0, math.MaxUint64},
		param{"interval_ms", &intervalMS, 0, maxIntervalMS},
		param{"item_bytes", &itemBytes, 1, maxItemBytes})
	if err != nil {
		return Capture{}, err
	}
	p := &pattern{items: items, interval: time.Duration(intervalMS) * time.Millisecond, itemBytes: int(itemBytes)}
	return Capture{
		Meta: frame.Meta{"feed": "synthetic", "interval_ms": integer(intervalMS)},
		Run:  p.run,
	}, nil
}

// pattern is what a synthetic feed produces.
type pattern struct {
	items     uint64
	interval  time.Duration
	itemBytes int
}

// run produces item i at i intervals after the start. An item whose time has passed is produced at once.
func (p *pattern) run(ctx context.Context, to *Sink) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var pts time.Duration
	for i := uint64(0); i < p.items; i++ {
		if early := time.Until(to.Started().Add(pts)); early > 0 {
			timer.Reset(early)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return nil
			}
		}
		data := bytes.Repeat([]byte{byte(i)}, p.itemBytes) // i mod 256
		if !to.Push(Sample{Data: data, PTS: pts}) {
			return nil
		}
		pts += p.interval
	}
	return nil
}
