package stages

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// call is one data call on a sender.
type call struct {
	name string // write, value, item, flush
	v    any
	meta []byte
}

func drawCalls(t *rapid.T, sequence bool, most int) (calls []call) {
	names := []string{"write", "write", "value", "flush"}
	if sequence {
		names = []string{"item"}
	}
	for i := range rapid.IntRange(0, 10).Draw(t, "calls") {
		c := call{name: rapid.SampledFrom(names).Draw(t, "call")}
		size := min(most, rapid.SampledFrom([]int{0, 1, 10, 2000, 4095, 4096, 8300, 60_000}).Draw(t, "size"))
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			c.v = bytes.Repeat([]byte{byte('a' + i)}, size)
		case 1:
			c.v = strings.Repeat(rapid.SampledFrom([]string{"x", "ö", "€", "🎈"}).Draw(t, "rune"), size/4)
		case 2:
			c.v = []any{i, "text", []byte("bytes"), []any{nil, true}}
		case 3:
			c.v = map[string]any{"key": i, "other": []byte("v")}
		}
		if c.name == "write" {
			c.v = bytes.Repeat([]byte{byte('A' + i)}, size)
		}
		if sequence && rapid.Bool().Draw(t, "with meta") {
			c.meta = encoded(t, map[string]string{"m": strings.Repeat("m", min(size, 100))})
		}
		calls = append(calls, c)
	}
	return calls
}

func (c call) do(ctx context.Context, s *Sender) error {
	switch c.name {
	case "write":
		return s.Write(ctx, c.v.([]byte))
	case "value":
		return s.EmitValue(ctx, c.v)
	case "item":
		return s.EmitItem(ctx, c.v, c.meta)
	}
	return s.Flush(ctx)
}

// says is what a scalar call means to a reader that concatenates, as scalarValue writes it.
func (c call) says(t require.TestingT) []byte {
	other := func(v any) []byte { return []byte(fmt.Sprintf("<%x>", encoded(t, v))) }
	if c.name == "flush" {
		return nil
	}
	element := func(v any) []byte {
		switch v := v.(type) {
		case []byte:
			return v
		case string:
			return []byte(v)
		}
		return other(v)
	}
	switch v := c.v.(type) {
	case []any:
		var all []byte
		for _, e := range v {
			all = append(all, element(e)...)
		}
		return all
	case map[string]any: // entries in the order of their keys
		return append(other([]any{"key", v["key"]}), other([]any{"other", v["other"]})...)
	default:
		return element(v)
	}
}

