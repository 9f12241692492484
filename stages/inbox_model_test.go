package stages

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// naive is what a stream must do, written down without regard to cost: it keeps all bytes and counts every chunk.
type naive struct {
	window   int
	sequence bool
	sent     []naiveChunk
	items    []naiveItem
	bytes    []byte // of the unfinished item
	meta     []byte // of the unfinished item
}

// naiveChunk is credited on arrival, or when its item is read.
type naiveChunk struct {
	early bool
	item  int // number of the item it is credited with
}

type naiveItem struct{ enc, meta []byte }

// take takes one chunk that is all right.
func (n *naive) take(payload, meta []byte) {
	if !n.sequence {
		n.sent = append(n.sent, naiveChunk{item: len(n.items)})
		n.items = append(n.items, naiveItem{payload, meta})
		return
	}
	c := naiveChunk{early: len(n.bytes) > 0, item: len(n.items)}
	if len(n.bytes) == 0 {
		n.meta = meta
	}
	n.bytes = append(n.bytes, payload...)
	if len(payload) == 0 && !c.early {
		c.item = -1 // carries nothing: credited as soon as the reader comes by
	}
	for {
		size, err := firstItem(n.bytes)
		if err != nil {
			break // it is not whole yet; these tests send nothing that is no CBOR
		}
		n.items = append(n.items, naiveItem{n.bytes[:size:size], n.meta})
		n.bytes, n.meta = n.bytes[size:], nil
	}
	if n.window == 1 && len(n.bytes) > 0 {
		c.early = true
	}
	n.sent = append(n.sent, c)
}

// credited is how many chunks must have been granted back after a flush when the first read items have been read: at least,
// and, when the reader has passed all that carry nothing, at most.
func (n *naive) credited(read int) (least, most uint64) {
	for _, c := range n.sent {
		switch {
		case c.early || c.item >= 0 && c.item < read:
			least++
			most++
		case c.item < 0:
			most++
		}
	}
	return least, most
}

// drawItems draws CBOR values of the first so many of 7 kinds and gives their encodings.
func drawItems(t *rapid.T, kinds int) (items [][]byte) {
	for i := range rapid.IntRange(0, 12).Draw(t, "items") {
		var v any
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			v = i
		case 1:
			v = bytes.Repeat([]byte{byte(i)}, rapid.SampledFrom([]int{0, 1, 30, 5000, 20_000}).Draw(t, "size"))
		case 2:
			v = string(bytes.Repeat([]byte{'x'}, rapid.SampledFrom([]int{0, 23, 24, 300}).Draw(t, "length")))
		case 3:
			v = []any{i, "two", []byte{3}, map[string]int{"four": 4}}
		case 4:
			v = map[any]any{i: []any{[]any{}}, "k": nil}
		case 5:
			v = 1.5
		case 6:
			items = append(items, []byte{0x9f, 1, 0x5f, 0x41, 2, 0xff, 0xff}) // of indefinite length
			continue
		}
		items = append(items, encoded(t, v))
	}
	return items
}

// cutAnywhere cuts a sequence of items into payloads, without regard to where they end.
func cutAnywhere(t *rapid.T, items [][]byte) (payloads [][]byte) {
	all := bytes.Join(items, nil)
	for len(all) > 0 {
		n := min(len(all), rapid.SampledFrom([]int{0, 1, 2, 3, 7, 40, 300, 6000, 20_000}).Draw(t, "cut"))
		payloads = append(payloads, all[:n])
		all = all[n:]
	}
	return payloads
}

