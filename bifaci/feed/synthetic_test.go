package feed

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func openSynthetic(ctx context.Context, tb testing.TB, paramText string, stop Stop, opts ...Option) *Feed {
	tb.Helper()
	f, err := Open(ctx, "media:live;synthetic", Selector{Params: params(tb, paramText), Stop: stop}, opts...)
	require.NoError(tb, err)
	return f
}

func TestSynthetic(t *testing.T) {
	t.Run("R-9.20 defaults", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := openSynthetic(t.Context(), t, `{}`, Stop{})
			opened := time.Now()
			items, end := readAll(t.Context(), f)
			assert.Equal(t, io.EOF, end)
			require.Len(t, items, 10)
			for i, it := range items {
				assert.Len(t, it.Data, 32)
				assert.Equal(t, int64(i)*10_000, it.Meta["pts_us"])
			}
			assert.Equal(t, 90*time.Millisecond, time.Since(opened), "item 9 comes 9 intervals after the start, and the end with it")
			assert.Equal(t, uint64(64), f.buf.ringItems)
		})
	})
	t.Run("R-9.21 four items at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var total stats.Overruns
			f := openSynthetic(t.Context(), t, `{"items":4,"interval_ms":0,"item_bytes":3}`, Stop{}, WithOverruns(&total))
			var got [][]byte
			for it, err := range f.Items(t.Context()) {
				require.NoError(t, err)
				got = append(got, it.Data)
			}
			assert.Equal(t, [][]byte{{0, 0, 0}, {1, 1, 1}, {2, 2, 2}, {3, 3, 3}}, got)
			assert.Zero(t, f.Overruns())
			assert.Zero(t, total.Total())
		})
	})
	t.Run("R-9.21 times and content far on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := openSynthetic(t.Context(), t, `{"items":300,"interval_ms":250,"item_bytes":1}`, Stop{})
			start := time.Now().UnixMicro()
			for i := range 300 {
				it, err := f.Next(t.Context())
				require.NoError(t, err)
				pts := int64(i) * 250_000
				assert.Equal(t, []byte{byte(i)}, it.Data)
				assert.Equal(t, frame.Meta{"seq": int64(i), "pts_us": pts, "capture_ts_us": start + pts}, it.Meta)
				assert.Equal(t, start+pts, time.Now().UnixMicro(), "produced when its time has come")
			}
			_, err := f.Next(t.Context())
			assert.Equal(t, io.EOF, err)
		})
	})
	t.Run("R-9.21 no item at all", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			items, end := readAll(t.Context(), openSynthetic(t.Context(), t, `{"items":0}`, Stop{}))
			assert.Empty(t, items)
			assert.Equal(t, io.EOF, end)
		})
	})
	t.Run("R-9.22 stream meta", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := openSynthetic(t.Context(), t, `{"interval_ms":25}`, Stop{})
			want := frame.Meta{"feed": "synthetic", "interval_ms": int64(25)}
			assert.Equal(t, want, f.Meta())
			f.Meta()["feed"] = "changed"
			assert.Equal(t, want, f.Meta(), "the caller gets a copy")
			f.Close()
			<-f.Done()
		})
	})
	t.Run("R-9.13 ring", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := openSynthetic(t.Context(), t, `{"items":100,"interval_ms":0,"ring":2}`, Stop{})
			<-f.Done()
			items, end := readAll(t.Context(), f)
			assert.Equal(t, io.EOF, end)
			assert.Equal(t, append(span(0, handOver), 98, 99), seqs(items))
			assert.Equal(t, uint64(90), f.Overruns())
		})
	})
	for name, bad := range map[string]string{
		"unknown":               `{"colour":1}`,
		"a name with its case":  `{"Items":1}`,
		"a string":              `{"items":"4"}`,
		"a fraction":            `{"items":4.0}`,
		"null":                  `{"interval_ms":null}`,
		"negative":              `{"interval_ms":-1}`,
		"an interval of ages":   `{"interval_ms":86400001}`,
		"items without content": `{"item_bytes":0}`,
		"items of 16 MiB + 1":   `{"item_bytes":16777217}`,
		"an empty ring":         `{"ring":0}`,
		"a ring that is a text": `{"ring":"64"}`,
		"a ring that is true":   `{"ring":true}`,
		"one bad beside good":   `{"items":4,"ring":64,"rate":1}`,
	} {
		t.Run("R-9.13 R-9.20 "+name, func(t *testing.T) {
			_, err := Open(t.Context(), "media:live;synthetic", Selector{Params: params(t, bad)})
			wantFailure(t, err, failure.FeedSelector, failure.Input, "selector")
		})
	}
	t.Run("R-9.13 the caller's params are left alone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := params(t, `{"ring":1,"items":1}`)
			f, err := Open(t.Context(), "media:live;synthetic", Selector{Params: p})
			require.NoError(t, err)
			<-f.Done()
			assert.Equal(t, params(t, `{"ring":1,"items":1}`), p)
		})
	})
}
