package host_test

import (
	"context"
	"errors"
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
	"github.com/pipe-cartridge/pipe/bifaci/stats"
)

// smallWindow proposes a window and a chunk size.
func smallWindow(window, chunk uint64) host.Option {
	l := frame.DefaultLimits()
	l.InitialCredit, l.MaxChunk = window, chunk
	return host.WithLimits(l)
}

func TestCallBytes(t *testing.T) {
	t.Run("R-10.50 R-12.61 L15 an argument of 1000 chunks through an echo with a window of 2", func(t *testing.T) {
		c := cartridgetest.Connect(t, cartridgetest.Serving(t, anyCap, echo), smallWindow(2, 4096))
		want := strings.Repeat("0123456789abcdef", 1000*4096/16)
		got, err := c.Call(t.Context(), anyCap, host.Argument{MediaURN: "media:", Value: []byte(want)})
		require.NoError(t, err)
		require.True(t, want == string(got), "%d bytes came back, %d were sent", len(got), len(want))
		require.NoError(t, c.Wait())
	})
	t.Run("R-12.61 arguments go out in order, one scalar stream each, an empty one too", func(t *testing.T) {
		f, conn := live(t, true)
		done := inBackground(func() error {
			_, err := conn.CallBytes(t.Context(), anyCap, host.Argument{MediaURN: "media:a", Value: []byte("one")}, host.Argument{MediaURN: "media:b"})
			return err
		})
		req := f.want(frame.TypeReq)
		start := f.want(frame.TypeStreamStart)
		assert.Equal(t, "media:a", start.Text(frame.KeyMediaURN))
		assert.False(t, start.Flag(frame.KeyIsSequence))
		assert.Equal(t, cartridgetest.Bytes("one"), f.want(frame.TypeChunk).Payload())
		assert.Equal(t, uint64(1), f.want(frame.TypeStreamEnd).Uint(frame.KeyChunkCount))
		assert.Equal(t, "media:b", f.want(frame.TypeStreamStart).Text(frame.KeyMediaURN))
		assert.Equal(t, uint64(0), f.want(frame.TypeStreamEnd).Uint(frame.KeyChunkCount))
		end := f.want(frame.TypeEnd)
		assert.True(t, end.Flag(frame.KeyEOF))
		assert.False(t, end.Has(frame.KeyMeta), "a body's END has none")
		f.answer(req, answerBytes()...)
		require.NoError(t, wait(t, done, "the call"))
	})
	t.Run("R-12.61 a failure of the handler keeps its identity", func(t *testing.T) {
		c := cartridgetest.Connect(t, cartridgetest.Serving(t, anyCap, func(context.Context, *bifaci.Request) error {
			return failure.New("NO_VOICE", failure.Input, "nothing to hear").ForArgument("media:audio")
		}))
		_, err := c.Call(t.Context(), anyCap)
		var remote *failure.Remote
		require.ErrorAs(t, err, &remote)
		assert.Equal(t, failure.Failure{Code: "NO_VOICE", Class: failure.Input, Message: "nothing to hear", ArgURN: "media:audio"}, remote.Failure)
	})
	t.Run("R-12.64 an answer that comes before the arguments are sent is the answer", func(t *testing.T) {
		f, conn := live(t, true)
		type result struct {
			b   []byte
			err error
		}
		done := inBackground(func() result {
			b, err := conn.CallBytes(t.Context(), anyCap, host.Argument{MediaURN: "media:", Value: make([]byte, 100<<20)})
			return result{b, err}
		})
		f.answer(f.want(frame.TypeReq), answerBytes("enough")...)
		got := wait(t, done, "the call")
		require.NoError(t, got.err)
		assert.Equal(t, "enough", string(got.b))
	})
	t.Run("R-12.82 the end of the context ends it, whatever it waits for", func(t *testing.T) {
		for _, c := range []struct {
			name string
			arg  []byte
		}{{"an answer", nil}, {"credit", make([]byte, 100<<20)}} {
			synctest.Test(t, func(t *testing.T) {
				f, conn := live(t, true)
				ctx, cancel := context.WithCancelCause(t.Context())
				done := inBackground(func() error {
					_, err := conn.CallBytes(ctx, anyCap, host.Argument{MediaURN: "media:", Value: c.arg})
					return err
				})
				synctest.Wait()
				enough := errors.New("enough")
				cancel(enough)
				require.ErrorIs(t, <-done, enough, "waiting for %s", c.name)
				synctest.Wait()
				cancels := 0
				for len(f.got) > 0 {
					if f.next().Type() == frame.TypeCancel {
						cancels++
					}
				}
				assert.Equal(t, 1, cancels, "waiting for %s", c.name)
			})
		}
	})
	t.Run("R-12.71 an argument that cannot be sent ends the call and not the link", func(t *testing.T) {
		f, conn := live(t, true)
		done := inBackground(func() error {
			_, err := conn.CallBytes(t.Context(), anyCap, host.Argument{MediaURN: "media:" + strings.Repeat("x", 4<<20)})
			return err
		})
		f.want(frame.TypeReq)
		require.ErrorContains(t, wait(t, done, "the call"), "max_frame")
		reason := f.want(frame.TypeCancel)
		assert.Equal(t, failure.Aborted, reason.Meta()["code"])
		f.wantAlive(conn)
	})
}