// Items cut anywhere, several of them in a chunk, by a sender that keeps to its credit: whatever the order of arrivals, reads
// and waits, the items come out whole and each chunk is granted back exactly once.
func TestInboxR6_22_R10_20_R10_23_L10_5_BehavesLikeTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.SampledFrom([]int{1, 2, 3, 32}).Draw(t, "window")
		sequence := rapid.Bool().Draw(t, "sequence")
		merged := rapid.Bool().Draw(t, "merged")
		items := drawItems(t, 7)
		payloads := items
		if sequence {
			payloads = cutAnywhere(t, items)
		}
		// No goroutine and no writer: what was granted is in the control lane and in the granter.
		l := newTestLink(withCredit(uint64(window)))
		p := l.receive()
		if merged {
			p.Merge()
		}
		in := p.start(t, "s", sequence)
		model := &naive{window: window, sequence: sequence}
		granted := func() (sum uint64) {
			l.Lanes.mu.Lock()
			defer l.Lanes.mu.Unlock()
			return credits(decodeWire(t, l.Lanes.ctl.buf))["s"] + in.granter.merged
		}
		read, sent, over := 0, 0, false
		next := func() (Item, error) {
			if merged {
				item, _, _, err := p.NextMerged(ended())
				return item, err
			}
			return in.Next(ended())
		}
		readOne := func(t *rapid.T) {
			item, err := next()
			if read < len(model.items) {
				require.NoError(t, err)
				require.Equal(t, model.items[read].enc, item.Enc, "item %d", read)
				require.Equal(t, model.items[read].meta, item.Meta, "meta of item %d", read)
				read++
				if rapid.Bool().Draw(t, "release") {
					item.Block.Release()
				}
				return
			}
			if over {
				require.ErrorIs(t, err, io.EOF)
				return
			}
			require.Error(t, err)
			require.NotErrorIs(t, err, io.EOF)
			_, all := model.credited(read)
			require.Equal(t, all, granted(), "granted before a wait")
		}
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				if over || sent == len(payloads) {
					return
				}
				f := chunkFrame("s", sent, payloads[sent])
				var meta []byte
				if rapid.Bool().Draw(t, "with meta") {
					meta = encoded(t, map[string]int{"n": sent})
					withMeta(f, meta)
				}
				var block *Block
				if rapid.Bool().Draw(t, "in a block") {
					block = l.blockOf(append(append([]byte{}, f.Payload...), f.Meta...))
					n := len(f.Payload)
					f.Payload = block.Buf[:n:n]
					if meta != nil {
						f.Meta = block.Buf[n:]
					}
				}
				fault := p.Chunk(f, block)
				if uint64(sent) >= uint64(window)+granted() && fault != nil {
					require.Equal(t, failure.CreditViolation, fault.Code)
					t.Skip("the sender has no credit") // it would have waited
				}
				require.Nil(t, fault)
				model.take(payloads[sent], meta)
				sent++
			},
			"read": readOne,
			"end": func(t *rapid.T) {
				if over || sent < len(payloads) || rapid.IntRange(0, 3).Draw(t, "seldom") > 0 {
					return
				}
				over = true
				require.Nil(t, p.StreamEnd(streamEndFrame("s", sent)))
				require.Nil(t, p.End())
			},
			"": func(t *rapid.T) {
				got := granted()
				least, most := model.credited(read)
				require.LessOrEqual(t, got, most)
				if !over {
					require.Greater(t, got+max(1, uint64(window)/2), least, "a batch is due")
				}
				require.LessOrEqual(t, uint64(sent), uint64(window)+got, "more arrived than was granted")
			},
		})
		for !over || read < len(model.items) { // the rest goes through whatever has happened before
			before := []int{read, sent}
			readOne(t)
			for sent < len(payloads) && uint64(sent) < uint64(window)+granted() {
				require.Nil(t, p.Chunk(chunkFrame("s", sent, payloads[sent]), nil))
				model.take(payloads[sent], nil)
				sent++
			}
			if sent == len(payloads) && !over {
				over = true
				require.Nil(t, p.StreamEnd(streamEndFrame("s", sent)))
				require.Nil(t, p.End())
				continue
			}
			require.NotEqual(t, before, []int{read, sent}, "the stream stands still")
		}
		require.Equal(t, len(items), read)
		require.Empty(t, p.found())
		l.finish(t)
	})
}

