package bifaci_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/host"
)

// reading serves a handler that reads as many items of its first stream as it is told, and then waits to be told again.
func reading(t *testing.T, window uint64) (req *cartridgetest.Request, read func(n int)) {
	t.Helper()
	orders := make(chan int)
	h := worker(t, window, func(ctx context.Context, r *bifaci.Request) error {
		s, err := firstStream(ctx, r)
		if err != nil {
			return err
		}
		for {
			select {
			case n := <-orders:
				for range n {
					if _, err := s.Next(ctx); err != nil {
						return err
					}
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
	return h.Request(workCap), func(n int) {
		t.Helper()
		synctest.Wait() // everything that was sent is there
		orders <- n
		synctest.Wait()
	}
}

func TestGrantBatches(t *testing.T) {
	virtual(t, "R-10.20 L10.1 window 8, sixteen chunks, each there before it is read: grants 4, 4, 4, 4", func(t *testing.T) {
		req, read := reading(t, 8)
		s := req.Stream("body", textMedia)
		for range 2 {
			for range 8 {
				s.Chunk("x")
			}
			read(8)
		}
		assert.Equal(t, []uint64{4, 4, 4, 4}, req.Grants("body"))
	})
	for window, batch := range map[uint64]int{1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 9: 4, 32: 16} {
		virtual(t, fmt.Sprintf("R-10.20 the batch of window %d is %d", window, batch), func(t *testing.T) {
			req, read := reading(t, window)
			s := req.Stream("body", textMedia)
			for range window {
				s.Chunk("x")
			}
			read(batch - 1)
			assert.Empty(t, req.Grants("body"), "less than a batch")
			read(1)
			assert.Equal(t, []uint64{uint64(batch)}, req.Grants("body"))
		})
	}
	virtual(t, "R-10.26 R-10.20 a grant names the request, its stream and its direction", func(t *testing.T) {
		orders := make(chan struct{})
		h := worker(t, 2, func(ctx context.Context, r *bifaci.Request) error {
			s, err := firstStream(ctx, r)
			if err != nil {
				return err
			}
			_, err = s.Next(ctx)
			<-orders
			return err
		})
		req := h.Request(workCap, cartridgetest.WithID(frame.UintID(11)), cartridgetest.WithRouting(frame.UintID(22)))
		req.Stream("the stream", textMedia).Chunk("x")
		synctest.Wait()
		trace := h.Check().Trace()
		assert.Equal(t, "cartridge→host credit id=11 seq=0 meta={credit_dir: request} stream_id=the stream xid=22 credit=1",
			strings.Join(strings.Fields(trace[len(trace)-1]), " "))
		close(orders)
		req.End().WantEnd()
	})
}

func TestFlushBeforeBlock(t *testing.T) {
	virtual(t, "R-10.21 L10.2 window 32, a sender that stops after 8: the ninth read makes a grant of 8 appear", func(t *testing.T) {
		req, read := reading(t, 32)
		s := req.Stream("body", textMedia)
		for range 8 {
			s.Chunk("x")
		}
		read(8)
		assert.Empty(t, req.Grants("body"))
		read(1)
		assert.Equal(t, []uint64{8}, req.Grants("body"))
	})
	// Each handler reads 3 of 3 items, and then waits for something else. The batch is 16.
	waits := map[string]bifaci.Handler{
		"credit for output": func(ctx context.Context, r *bifaci.Request) error {
			for range 33 {
				if err := r.Output().EmitItem(ctx, "x", nil); err != nil {
					return err
				}
			}
			return nil
		},
		"credit for the tail at close": func(ctx context.Context, r *bifaci.Request) error {
			for range 32 {
				if err := r.Output().EmitCBOR(ctx, 1); err != nil {
					return err
				}
			}
			if _, err := r.Output().Write([]byte("tail")); err != nil {
				return err
			}
			return r.Output().Close(ctx)
		},
		"the next stream": func(ctx context.Context, r *bifaci.Request) error {
			_, err := r.Input(ctx, "media:second")
			return err
		},
		"its turn behind another data call": func(ctx context.Context, r *bifaci.Request) error {
			for range 32 {
				if err := r.Output().EmitItem(ctx, "x", nil); err != nil {
					return err
				}
			}
			r.Go(func(ctx context.Context) error { return r.Output().EmitItem(ctx, "first in line", nil) })
			return r.Output().EmitItem(ctx, "second in line", nil)
		},
		"credit for an argument": func(ctx context.Context, r *bifaci.Request) error {
			call, err := r.Peer().Call(ctx, workCap)
			if err != nil {
				return err
			}
			arg := call.Arg(textMedia)
			for range 33 {
				if err := arg.EmitItem(ctx, "x", nil); err != nil {
					return err
				}
			}
			return nil
		},
		"an item of a peer": func(ctx context.Context, r *bifaci.Request) error {
			call, err := r.Peer().Call(ctx, workCap)
			if err != nil {
				return err
			}
			_, err = call.Response().Next(ctx)
			return err
		},
	}
	for name, wait := range waits {
		virtual(t, "R-10.21 R-10.26 before it waits for "+name+", a handler's 3 items are granted", func(t *testing.T) {
			h := worker(t, 32, func(ctx context.Context, r *bifaci.Request) error {
				s, err := r.Input(ctx, textMedia)
				if err != nil {
					return err
				}
				synctest.Wait() // all three are there, so that no read waits
				for range 3 {
					if _, err := s.Next(ctx); err != nil {
						return err
					}
				}
				return wait(ctx, r)
			})
			req := h.Request(workCap)
			req.Stream("body", textMedia).Chunk("1").Chunk("2").Chunk("3")
			req.WantGrants("body", 3)
			wantStill(t, req)
			assert.Empty(t, req.Grants("body"))
			req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
		})
	}
	virtual(t, "R-10.21 before it waits for room in the data lane", func(t *testing.T) {
		flooding := make(chan struct{})
		h := worker(t, 32, func(ctx context.Context, r *bifaci.Request) error {
			s, err := firstStream(ctx, r)
			if err != nil {
				return err
			}
			<-flooding
			for range 3 {
				if _, err := s.Next(ctx); err != nil {
					return err
				}
			}
			for range 4000 {
				if err := r.Output().Log("info", failure.Internal, strings.Repeat("flood ", 30)); err != nil {
					return err
				}
			}
			return nil
		})
		req := h.Request(workCap)
		req.Stream("body", textMedia).Chunk("1").Chunk("2").Chunk("3")
		synctest.Wait()
		h.HoldOutput(true)
		close(flooding)
		synctest.Wait() // the lane is full, and the grant is behind what the writer holds
		h.HoldOutput(false)
		req.WantGrants("body", 3)
		req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
	})
	virtual(t, "R-10.21 R-7.30 what was read of a peer's answer is granted before the output waits", func(t *testing.T) {
		h := worker(t, 32, func(ctx context.Context, r *bifaci.Request) error {
			call, err := r.Peer().Call(ctx, workCap)
			if err != nil {
				return err
			}
			synctest.Wait()
			for range 3 {
				if _, err := call.Response().Next(ctx); err != nil {
					return err
				}
			}
			return emitsForever(ctx, r)
		})
		req := h.Request(workCap)
		call := h.WantPeerCall(workCap)
		call.Chunk("1").Chunk("2").Chunk("3")
		req.WantStream()
		for i := range uint64(32) {
			req.WantItems(i)
		}
		wantStill(t, req)
		trace := h.Check().Trace()
		i := slices.IndexFunc(trace, func(line string) bool { return strings.Contains(line, "credit_dir: response") })
		require.GreaterOrEqual(t, i, 0, "no grant for the answer")
		assert.Contains(t, trace[i], "credit=3")
		assert.NotContains(t, trace[i], "xid=", "a peer call has no routing id")
		assert.Contains(t, trace[i], "stream_id=body")
		req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
	})
	virtual(t, "R-10.22 a collector of several streams grants each of them", func(t *testing.T) {
		h := worker(t, 32, func(ctx context.Context, r *bifaci.Request) error {
			input, err := r.TakeInput()
			if err != nil {
				return err
			}
			_, err = input.CollectStreams(ctx)
			return err
		})
		req := h.Request(workCap)
		one, two := req.Stream("one", "media:one"), req.Stream("two", "media:two")
		for range 5 {
			one.Chunk("x")
		}
		for range 7 {
			two.Chunk("x")
		}
		wantStill(t, req)
		assert.EqualValues(t, 5, sum(req.Grants("one")))
		assert.EqualValues(t, 7, sum(req.Grants("two")))
		req.End().WantEnd()
	})
}

func TestEveryReceivePathCredits(t *testing.T) {
	of := func(read func(context.Context, *bifaci.InputStream) error) bifaci.Handler {
		return func(ctx context.Context, r *bifaci.Request) error {
			s, err := firstStream(ctx, r)
			if err != nil {
				return err
			}
			return read(ctx, s)
		}
	}
	for name, read := range map[string]bifaci.Handler{
		"Next": of(func(ctx context.Context, s *bifaci.InputStream) error {
			for {
				if _, err := s.Next(ctx); err != nil {
					return notEOF(err)
				}
			}
		}),
		"Items": of(func(ctx context.Context, s *bifaci.InputStream) error {
			for it, err := range s.Items(ctx) {
				if err != nil {
					return err
				}
				it.Release()
			}
			return nil
		}),
		"Pieces": of(func(ctx context.Context, s *bifaci.InputStream) error {
			for p, err := range s.Pieces(ctx) {
				if err != nil {
					return err
				}
				p.Release()
			}
			return nil
		}),
		"CollectBytes": of(func(ctx context.Context, s *bifaci.InputStream) error { _, err := s.CollectBytes(ctx); return err }),
		"CollectItems": of(func(ctx context.Context, s *bifaci.InputStream) error { _, err := s.CollectItems(ctx); return err }),
		"CollectValue": of(func(ctx context.Context, s *bifaci.InputStream) error { _, err := s.CollectValue(ctx); return err }),
		"Reader.Read": of(func(ctx context.Context, s *bifaci.InputStream) error {
			_, err := io.ReadAll(s.Reader(ctx))
			return err
		}),
		"Reader.WriteTo": of(func(ctx context.Context, s *bifaci.InputStream) error {
			_, err := io.Copy(io.Discard, s.Reader(ctx))
			return err
		}),
		"Close": of(func(_ context.Context, s *bifaci.InputStream) error { return s.Close() }),
		"CollectStreams": func(ctx context.Context, r *bifaci.Request) error {
			input, err := r.TakeInput()
			if err != nil {
				return err
			}
			_, err = input.CollectStreams(ctx)
			return err
		},
		"CollectAllBytes": func(ctx context.Context, r *bifaci.Request) error {
			input, err := r.TakeInput()
			if err != nil {
				return err
			}
			_, err = input.CollectAllBytes(ctx)
			return err
		},
		"Input": func(ctx context.Context, r *bifaci.Request) error {
			s, err := r.Input(ctx, textMedia)
			if err != nil {
				return err
			}
			_, err = s.CollectBytes(ctx)
			return err
		},
	} {
		for kind, opts := range map[string][]cartridgetest.StreamOption{"scalar": nil, "sequence": {cartridgetest.Sequence}} {
			virtual(t, "R-6.27 R-10.20 100 chunks pass a window of 2: "+name+" of a "+kind, func(t *testing.T) {
				body := make(chan struct{})
				h := worker(t, 2, func(ctx context.Context, r *bifaci.Request) error {
					err := read(ctx, r)
					<-body // the request lives until its body is complete
					return err
				})
				req := h.Request(workCap)
				s := req.Stream("body", textMedia, opts...)
				for range 100 {
					s.Chunk("x")
				}
				req.End()
				close(body)
				req.WantEnd()
				h.WantIdle()
			})
		}
	}
	virtual(t, "R-6.28 streams of one request are read by goroutines of their own", func(t *testing.T) {
		h := generous(t, 2, func(ctx context.Context, r *bifaci.Request) error {
			input, err := r.TakeInput()
			if err != nil {
				return err
			}
			for range 8 {
				s, err := input.Next(ctx)
				if err != nil {
					return err
				}
				r.Go(func(ctx context.Context) error {
					b, err := s.CollectBytes(ctx)
					if err != nil {
						return err
					}
					return r.Output().EmitItem(ctx, s.MediaURN()+string(b), nil)
				})
			}
			return nil
		})
		req := h.Request(workCap)
		var streams []*cartridgetest.Stream
		for i := range 8 {
			streams = append(streams, req.Stream(fmt.Sprint(i), fmt.Sprint("media:s", i)))
		}
		want := make([]string, 8)
		for i := range 400 {
			k := i * 5 % 8
			streams[k].Chunk(fmt.Sprint(i, " "))
			want[k] += fmt.Sprint(i, " ")
		}
		req.End()
		all := req.Collect()
		req.WantEnd()
		for i, w := range want {
			assert.Contains(t, all, fmt.Sprint("media:s", i)+w)
		}
	})
}

// notEOF is err unless it is the clean end.
func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func TestGrantsOfSequences(t *testing.T) {
	small := limitsWith(func(l *frame.Limits) { l.MaxChunk, l.InitialCredit = 10, 2 })
	virtual(t, "R-10.23 L10.4 an item of 100 fragments passes a window of 2", func(t *testing.T) {
		orders := make(chan struct{})
		h := cartridgetest.Start(t, cartridgetest.Serving(t, workCap, func(ctx context.Context, r *bifaci.Request) error {
			s, err := firstStream(ctx, r)
			if err != nil {
				return err
			}
			<-orders
			it, err := s.Next(ctx)
			if err != nil {
				return err
			}
			orders <- struct{}{}
			<-orders
			return say(ctx, r, fmt.Sprint(len(it.Bytes)))
		}), cartridgetest.WithLimits(small))
		req := h.Request(workCap)
		req.Item(strings.Repeat("f", 997)) // and a head of three bytes: 100 fragments
		synctest.Wait()
		assert.Equal(t, slices.Repeat([]uint64{1}, 99), req.Grants("body"), "all but the first, one by one, although nobody reads")
		orders <- struct{}{}
		<-orders
		synctest.Wait()
		assert.Equal(t, slices.Repeat([]uint64{1}, 100), req.Grants("body"), "the first when the item is read")
		orders <- struct{}{}
		req.WantItems("997")
		req.WantEnd()
	})
	virtual(t, "R-10.23 L10.5 each CHUNK is granted once, however many items it held", func(t *testing.T) {
		req, read := reading(t, 4)
		req.Stream("body", textMedia, cartridgetest.Sequence)
		a := encoded(t, "a")
		req.Send(
			sequenceChunk(0, bytes.Repeat(a, 10), nil),                         // ten items
			sequenceChunk(1, append(bytes.Repeat(a, 3), a[0]), nil),            // three and a half
			sequenceChunk(2, append([]byte{a[1]}, bytes.Repeat(a, 2)...), nil), // the half and two more
		)
		read(10)
		assert.EqualValues(t, 1, sum(req.Grants("body")), "chunk 2 on arrival; one is less than a batch")
		read(4)
		assert.EqualValues(t, 3, sum(req.Grants("body")))
		read(2)
		assert.EqualValues(t, 3, sum(req.Grants("body")))
		read(1) // waits
		assert.EqualValues(t, 3, sum(req.Grants("body")))
	})
	virtual(t, "R-10.27 R-10.23 a handler that stops reading stops its sender after a window, an unfinished item excepted", func(t *testing.T) {
		req, _ := reading(t, 2)
		s := req.Stream("body", textMedia, cartridgetest.Sequence)
		s.Chunk("whole").Chunk("whole")
		synctest.Wait()
		assert.Zero(t, s.Credit())
		assert.Empty(t, req.Grants("body"))
	})
	t.Run("L10.6 R-10.23 the window grows before the grant can be seen", func(t *testing.T) {
		// The host sends the moment it is granted one; a window that grew later would call that a violation.
		h := generous(t, 1, echoes)
		req := h.Request(workCap)
		want := ""
		for i := range 3000 {
			req.Chunk(fmt.Sprint(i))
			want += fmt.Sprint(i)
		}
		req.End()
		assert.Equal(t, want, req.Collect())
		req.WantEnd()
		assert.Zero(t, h.Probe().Drops)
	})
}

func TestGrantsEnd(t *testing.T) {
	virtual(t, "R-10.25 none after a stream's STREAM_END", func(t *testing.T) {
		req, read := reading(t, 4)
		s := req.Stream("body", textMedia)
		s.Chunk("1").Chunk("2").Chunk("3").Chunk("4")
		s.End()
		read(4)
		assert.Empty(t, req.Grants("body"))
	})
	virtual(t, "R-10.25 nor for what is discarded then", func(t *testing.T) {
		ended := make(chan struct{})
		h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
			s, err := firstStream(ctx, r)
			if err != nil {
				return err
			}
			<-ended
			if _, err := s.Next(ctx); err != nil {
				return err
			}
			if err := s.Close(); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		})
		req := h.Request(workCap)
		s := req.Stream("body", textMedia, cartridgetest.Sequence)
		s.Chunk("1").Chunk("2").Chunk("3")
		s.End()
		h.Probe()
		close(ended)
		wantStill(t, req)
		assert.Empty(t, req.Grants("body"))
		req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
	})
	virtual(t, "R-10.24 a stream that starts after the handler has returned is credited and dropped", func(t *testing.T) {
		h := worker(t, 2, func(ctx context.Context, r *bifaci.Request) error {
			for range 2 {
				if err := r.Output().EmitCBOR(ctx, 1); err != nil {
					return err
				}
			}
			_, err := r.Output().Write([]byte("waits at close"))
			return err
		})
		req := h.Request(workCap)
		synctest.Wait()
		s := req.Stream("late", textMedia, cartridgetest.Sequence)
		for range 50 {
			s.Chunk("dropped")
		}
		s.Item(strings.Repeat("long", 200_000), nil) // four fragments
		req.Grant(1)
		assert.Equal(t, "11waits at close", req.Collect())
		req.WantEnd()
		h.WantIdle()
	})
}

func TestBothWaysAtOnce(t *testing.T) {
	// sequential reads one item and writes one, in turn, on one goroutine.
	sequential := func(ctx context.Context, r *bifaci.Request) error {
		s, err := firstStream(ctx, r)
		if err != nil {
			return err
		}
		for {
			it, err := s.Next(ctx)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := r.Output().EmitItem(ctx, it.Bytes, nil); err != nil {
				return err
			}
		}
	}
	for _, window := range []uint64{1, 2, 3, 32} {
		t.Run(fmt.Sprintf("R-10.50 L15 an echo of 1000 chunks through a window of %d, with one call of a helper", window), func(t *testing.T) {
			l := limitsWith(func(l *frame.Limits) { l.MaxChunk, l.InitialCredit = 64, window })
			c := cartridgetest.Connect(t, cartridgetest.Serving(t, workCap, sequential), host.WithLimits(l))
			body := bytes.Repeat([]byte("0123456789abcdef"), 4*1000) // 1000 chunks of 64 bytes
			got, err := c.Call(t.Context(), workCap, host.Argument{MediaURN: textMedia, Value: body})
			require.NoError(t, err)
			assert.Equal(t, body, got)
			require.NoError(t, c.Wait())
		})
	}
	t.Run("R-10.50 L15 R-7.5 the same with a peer call's helper", func(t *testing.T) {
		body := strings.Repeat("0123456789abcdef", 2000)
		c := cartridgeOf(t, nil, nil, served{"proxy", func(ctx context.Context, r *bifaci.Request) error {
			answer, err := bifaci.CallBytes(ctx, r.Peer(), capNamed("far"), bifaci.BytesArg{MediaURN: "media:", Value: []byte(body)})
			if err != nil {
				return err
			}
			b, err := answer.CollectBytes(ctx)
			if err != nil {
				return err
			}
			_, err = r.Output().Write(b)
			return err
		}})
		h := cartridgetest.Start(t, c, cartridgetest.WithLimits(limitsWith(func(l *frame.Limits) { l.MaxChunk, l.InitialCredit = 64, 2 })))
		req := h.Request(capNamed("proxy")).End()
		call := h.WantPeerCall(capNamed("far"))
		for range len(body) / 64 { // the callee answers each chunk before it takes the next
			call.WantItems("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")
			call.Chunk("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")
		}
		call.WantBody().End()
		assert.Equal(t, body, req.Collect())
		req.WantEnd()
	})
}