// Any calls with any limits: the frames say what the calls said, in order, numbered without gap, counted exactly, and none is
// larger than max_frame.
func TestSenderR6_37_R6_39_R6_40_R6_41_R6_43_AnyCallsAnyLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := withCredit(1 << 30)
		limits.MaxChunk = rapid.SampledFrom([]uint64{1, 5, 100, 4000, 5000, 1 << 18}).Draw(t, "max_chunk")
		limits.MaxFrame = rapid.SampledFrom([]uint64{700, 5000, 3_670_016}).Draw(t, "max_frame")
		sequence := rapid.Bool().Draw(t, "sequence")
		mode := Mode{Sequence: sequence, Unbounded: rapid.Bool().Draw(t, "unbounded")}
		explicit := mode.Unbounded || rapid.Bool().Draw(t, "explicit start")
		calls := drawCalls(t, sequence, 200*int(limits.MaxChunk))
		l := newTestLink(limits).run()
		s := l.sender(nil)
		if explicit {
			require.NoError(t, s.Start(t.Context(), mode))
		}
		var want []byte
		items := &naive{sequence: true}
		for _, c := range calls {
			require.NoError(t, c.do(t.Context(), s))
			if sequence {
				items.take(encoded(t, c.v), c.meta)
			} else {
				want = append(want, c.says(t)...)
			}
		}
		require.NoError(t, s.Close(t.Context()))
		require.NoError(t, s.Close(t.Context()), "again")
		require.ErrorIs(t, s.Write(t.Context(), []byte("late")), ErrClosed)
		require.ErrorIs(t, s.EmitItem(t.Context(), 1, nil), ErrClosed)
		require.ErrorIs(t, s.Start(t.Context(), mode), ErrClosed)
		frames := l.finish(t)

		wrote := false // a flush alone starts nothing
		for _, c := range calls {
			wrote = wrote || c.name != "flush"
		}
		if !explicit && !wrote {
			require.Empty(t, frames, "a stream that was never started")
			return
		}
		for i, w := range frames {
			require.LessOrEqual(t, uint64(w.size), limits.MaxFrame)
			require.Equal(t, uint64(i), w.seq)
			require.Equal(t, testStream, w.stream)
		}
		start, chunks, end := frames[0], frames[1:len(frames)-1], frames[len(frames)-1]
		require.Equal(t, frame.TypeStreamStart, start.typ)
		require.Equal(t, sequence, start.fields[uint64(frame.KeyIsSequence)])
		require.Equal(t, mode.Unbounded, start.has(frame.KeyUnbounded))
		require.Equal(t, frame.TypeStreamEnd, end.typ)
		require.Equal(t, mode.Unbounded, !end.has(frame.KeyChunkCount))
		if !mode.Unbounded {
			require.Equal(t, uint64(len(chunks)), end.uint(frame.KeyChunkCount))
		}
		got := &naive{sequence: sequence}
		for i, w := range chunks {
			require.Equal(t, frame.TypeChunk, w.typ)
			require.Equal(t, uint64(i), w.uint(frame.KeyChunkIndex))
			var meta []byte
			if w.meta != nil {
				meta = encoded(t, w.meta)
			}
			if sequence {
				require.LessOrEqual(t, uint64(len(w.payload)), limits.MaxChunk)
				require.True(t, w.meta == nil || len(got.bytes) == 0, "meta on a later fragment")
			} else {
				requireScalarCut(t, w.payload, int(limits.MaxChunk))
			}
			got.take(w.payload, meta)
		}
		if sequence {
			require.Equal(t, items.items, got.items)
			require.Empty(t, got.bytes)
			return
		}
		require.Equal(t, string(want), string(scalarValue(t, got)))
	})
}

// requireScalarCut checks the bound of and that texts are texts.
func requireScalarCut(t require.TestingT, payload []byte, maxChunk int) {
	var v any
	require.NoError(t, cbor.Unmarshal(payload, &v))
	switch v := v.(type) {
	case []byte:
		require.LessOrEqual(t, len(v), max(maxChunk, len("bytes"))) // elements of arrays are not cut
	case string:
		require.LessOrEqual(t, len(v), max(maxChunk, utf8.UTFMax))
		require.True(t, utf8.ValidString(v))
	}
}

// Data calls of many goroutines on one stream: each is one run, in the order of chunk_index.
func TestSenderR6_42_ConcurrentCallsAreSerialised(t *testing.T) {
	limits := withCredit(4)
	limits.MaxChunk = 16
	l := newTestLink(limits).run()
	s := l.sender(nil)
	stop := make(chan struct{})
	granting := make(chan struct{})
	go func() { // a receiver that never lets go of more than a little
		defer close(granting)
		for {
			select {
			case <-stop:
				return
			default:
				s.Gate().Grant(1)
			}
		}
	}()
	const callers, each = 8, 100
	var work sync.WaitGroup
	for k := range callers {
		work.Go(func() {
			for i := range each {
				text := fmt.Sprintf("%d/%d/%s", k, i, strings.Repeat("x", i))
				if err := s.EmitItem(t.Context(), text, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	close(stop)
	<-granting
	require.NoError(t, s.Close(t.Context()))
	frames := l.finish(t)
	got := &naive{sequence: true}
	for i, w := range frames[1 : len(frames)-1] {
		require.Equal(t, uint64(i), w.uint(frame.KeyChunkIndex))
		got.take(w.payload, nil)
	}
	next := [callers]int{}
	for _, it := range got.items {
		var text string
		require.NoError(t, cbor.Unmarshal(it.enc, &text))
		var k, i int
		var xs string
		_, err := fmt.Sscanf(strings.ReplaceAll(text, "/", " "), "%d %d %s", &k, &i, &xs)
		require.True(t, err == nil || i == 0, "%q", text)
		require.Equal(t, next[k], i, "caller %d", k)
		require.Equal(t, strings.Repeat("x", i), xs)
		next[k]++
	}
	require.Len(t, got.items, callers*each)
}