func TestFramesOfACall(t *testing.T) {
	t.Run("R-12.62 they carry one fresh routing id and are numbered without a gap", func(t *testing.T) {
		f, conn := live(t, true)
		seen := map[frame.ID]bool{frame.UintID(0): true}
		for range 3 {
			call, req := f.call(conn)
			out := call.Arg("media:")
			_, err := out.Write(make([]byte, 8192))
			require.NoError(t, err)
			require.NoError(t, call.Finish(t.Context()))
			xid := req.Routing()
			require.False(t, seen[xid], "routing id %s was used before", xid)
			seen[xid] = true
			_, isUint := xid.Uint()
			assert.True(t, isUint, "an unsigned counter")
			assert.Len(t, req[frame.KeyID], 16, "a uuid")
			assert.Equal(t, uint64(0), req.Seq())
			for seq, typ := range []frame.Type{frame.TypeStreamStart, frame.TypeChunk, frame.TypeStreamEnd, frame.TypeEnd} {
				g := f.want(typ)
				assert.Equal(t, req.ID(), g.ID())
				assert.Equal(t, xid, g.Routing())
				assert.Equal(t, uint64(seq+1), g.Seq())
			}
			call.Cancel(failure.UserCancel())
			c := f.want(frame.TypeCancel)
			assert.Equal(t, req.ID(), c.ID())
			assert.Equal(t, xid, c.Routing())
			assert.Equal(t, uint64(0), c.Seq())
		}
	})
	t.Run("R-12.62 grants for the answer carry it too", func(t *testing.T) {
		f := newFake(t)
		conn := f.live(true, smallWindow(2, 4096))
		call, req := f.call(conn)
		f.answer(req, answerBytes("a")[:2]...)
		_, err := call.Response().Next(t.Context())
		require.NoError(t, err)
		g := f.want(frame.TypeCredit)
		assert.Equal(t, req.ID(), g.ID())
		assert.Equal(t, req.Routing(), g.Routing())
		assert.Equal(t, "answer", g.Stream())
		assert.Equal(t, "response", g.Meta()["credit_dir"])
		assert.Equal(t, uint64(1), g.Uint(frame.KeyCredit))
		call.Cancel(failure.Unattributed())
	})
	for name, change := range map[string]func(Frame) Frame{
		"no routing id":      func(g Frame) Frame { return g.Without(frame.KeyRoutingID) },
		"another routing id": func(g Frame) Frame { return g.With(frame.KeyRoutingID, uint64(999)) },
	} {
		t.Run("R-12.62 an answer with "+name+" fails the call and not the link", func(t *testing.T) {
			f, conn := live(t, true)
			call, req := f.call(conn)
			f.send(change(answerBytes("x")[0].With(frame.KeyID, req[frame.KeyID]).With(frame.KeyRoutingID, req[frame.KeyRoutingID])))
			_, err := call.Response().Next(t.Context())
			got := wantFailure(t, err, failure.ProtocolError, failure.Internal)
			assert.Contains(t, got.Message, "routing id")
			assert.Equal(t, failure.Aborted, f.want(frame.TypeCancel).Meta()["code"])
			f.wantAlive(conn)
		})
	}
	t.Run("R-12.61 a cap URN that does not parse is refused and nothing is sent", func(t *testing.T) {
		f, conn := live(t, true)
		_, err := conn.Call(t.Context(), "media:no-cap")
		require.Error(t, err)
		f.wantAlive(conn)
	})
	t.Run("R-12.82 a context that has ended sends nothing", func(t *testing.T) {
		f, conn := live(t, true)
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		cancel(enough)
		_, err := conn.Call(ctx, anyCap)
		require.ErrorIs(t, err, enough)
		f.wantAlive(conn)
	})
}

