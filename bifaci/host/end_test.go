package host_test

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/host"
)

func TestViolationsEndTheLink(t *testing.T) {
	relay := func(typ frame.Type) Frame {
		return Frame{frame.KeyVersion: uint64(6), frame.KeyType: uint64(typ)}
	}
	raw := func(b ...byte) func(*fake, Frame) { return func(f *fake, _ Frame) { f.sendBytes(b) } }
	frames := func(g ...Frame) func(*fake, Frame) { return func(f *fake, _ Frame) { f.send(g...) } }
	reply := func(poolMap string) func(*fake, Frame) {
		return func(f *fake, probe Frame) { f.send(pulse(probe, poolMap, nil)) }
	}
	for _, c := range []struct {
		name string
		do   func(f *fake, probe Frame)
		want string
	}{
		{"HELLO after the handshake", frames(hello(t)), "hello"},
		{"POLICY", frames(cartridgetest.PolicyFrame(host.Online())), "policy"},
		{"RELAY_NOTIFY", frames(relay(frame.TypeRelayNotify)), "relay_notify"},
		{"RELAY_STATE", frames(relay(frame.TypeRelayState)), "relay_state"},
		{"R-12.62 a REQ with a routing id", frames(cartridgetest.ReqFrame(anyCap).With(frame.KeyRoutingID, uint64(3))), "routing id"},
		{"a heartbeat reply without pools", func(f *fake, probe Frame) { f.send(pulse(probe, noPools, nil).Without(frame.KeyMeta)) }, "pools"},
		{"a heartbeat reply with unreadable pools", reply(`{"all":3}`), "pools"},
		{"an ERR for a probe that says nothing", func(f *fake, probe Frame) {
			f.send(cartridgetest.ErrFrame("X", "nobody", "x").With(frame.KeyID, probe[frame.KeyID]))
		}, "attribution_class"},
		{"an undecodable frame", raw(0, 0, 0, 1, 0xff), "no frame"},
		{"a frame of another version", frames(cartridgetest.HeartbeatFrame(nil).With(frame.KeyVersion, uint64(4))), "4"},
		{"a frame of an unknown type", frames(Frame{frame.KeyVersion: uint64(6), frame.KeyType: uint64(200)}), "200"},
		{"a frame above the limit", raw(0x7f, 0xff, 0xff, 0xff), "frame-too-large"},
	} {
		t.Run("R-12.19 "+c.name, func(t *testing.T) {
			f, conn := live(t, true)
			call, _ := f.call(conn)
			done := inBackground(func() error {
				_, err := conn.Probe(t.Context(), nil)
				return err
			})
			c.do(f, f.want(frame.TypeHeartbeat))
			_, err := call.Response().Next(t.Context())
			got := wantFailure(t, err, failure.ProtocolError, failure.Internal)
			assert.Contains(t, got.Message, c.want)
			wantFailure(t, wait(t, done, "the probe's end"), failure.ProtocolError, failure.Internal)
			wait(t, conn.Done(), "the end of the link")
			wantFailure(t, conn.Err(), failure.ProtocolError, failure.Internal)
			_, err = conn.Call(t.Context(), anyCap)
			wantFailure(t, err, failure.ProtocolError, failure.Internal)
			f.wantEnd()
		})
	}
}