// Pieces that are forwarded carry the same bytes, items and metas, over any limits of the other link.
func TestInboxR6_22_R6_41_PiecesAreForwardedLikeItems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := drawItems(t, 6) // of definite length, to be encoded again
		sequence := rapid.Bool().Draw(t, "sequence")
		payloads := items
		if sequence {
			payloads = cutAnywhere(t, items)
		}
		limits := withCredit(1 << 30)
		limits.MaxChunk = rapid.SampledFrom([]uint64{60, 1000, 1 << 20}).Draw(t, "max_chunk")
		limits.MaxFrame = rapid.SampledFrom([]uint64{1000, 3_670_016}).Draw(t, "max_frame")
		whole := rapid.SliceOfN(rapid.Bool(), 20, 20).Draw(t, "as items") // drawn before anything is started
		l := newTestLink(limits)
		p := l.receive()
		in := p.start(t, "s", sequence)
		want := &naive{window: 1 << 20, sequence: sequence}
		for i, b := range payloads {
			meta := encoded(t, map[string]int{"n": i})
			block := l.blockOf(append(append([]byte{}, b...), meta...))
			f := withMeta(chunkFrame("s", i, block.Buf[:len(b)]), block.Buf[len(b):])
			require.Nil(t, p.Chunk(f, block))
			want.take(b, meta)
		}
		require.Nil(t, p.StreamEnd(streamEndFrame("s", len(payloads))))
		out := l.run().sender(nil)
		var refused *ValueTooLargeError
		for i := 0; ; i++ {
			if whole[i%len(whole)] && (!sequence || !in.seq.asm.scan.InItem()) {
				item, err := in.Next(t.Context())
				if err != nil {
					require.ErrorIs(t, err, io.EOF)
					break
				}
				if sequence {
					err = out.EmitItem(t.Context(), cbor.RawMessage(item.Enc), item.Meta)
				} else if piece, ok := item.Piece(); ok {
					err = out.Forward(t.Context(), piece)
				}
				if errors.As(err, &refused) {
					break
				}
				require.NoError(t, err)
				continue
			}
			piece, err := in.NextPiece(t.Context())
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
			require.Equal(t, len(piece.Encoding()), piece.Size())
			if err = out.Forward(t.Context(), piece); errors.As(err, &refused) {
				break // an element of a scalar stream that no frame of the other link can hold
			}
			require.NoError(t, err)
		}
		if refused != nil {
			require.False(t, sequence)
			require.Greater(t, refused.Size, refused.Limit)
			require.EqualValues(t, 1000, limits.MaxFrame)
			l.finish(t)
			return
		}
		require.NoError(t, out.CloseStarted(t.Context()))
		frames := l.finish(t)
		got := &naive{window: 1 << 20, sequence: sequence}
		for i, w := range ofType(frames, frame.TypeChunk) {
			require.Equal(t, uint64(i), w.uint(frame.KeyChunkIndex))
			require.LessOrEqual(t, uint64(w.size), limits.MaxFrame)
			var meta []byte
			if w.meta != nil {
				meta = encoded(t, w.meta)
			}
			require.True(t, meta == nil || len(got.bytes) == 0, "meta on a later fragment")
			got.take(w.payload, meta)
		}
		if !sequence { // chunk borders mean nothing there, and meta belongs to nothing
			require.Equal(t, scalarValue(t, want), scalarValue(t, got))
			return
		}
		require.Len(t, got.items, len(want.items))
		for i := range want.items {
			require.Equal(t, want.items[i], got.items[i], "item %d", i)
		}
	})
}

// scalarValue is what a scalar stream says: byte strings and texts as their bytes, other values as they are.
func scalarValue(t require.TestingT, n *naive) (all []byte) {
	for _, it := range n.items {
		var v any
		require.NoError(t, cbor.Unmarshal(it.enc, &v))
		switch v := v.(type) {
		case []byte:
			all = append(all, v...)
		case string:
			all = append(all, v...)
		default:
			all = append(all, fmt.Sprintf("<%x>", it.enc)...)
		}
	}
	return all
}