func TestLateFrames(t *testing.T) {
	t.Run("R-12.63 frames of an ended call are stragglers, of an id never seen drops", func(t *testing.T) {
		f, conn := live(t, true)
		call, req := f.call(conn)
		f.answer(req, answerBytes()...)
		_, err := call.Response().CollectBytes(t.Context())
		require.NoError(t, err)
		f.answer(req, cartridgetest.LogFrame("info", failure.Internal, "late"), cartridgetest.EndFrame(true),
			cartridgetest.CreditFrame(frame.CreditRequest, "", 1))
		stranger := cartridgetest.ReqFrame(anyCap).With(frame.KeyID, uint64(123)).With(frame.KeyRoutingID, uint64(5))
		f.answer(stranger, answerBytes("x")...)
		f.wantAlive(conn)
		s := conn.Stats()
		assert.Equal(t, map[string]uint64{"log": 1, "end": 1, "credit": 1}, s.Stragglers.ByFrameType)
		assert.Equal(t, uint64(4), s.Drops.Total)
		assert.Equal(t, map[string]uint64{"stream_start": 1, "chunk": 1, "stream_end": 1, "end": 1}, s.Drops.ByReasonFrameType[stats.NoRoute])
	})
	t.Run("R-12.63 the terminal of a cancelled call is a straggler", func(t *testing.T) {
		f, conn := live(t, true)
		call, req := f.call(conn)
		call.Cancel(failure.UserCancel())
		f.want(frame.TypeCancel)
		f.answer(req, cartridgetest.ErrFrame("CANCELLED", failure.User, "Cancelled by user"))
		f.wantAlive(conn)
		assert.Equal(t, map[string]uint64{"err": 1}, conn.Stats().Stragglers.ByFrameType)
	})
	t.Run("R-12.84 a CANCEL for what is no call of the cartridge's is a drop", func(t *testing.T) {
		f, conn := live(t, true)
		call, req := f.call(conn)
		f.answer(req, cartridgetest.CancelFrame(failure.Unattributed()))
		f.wantAlive(conn)
		assert.Equal(t, map[string]uint64{"cancel": 1}, conn.Stats().Drops.ByReasonFrameType[stats.NoRoute])
		f.answer(req, answerBytes("untouched")...)
		got, err := call.Response().CollectBytes(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "untouched", string(got))
	})
	t.Run("R-12.65 a call of the cartridge's is refused at once, and what it sends for it straggles", func(t *testing.T) {
		f, conn := live(t, true)
		req := cartridgetest.ReqFrame(anyCap).With(frame.KeyID, uint64(50))
		f.answer(req, req, cartridgetest.StartFrame("a", "media:"), cartridgetest.StreamEndFrame("a", 0), cartridgetest.EndFrame(false))
		e := f.want(frame.TypeErr)
		assert.Equal(t, frame.UintID(50), e.ID())
		assert.False(t, e.Has(frame.KeyRoutingID))
		assert.Equal(t, failure.NoHandler, e.Failure().Code)
		assert.Equal(t, failure.Environment, e.Failure().Class)
		assert.Contains(t, e.Failure().Message, anyCap)
		f.wantAlive(conn)
		assert.Equal(t, map[string]uint64{"stream_start": 1, "stream_end": 1, "end": 1}, conn.Stats().Stragglers.ByFrameType)
	})
	t.Run("R-12.65 a refusal fits a frame whatever the cap is called", func(t *testing.T) {
		f, conn := live(t, true)
		f.send(cartridgetest.ReqFrame("cap:"+strings.Repeat("x", 3_669_000)).With(frame.KeyID, uint64(51)))
		assert.Equal(t, failure.NoHandler, f.want(frame.TypeErr).Failure().Code)
		f.wantAlive(conn)
	})
}