func TestEndOfTheCartridge(t *testing.T) {
	t.Run("R-12.50 the end of its output ends every call with CARTRIDGE_DIED", func(t *testing.T) {
		f, conn := live(t, true)
		first, _ := f.call(conn)
		second, _ := f.call(conn)
		require.NoError(t, f.out.Close())
		for _, call := range []*host.Call{first, second} {
			_, err := call.Response().Next(t.Context())
			wantFailure(t, err, failure.CartridgeDied, failure.Environment)
			require.NotErrorIs(t, err, io.EOF, "that is the clean end")
			_, err = call.Response().CollectBytes(t.Context())
			wantFailure(t, err, failure.CartridgeDied, failure.Environment)
			_, err = call.Arg("media:").Write(make([]byte, 1<<20))
			wantFailure(t, err, failure.CartridgeDied, failure.Environment)
		}
		_, err := conn.Call(t.Context(), anyCap)
		wantFailure(t, err, failure.CartridgeDied, failure.Environment)
		f.wantEnd()
	})
	t.Run("R-12.50 an output that ends inside a frame", func(t *testing.T) {
		f, conn := live(t, true)
		call, _ := f.call(conn)
		f.sendBytes([]byte{0, 0, 0, 9, 0xa4})
		require.NoError(t, f.out.Close())
		_, err := call.Response().Next(t.Context())
		wantFailure(t, err, failure.CartridgeDied, failure.Environment)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	})
	t.Run("R-12.50 an output that fails", func(t *testing.T) {
		f, conn := live(t, true)
		call, _ := f.call(conn)
		broken := errors.New("the machine is gone")
		require.NoError(t, f.out.CloseWithError(broken))
		_, err := call.Response().Next(t.Context())
		wantFailure(t, err, failure.CartridgeDied, failure.Environment)
		require.ErrorIs(t, err, broken)
	})
	t.Run("R-12.51 an answer that is complete before the end succeeds", func(t *testing.T) {
		f, conn := live(t, true)
		call, req := f.call(conn)
		f.answer(req, answerBytes("all", " of it")...)
		require.NoError(t, f.out.Close())
		wait(t, conn.Done(), "the end of the link")
		got, err := call.Response().CollectBytes(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "all of it", string(got))
	})
	t.Run("R-12.51 what came of an incomplete answer is read before the error", func(t *testing.T) {
		f, conn := live(t, true)
		call, req := f.call(conn)
		f.answer(req, answerBytes("some")[:2]...)
		require.NoError(t, f.out.Close())
		wait(t, conn.Done(), "the end of the link")
		it, err := call.Response().Next(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "some", string(it.Data.Bytes))
		_, err = call.Response().Next(t.Context())
		wantFailure(t, err, failure.CartridgeDied, failure.Environment)
	})
	t.Run("R-12.51 an answer counts although the cartridge reads no more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, conn := live(t, true)
			call, req := f.call(conn)
			require.NoError(t, f.in.Close()) // a write of the host's fails from here on
			_, err := call.Arg("media:").Write(make([]byte, 8192))
			require.NoError(t, err)
			synctest.Wait()
			f.answer(req, answerBytes("done")...)
			got, err := call.Response().CollectBytes(t.Context())
			require.NoError(t, err)
			assert.Equal(t, "done", string(got))
			next, err := conn.Call(t.Context(), anyCap)
			if err == nil {
				_, err = next.Response().Next(t.Context())
			}
			require.ErrorIs(t, err, io.ErrClosedPipe)
		})
	})
	t.Run("R-12.50 a cartridge that reads no more and says nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, conn := live(t, true)
			call, _ := f.call(conn)
			require.NoError(t, f.in.Close())
			require.NoError(t, conn.SetPolicy(host.Offline()))
			_, err := call.Response().Next(t.Context())
			wantFailure(t, err, failure.CartridgeDied, failure.Environment)
			require.ErrorIs(t, err, io.ErrClosedPipe)
		})
	})
}

// stalling is a stream whose writes wait, once it is told so, until it is closed.
type stalling struct {
	io.Writer
	stalled atomic.Bool
	once    sync.Once
	closed  chan struct{}
}

func (s *stalling) Write(p []byte) (int, error) {
	if !s.stalled.Load() {
		return s.Writer.Write(p)
	}
	<-s.closed
	return 0, io.ErrClosedPipe
}

func (s *stalling) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Writer.(io.Closer).Close()
}

func TestClose(t *testing.T) {
	t.Run("R-12.21 unfinished calls end and none is made any more", func(t *testing.T) {
		f, conn := live(t, true)
		call, _ := f.call(conn)
		conn.Close()
		_, err := call.Response().Next(t.Context())
		require.ErrorIs(t, err, host.ErrClosed)
		_, err = conn.Call(t.Context(), anyCap)
		require.ErrorIs(t, err, host.ErrClosed)
		_, err = conn.Probe(t.Context(), nil)
		require.ErrorIs(t, err, host.ErrClosed)
		require.Error(t, conn.SetPolicy(host.Offline()))
		f.wantEnd()
		conn.Close()
		require.ErrorIs(t, conn.Err(), host.ErrClosed)
	})
	t.Run("it does not wait for a cartridge that does not read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			out := &stalling{Writer: f.hostOut, closed: make(chan struct{})}
			f.hostOut = out
			conn := f.live(true)
			out.stalled.Store(true)
			require.NoError(t, conn.SetPolicy(host.Offline()))
			synctest.Wait()
			begin := time.Now()
			conn.Close()
			assert.Equal(t, 500*time.Millisecond, time.Since(begin))
		})
	})
	t.Run("R-12.21 after CloseInput answers still come, and no call can be made", func(t *testing.T) {
		f, conn := live(t, true)
		call, req := f.call(conn)
		late, _ := f.call(conn)
		conn.CloseInput()
		f.wantEnd()
		_, err := conn.Call(t.Context(), anyCap)
		require.ErrorIs(t, err, host.ErrClosed)
		f.answer(req, answerBytes("late")...)
		got, err := call.Response().CollectBytes(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "late", string(got))
		require.NoError(t, f.out.Close())
		_, err = late.Response().Next(t.Context())
		require.ErrorIs(t, err, host.ErrClosed)
	})
}
