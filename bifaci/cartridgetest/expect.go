package cartridgetest

import (
	"fmt"
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

func (d *dialogue) grant(n uint64) {
	d.h.t.Helper()
	d.h.mu.Lock()
	stream := ""
	if k := len(d.in.streams); k > 0 {
		stream = d.in.streams[k-1].ID
	}
	d.h.mu.Unlock()
	d.grantStream(stream, n)
}

func (d *dialogue) grantStream(stream string, n uint64) {
	d.h.t.Helper()
	d.h.send(d.creditFrame(stream, n), false)
}

func (d *dialogue) wantStream() (a Answer) {
	d.h.t.Helper()
	d.h.awaitOf(d, "a STREAM_START", func() bool {
		if d.in.streamsTaken == len(d.in.streams) {
			return false
		}
		a = *d.in.streams[d.in.streamsTaken]
		d.in.streamsTaken++
		return true
	})
	return a
}

func (d *dialogue) wantItems(want []any) {
	d.h.t.Helper()
	for i, w := range want {
		var got Item
		over := false
		d.h.awaitOf(d, fmt.Sprintf("item %d of %d (%.200q)", i+1, len(want), fmt.Sprint(w)), func() bool {
			if d.in.itemsTaken < len(d.in.items) {
				got = d.in.items[d.in.itemsTaken]
				d.in.itemsTaken++
				return true
			}
			over = d.in.terminal != nil
			return over
		})
		if over {
			d.h.t.Fatalf("cartridgetest: request %s ended with %s before item %d of %d (%.200q)", short(d.id), d.terminal(), i+1,
				len(want), fmt.Sprint(w))
		}
		if !got.is(w) {
			d.h.t.Fatalf("cartridgetest: item %d of request %s is %.200q, want %.200q", i+1, short(d.id), got.String(), fmt.Sprint(w))
		}
	}
}

// rest takes all items that are there and joins their bytes.
func (d *dialogue) rest() string {
	d.h.mu.Lock()
	defer d.h.mu.Unlock()
	var b strings.Builder
	for _, it := range d.in.items[d.in.itemsTaken:] {
		b.WriteString(it.String())
	}
	d.in.itemsTaken = len(d.in.items)
	return b.String()
}

func (d *dialogue) terminal() Frame {
	d.h.mu.Lock()
	defer d.h.mu.Unlock()
	return d.in.terminal
}

func (d *dialogue) awaitTerminal() (f Frame) {
	d.h.t.Helper()
	d.h.awaitOf(d, "END or ERR", func() bool {
		f = d.in.terminal
		return f != nil
	})
	return f
}

// wantEnd waits for END, of an answer or of a body.
func (d *dialogue) wantEnd(answer bool) map[string]any {
	d.h.t.Helper()
	f := d.awaitTerminal()
	if f.Type() != frame.TypeEnd {
		d.h.t.Fatalf("cartridgetest: request %s ended with %s, want END", short(d.id), f)
	}
	if code, ok := f.Meta()["exit_code"].(uint64); answer && (!ok || code != 0) {
		d.h.t.Fatalf("cartridgetest: request %s ended with %s, want exit_code 0", short(d.id), f)
	}
	d.h.mu.Lock()
	left := d.in.items[d.in.itemsTaken:]
	d.h.mu.Unlock()
	if len(left) > 0 {
		d.h.t.Fatalf("cartridgetest: %d items of request %s were not expected, the first is %.200q", len(left), short(d.id), left[0].String())
	}
	return f.Meta()
}

func (d *dialogue) wantLog(level string) (meta map[string]any) {
	d.h.t.Helper()
	over := false
	d.h.awaitOf(d, "a LOG of level "+level, func() bool {
		for d.in.logsTaken < len(d.in.logs) {
			f := d.in.logs[d.in.logsTaken]
			d.in.logsTaken++
			if f.Meta()["level"] == level {
				meta = f.Meta()
				return true
			}
		}
		over = d.in.terminal != nil
		return over
	})
	if over {
		d.h.t.Fatalf("cartridgetest: request %s ended with %s before a LOG of level %s", short(d.id), d.terminal(), level)
	}
	return meta
}

func (d *dialogue) wantGrants(stream string, want []uint64) {
	d.h.t.Helper()
	var got []uint64
	d.h.awaitOf(d, fmt.Sprintf("grants %v for stream %s", want, stream), func() bool {
		got = d.in.grants[stream]
		return len(got) >= len(want)
	})
	if fmt.Sprint(got[:len(want)]) != fmt.Sprint(want) {
		d.h.t.Fatalf("cartridgetest: the grants for stream %s of request %s are %v, want %v", stream, short(d.id), got, want)
	}
	d.h.mu.Lock()
	d.in.grants[stream] = d.in.grants[stream][len(want):]
	d.h.mu.Unlock()
}