func TestBodyAfterTheAnswer(t *testing.T) {
	t.Run("R-12.64 every data call of the body fails with ErrRequestEnded and nothing is sent", func(t *testing.T) {
		f, conn := live(t, true)
		call, req := f.call(conn)
		out := call.Arg("media:")
		_, err := out.Write([]byte("not sent yet"))
		require.NoError(t, err)
		f.answer(req, answerBytes()...)
		_, err = call.Response().CollectBytes(t.Context())
		require.NoError(t, err)
		wait(t, call.Context().Done(), "the end of the call")
		_, err = out.Write([]byte("more"))
		require.ErrorIs(t, err, bifaci.ErrRequestEnded)
		require.ErrorIs(t, out.Flush(t.Context()), bifaci.ErrRequestEnded)
		require.ErrorIs(t, out.Close(t.Context()), bifaci.ErrRequestEnded)
		late := call.Arg("media:late")
		require.ErrorIs(t, late.Start(), bifaci.ErrRequestEnded)
		require.ErrorIs(t, call.Finish(t.Context()), bifaci.ErrRequestEnded)
		f.wantAlive(conn)
	})
	t.Run("R-12.64 a body without an open stream is not ended either", func(t *testing.T) {
		f, conn := live(t, true)
		call, req := f.call(conn)
		f.answer(req, cartridgetest.ErrFrame("BUSY", failure.Resource, "no room"))
		wait(t, call.Context().Done(), "the end of the call")
		err := call.Finish(t.Context())
		wantFailure(t, err, "BUSY", failure.Resource)
		f.wantAlive(conn)
	})
}

func TestAnswerRules(t *testing.T) {
	t.Run("R-12.71 a chunk beyond the window cancels the request and the call returns CREDIT_VIOLATION", func(t *testing.T) {
		f := newFake(t)
		conn := f.live(true, smallWindow(2, 4096))
		call, req := f.call(conn)
		f.answer(req, cartridgetest.StartFrame("answer", "media:"))
		for i := range uint64(3) {
			f.answer(req, cartridgetest.ChunkFrame("answer", i, cartridgetest.Bytes("x")))
		}
		reason := f.want(frame.TypeCancel)
		assert.Equal(t, failure.Aborted, reason.Meta()["code"])
		assert.Equal(t, "internal", reason.Meta()["attribution_class"])
		_, err := call.Response().Next(t.Context())
		wantFailure(t, err, failure.CreditViolation, failure.Internal)
		f.wantAlive(conn)
		assert.Equal(t, map[string]uint64{"chunk": 1}, conn.Stats().Drops.ByReasonFrameType[stats.CreditViolation])
	})
	t.Run("R-12.71 R-10.20 grants go out for what was read, in halves of the window", func(t *testing.T) {
		f := newFake(t)
		conn := f.live(true, smallWindow(8, 4096))
		call, req := f.call(conn)
		f.answer(req, answerBytes("1", "2", "3", "4", "5", "6", "7", "8")[:9]...)
		f.wantAlive(conn)
		for range 4 {
			_, err := call.Response().Next(t.Context())
			require.NoError(t, err)
		}
		assert.Equal(t, uint64(4), f.want(frame.TypeCredit).Uint(frame.KeyCredit))
		call.Cancel(failure.Unattributed())
	})
	t.Run("R-12.72 LOGs are read in order with the data, queued and dequeued too", func(t *testing.T) {
		f, conn := live(t, true)
		call, req := f.call(conn)
		f.answer(req, cartridgetest.LogFrame("queued", failure.Internal, "Request queued (position 1 on pool 'all')"),
			cartridgetest.LogFrame("dequeued", failure.Internal, "Request dequeued"))
		f.answer(req, answerBytes("x")...)
		var got []string
		for it, err := range call.Response().Items(t.Context()) {
			require.NoError(t, err)
			if it.Log != nil {
				got = append(got, it.Log.Level)
				continue
			}
			got = append(got, string(it.Data.Bytes))
		}
		assert.Equal(t, []string{"queued", "dequeued", "x"}, got)
	})
}

func TestCancel(t *testing.T) {
	for name, reason := range map[string]failure.CancelReason{
		"by a user":        failure.UserCancel(),
		"as collateral":    failure.Collateral(failure.Resource, "out of memory"),
		"with a code":      {Code: "SUPERSEDED", Class: failure.User, Message: "a newer take"},
		"without a reason": failure.Unattributed(),
		"by killing":       {Code: failure.Cancelled, Class: failure.User, Message: "now", ForceKill: true},
	} {
		t.Run("R-12.80 "+name, func(t *testing.T) {
			f, conn := live(t, true)
			call, _ := f.call(conn)
			out := call.Arg("media:")
			require.NoError(t, out.Start())
			f.want(frame.TypeStreamStart)
			reading := inBackground(func() error {
				_, err := call.Response().Next(t.Context())
				return err
			})
			call.Cancel(reason)
			want := reason.Terminal()
			got := wantFailure(t, wait(t, reading, "the read"), want.Code, want.Class)
			assert.Equal(t, want.Message, got.Message)
			_, err := out.Write(make([]byte, 1<<20))
			wantFailure(t, err, want.Code, want.Class)
			c := f.want(frame.TypeCancel)
			text := func(key string) string { s, _ := c.Meta()[key].(string); return s }
			assert.Equal(t, reason, failure.CancelReason{Code: text("code"), Class: failure.Class(text("attribution_class")),
				Message: text("message"), ForceKill: c.Flag(frame.KeyForceKill)})
			call.Cancel(failure.Unattributed())
			f.wantAlive(conn) // one CANCEL, and nothing of the body behind it
		})
	}
	t.Run("R-12.80 after the answer there is nothing to cancel", func(t *testing.T) {
		f, conn := live(t, true)
		call, req := f.call(conn)
		f.answer(req, answerBytes("whole")...)
		wait(t, call.Context().Done(), "the end of the call")
		call.Cancel(failure.UserCancel())
		got, err := call.Response().CollectBytes(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "whole", string(got))
		f.wantAlive(conn)
	})
	t.Run("R-12.82 the end of the call's context is a cancel that names nobody", func(t *testing.T) {
		f, conn := live(t, true)
		ctx, cancel := context.WithCancelCause(t.Context())
		call, err := conn.Call(ctx, anyCap)
		require.NoError(t, err)
		f.want(frame.TypeReq)
		enough := errors.New("enough")
		cancel(enough)
		c := f.want(frame.TypeCancel)
		assert.False(t, c.Has(frame.KeyMeta))
		assert.Equal(t, false, c[frame.KeyForceKill])
		_, err = call.Response().Next(t.Context())
		require.ErrorIs(t, err, enough)
	})
	t.Run("R-12.82 WithCancelReason names somebody", func(t *testing.T) {
		f, conn := live(t, true)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := conn.Call(ctx, anyCap, host.WithCancelReason(failure.UserCancel()))
		require.NoError(t, err)
		f.want(frame.TypeReq)
		cancel()
		assert.Equal(t, map[string]any{"code": "CANCELLED", "attribution_class": "user", "message": "Cancelled by user"},
			f.want(frame.TypeCancel).Meta())
	})
	t.Run("R-12.82 the end of a read's context is no cancel", func(t *testing.T) {
		f, conn := live(t, true)
		call, req := f.call(conn)
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		cancel(enough)
		_, err := call.Response().Next(ctx)
		require.ErrorIs(t, err, enough)
		f.answer(req, answerBytes("still here")...)
		got, err := call.Response().CollectBytes(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "still here", string(got))
	})
	t.Run("R-12.82 a call that waits for room on the link ends with its context and was never made", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			out := &stalling{Writer: f.hostOut, closed: make(chan struct{})}
			f.hostOut = out
			conn := f.live(true)
			out.stalled.Store(true)
			first, err := conn.Call(t.Context(), anyCap)
			require.NoError(t, err)
			synctest.Wait()
			arg := first.Arg("media:")
			filled := inBackground(func() error {
				_, err := arg.Write(make([]byte, 8<<20)) // the lane holds 1 MiB
				return err
			})
			synctest.Wait()
			ctx, cancel := context.WithCancelCause(t.Context())
			second := inBackground(func() error {
				_, err := conn.Call(ctx, anyCap)
				return err
			})
			synctest.Wait()
			enough := errors.New("enough")
			cancel(enough)
			require.ErrorIs(t, <-second, enough)
			conn.Close()
			require.ErrorIs(t, <-filled, host.ErrClosed)
		})
	})
	t.Run("R-12.83 CloseFeeds sends CLOSE_STREAM and the call goes on", func(t *testing.T) {
		f, conn := live(t, true)
		call, req := f.call(conn)
		require.NoError(t, call.CloseFeeds("microphone"))
		c := f.want(frame.TypeCloseStream)
		assert.Equal(t, req.ID(), c.ID())
		assert.Equal(t, req.Routing(), c.Routing())
		assert.Equal(t, "microphone", c.Stream())
		require.NoError(t, call.CloseFeeds(""))
		assert.False(t, f.want(frame.TypeCloseStream).Has(frame.KeyStreamID))
		f.answer(req, answerBytes("drained")...)
		got, err := call.Response().CollectBytes(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "drained", string(got))
	})
}
