package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/host"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

func TestHandshake(t *testing.T) {
	t.Run("R-12.1 the host speaks first and both ends of the codec take the negotiated limits", func(t *testing.T) {
		f := newFake(t)
		r, w := frame.NewReader(f.hostIn), frame.NewWriter(f.hostOut)
		ours := frame.Limits{MaxFrame: 5000, MaxChunk: 300, MaxReorderBuffer: 7, InitialCredit: 9}
		type result struct {
			res host.HandshakeResult
			err error
		}
		done := inBackground(func() result {
			res, err := host.Handshake(t.Context(), r, w, ours)
			return result{res, err}
		})
		h := f.want(frame.TypeHello)
		assert.Equal(t, uint64(frame.Version), h.Uint(frame.KeyVersion))
		assert.Equal(t, map[string]any{"version": uint64(6), "max_frame": uint64(5000), "max_chunk": uint64(300),
			"max_reorder_buffer": uint64(7), "initial_credit": uint64(9)}, h.Meta(), "limits and version; no manifest, no pools")
		f.send(helloWith(t, func(m map[string]any) { m["max_chunk"], m["initial_credit"] = uint64(200), uint64(90) }))
		got := wait(t, done, "the handshake")
		require.NoError(t, got.err)
		assert.Equal(t, frame.Limits{MaxFrame: 5000, MaxChunk: 200, MaxReorderBuffer: 7, InitialCredit: 9}, got.res.Limits)
		assert.JSONEq(t, string(manifestJSON(t)), string(got.res.JSON))
		assert.Contains(t, got.res.Pools, "all")

		err := w.Write(&frame.Frame{Type: frame.TypeChunk, ID: frame.UintID(1), Payload: make([]byte, 5000), Has: frame.Keys(0).With(frame.KeyPayload)})
		assert.Equal(t, frame.TokenFrameTooLarge, frame.TokenOf(err), "the writer keeps to the negotiated max_frame")
		go f.send(cartridgetest.ChunkFrame("s", 0, make([]byte, 5000)))
		_, err = r.Read()
		assert.Equal(t, frame.TokenFrameTooLarge, frame.TokenOf(err), "so does the reader")
	})
	t.Run("R-12.2 the cartridge sends nothing before it has read the host's HELLO", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := cartridgetest.Start(t, cartridgetest.Serving(t, anyCap, echo), cartridgetest.WithoutHello())
			synctest.Wait()
			require.Nil(t, h.Hello())
			h.Send(cartridgetest.HelloFrame(frame.Limits{MaxFrame: 4000, MaxChunk: 100, MaxReorderBuffer: 3, InitialCredit: 5}))
			synctest.Wait()
			require.NotNil(t, h.Hello())
			assert.Equal(t, frame.DefaultLimits().MaxFrame, h.Hello().Meta()["max_frame"], "its own proposal, not the minimum")
			assert.Contains(t, h.Hello().Meta(), "manifest")
			assert.Contains(t, h.Hello().Meta(), "pools")
			h.CloseInput()
			require.NoError(t, h.Wait())
		})
	})
}

func TestHandshakeRefusals(t *testing.T) {
	meta := func(change func(map[string]any)) func(*testing.T) Frame {
		return func(t *testing.T) Frame { return helloWith(t, change) }
	}
	without := func(key string) func(*testing.T) Frame {
		return meta(func(m map[string]any) { delete(m, key) })
	}
	type row struct {
		name  string
		hello func(*testing.T) Frame
		want  []string
	}
	rows := []row{
		{"R-12.3 initial_credit 0 names both proposals", meta(func(m map[string]any) { m["initial_credit"] = uint64(0) }), []string{"initial_credit", "32", "0"}},
		{"R-12.3 a limit that is text", meta(func(m map[string]any) { m["max_chunk"] = "many" }), []string{"max_chunk"}},
		{"R-12.3 a limit that is negative", meta(func(m map[string]any) { m["max_frame"] = -1 }), []string{"max_frame"}},
		{"R-12.3 a limit of 0", meta(func(m map[string]any) { m["max_reorder_buffer"] = uint64(0) }), []string{"max_reorder_buffer"}},
		{"R-12.4 another version in meta", meta(func(m map[string]any) { m["version"] = uint64(5) }), []string{"5", "6"}},
		{"R-12.4 a version that is 6 in its low byte only", meta(func(m map[string]any) { m["version"] = uint64(262) }), []string{"262", "6"}},
		{"R-12.4 no version in meta", without("version"), []string{"version", "missing"}},
		{"R-12.4 another version in key 0", func(t *testing.T) Frame { return hello(t).With(frame.KeyVersion, uint64(4)) }, []string{"4", "6"}},
		{"R-12.5 no manifest", without("manifest"), []string{"manifest"}},
		{"R-12.5 a manifest that is text", meta(func(m map[string]any) { m["manifest"] = "{}" }), []string{"manifest"}},
		{"R-12.5 a manifest that is no JSON", meta(func(m map[string]any) { m["manifest"] = []byte("{") }), []string{"manifest"}},
		{"R-12.5 no pools", without("pools"), []string{"pools"}},
		{"R-12.5 pools that are no JSON object", meta(func(m map[string]any) { m["pools"] = []byte("[]") }), []string{"pools"}},
		{"R-12.5 a pool without its numbers", meta(func(m map[string]any) { m["pools"] = []byte(`{"all":{"declared":0}}`) }), []string{"pools", "all"}},
		{"R-12.5 a manifest without the identity cap", meta(func(m map[string]any) {
			c := manifest.NewCap(anyCap, "Work", "work")
			none := manifest.New("fake", "1.0.0", "x", manifest.DefaultGroup(c))
			m["manifest"], _ = none.JSON()
		}), []string{"manifest", "cap:effect=none"}},
		{"R-12.1 a first frame that is no HELLO", func(*testing.T) Frame { return cartridgetest.HeartbeatFrame(nil) }, []string{"heartbeat", "hello"}},
	}
	for _, key := range []string{"max_frame", "max_chunk", "max_reorder_buffer", "initial_credit"} {
		rows = append(rows, row{"R-12.3 no " + key, without(key), []string{key, "missing"}})
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			f := newFake(t)
			done := f.connect(t.Context())
			f.want(frame.TypeHello)
			f.send(r.hello(t))
			got := wait(t, done, "the refusal")
			require.ErrorIs(t, got.err, bifaci.ErrHandshake)
			for _, word := range r.want {
				assert.ErrorContains(t, got.err, word)
			}
			f.wantEnd()
		})
	}
	t.Run("R-12.5 the missing identity cap is told by its own error", func(t *testing.T) {
		f := newFake(t)
		done := f.connect(t.Context())
		f.want(frame.TypeHello)
		f.send(helloWith(t, func(m map[string]any) {
			none := manifest.New("fake", "1.0.0", "x", manifest.DefaultGroup(manifest.NewCap(anyCap, "Work", "work")))
			m["manifest"], _ = none.JSON()
		}))
		require.ErrorIs(t, wait(t, done, "the refusal").err, bifaci.ErrIdentityMissing)
	})
	t.Run("R-12.5 identity in another spelling is identity", func(t *testing.T) {
		f := newFake(t)
		done := f.connect(t.Context(), host.WithoutPolicy())
		f.want(frame.TypeHello)
		f.send(helloWith(t, func(m map[string]any) {
			c := manifest.IdentityCap()
			c.URN = `cap:effect="none"`
			b, err := manifest.New("fake", "1.0.0", "x", manifest.DefaultGroup(c)).JSON()
			require.NoError(t, err)
			m["manifest"] = b
		}))
		f.answer(f.takeIdentity(), answerBytes("\x66bifaci")...)
		got := wait(t, done, "the link")
		require.NoError(t, got.err)
		got.conn.Close()
	})
	t.Run("R-12.1 the output ends before HELLO", func(t *testing.T) {
		f := newFake(t)
		done := f.connect(t.Context())
		f.want(frame.TypeHello)
		require.NoError(t, f.out.Close())
		err := wait(t, done, "the refusal").err
		require.ErrorIs(t, err, bifaci.ErrHandshake)
		require.ErrorIs(t, err, io.EOF)
		f.wantEnd()
	})
	t.Run("R-12.1 what is no frame", func(t *testing.T) {
		f := newFake(t)
		done := f.connect(t.Context())
		f.want(frame.TypeHello)
		f.sendBytes([]byte("Starting engine...\n"))
		err := wait(t, done, "the refusal").err
		require.ErrorIs(t, err, bifaci.ErrHandshake)
		assert.Equal(t, frame.TokenFrameTooLarge, frame.TokenOf(err))
	})
}

func TestIdentityCheck(t *testing.T) {
	start := cartridgetest.StartFrame("own", "media:")
	nonce := cartridgetest.ChunkFrame("own", 0, cartridgetest.Bytes("\x66bifaci"))
	end := []Frame{cartridgetest.StreamEndFrame("own", 1), cartridgetest.EndFrame(true)}
	answer := func(frames ...any) (all []Frame) {
		for _, f := range frames {
			switch f := f.(type) {
			case Frame:
				all = append(all, f)
			case []Frame:
				all = append(all, f...)
			}
		}
		return all
	}
	t.Run("R-12.6 the request, frame by frame", func(t *testing.T) {
		f := newFake(t)
		done := f.connect(t.Context(), host.WithoutPolicy())
		f.want(frame.TypeHello)
		f.send(hello(t))
		req := f.want(frame.TypeReq)
		assert.Equal(t, "cap:effect=none", req.Text(frame.KeyCap))
		assert.Equal(t, "application/cbor", req.Text(frame.KeyContentType))
		assert.Equal(t, []byte{}, req.Payload())
		assert.Equal(t, uint64(0), req[frame.KeyRoutingID])
		assert.Len(t, req[frame.KeyID], 16)
		rest := []Frame{f.want(frame.TypeStreamStart), f.want(frame.TypeChunk), f.want(frame.TypeStreamEnd), f.want(frame.TypeEnd)}
		for i, g := range rest {
			assert.Equal(t, req.ID(), g.ID())
			assert.Equal(t, uint64(0), g[frame.KeyRoutingID])
			assert.Equal(t, uint64(i+1), g.Seq())
		}
		assert.Equal(t, "identity-verify", rest[0].Stream())
		assert.Equal(t, "media:", rest[0].Text(frame.KeyMediaURN))
		assert.Equal(t, []byte("\x47\x66bifaci"), rest[1].Payload())
		assert.Equal(t, uint64(0x89079b86e57ae3b0), rest[1].Uint(frame.KeyChecksum))
		assert.Equal(t, uint64(1), rest[2].Uint(frame.KeyChunkCount))
		assert.False(t, rest[3].Has(frame.KeyMeta))

		// In pieces, as any answer may come.
		f.answer(req, start, cartridgetest.ChunkFrame("own", 0, cartridgetest.Bytes("\x66bif")),
			cartridgetest.ChunkFrame("own", 1, cartridgetest.Bytes("aci")), cartridgetest.StreamEndFrame("own", 2), cartridgetest.EndFrame(true))
		got := wait(t, done, "the link")
		require.NoError(t, got.err)
		got.conn.Close()
	})
	t.Run("R-12.7 LOG and CREDIT are let pass and a HEARTBEAT is answered", func(t *testing.T) {
		f := newFake(t)
		done := f.connect(t.Context(), host.WithoutPolicy())
		f.want(frame.TypeHello)
		f.send(hello(t))
		req := f.takeIdentity()
		f.send(cartridgetest.HeartbeatFrame(nil).With(frame.KeyID, uint64(77)))
		require.Equal(t, frame.UintID(77), f.want(frame.TypeHeartbeat).ID())
		f.answer(req, cartridgetest.CreditFrame(frame.CreditRequest, frame.IdentityStream, 1), cartridgetest.LogFrame("info", failure.Internal, "hello"))
		f.send(cartridgetest.LogFrame("info", failure.Internal, "of nobody").With(frame.KeyID, uint64(9)))
		f.answer(req, answer(start, nonce, end)...)
		got := wait(t, done, "the link")
		require.NoError(t, got.err)
		got.conn.Close()
	})

	other := func(g Frame) Frame { return g.With(frame.KeyID, uint64(4711)) }
	for _, c := range []struct {
		name   string
		frames []Frame
		want   string
	}{
		{"another frame type", []Frame{cartridgetest.CloseStreamFrame("")}, "close_stream"},
		{"a REQ of its own", []Frame{cartridgetest.ReqFrame(anyCap)}, "req"},
		{"a POLICY", []Frame{cartridgetest.PolicyFrame(host.Online())}, "policy"},
		{"a second HELLO", []Frame{hello(t)}, "hello"},
		{"ERR", []Frame{cartridgetest.ErrFrame("ENGINE_GONE", failure.Environment, "no engine")}, "ENGINE_GONE"},
		{"an ERR that says nothing", []Frame{cartridgetest.ErrFrame("", failure.Environment, "no engine")}, "code"},
		{"a chunk before its stream", []Frame{nonce}, "before"},
		{"a wrong checksum", answer(start, nonce.With(frame.KeyChecksum, uint64(1)), end), "checksum"},
		{"a chunk that is text", answer(start, cartridgetest.ChunkFrame("own", 0, []byte("\x66bifaci")), end), "byte string"},
		{"other bytes", answer(start, cartridgetest.ChunkFrame("own", 0, cartridgetest.Bytes("\x66bifacj")), end), "came back"},
		{"too few bytes", answer(start, cartridgetest.ChunkFrame("own", 0, cartridgetest.Bytes("\x66bif")), end), "came back"},
		{"more bytes", answer(start, nonce, cartridgetest.ChunkFrame("own", 1, cartridgetest.Bytes("!"))), "more bytes"},
		{"no bytes", answer(start, cartridgetest.StreamEndFrame("own", 0), cartridgetest.EndFrame(true)), "came back"},
		{"END without exit_code", answer(start, nonce, end[0], cartridgetest.EndFrame(false)), "exit_code"},
		{"END with exit_code 1", answer(start, nonce, end[0], cartridgetest.EndFrame(true).
			With(frame.KeyMeta, map[string]any{"exit_code": uint64(1), "progress": 1.0})), "exit_code"},
	} {
		t.Run("R-12.7 "+c.name+" fails it", func(t *testing.T) {
			f := newFake(t)
			done := f.connect(t.Context())
			f.want(frame.TypeHello)
			f.send(hello(t))
			req := f.takeIdentity()
			go f.answer(req, c.frames...) // the host stops reading at the first that is wrong
			err := wait(t, done, "the failure").err
			require.ErrorIs(t, err, host.ErrIdentity)
			assert.ErrorContains(t, err, c.want)
			f.wantEnd()
		})
	}
	for _, c := range []struct {
		name string
		g    Frame
	}{{"STREAM_START", other(start)}, {"CHUNK", other(nonce)}, {"STREAM_END", other(end[0])}, {"END", other(end[1])},
		{"ERR", other(cartridgetest.ErrFrame("X", failure.Internal, "x"))}} {
		t.Run("R-12.7 a "+c.name+" of another request fails it", func(t *testing.T) {
			f := newFake(t)
			done := f.connect(t.Context())
			f.want(frame.TypeHello)
			f.send(hello(t))
			f.takeIdentity()
			f.send(c.g)
			err := wait(t, done, "the failure").err
			require.ErrorIs(t, err, host.ErrIdentity)
			assert.ErrorContains(t, err, "4711")
		})
	}
	t.Run("R-12.7 the end of the output fails it", func(t *testing.T) {
		f := newFake(t)
		done := f.connect(t.Context())
		f.want(frame.TypeHello)
		f.send(hello(t))
		f.takeIdentity()
		require.NoError(t, f.out.Close())
		err := wait(t, done, "the failure").err
		require.ErrorIs(t, err, host.ErrIdentity)
		require.ErrorIs(t, err, io.EOF)
	})
	t.Run("R-12.6 VerifyIdentity alone, with a plain reader and writer", func(t *testing.T) {
		f := newFake(t)
		// Somebody else has made the HELLO.
		_, err := f.check.Tap(cartridgetest.ToCartridge, nil).Write(f.wire(cartridgetest.HelloFrame(frame.DefaultLimits()).With(
			frame.KeyID, uint64(0)).With(frame.KeySeq, uint64(0))))
		require.NoError(t, err)
		done := inBackground(func() error {
			return host.VerifyIdentity(t.Context(), frame.NewReader(f.hostIn), frame.NewWriter(f.hostOut))
		})
		f.answer(f.takeIdentity(), answer(start, nonce, end)...)
		require.NoError(t, wait(t, done, "the check"))
	})
}

// stubborn is a stream that nobody can interrupt: it has neither Interrupt nor Close.
type stubborn struct{ release chan struct{} }

func (s stubborn) Read([]byte) (int, error) {
	<-s.release
	return 0, io.EOF
}

func TestHandshakeTimeLimits(t *testing.T) {
	t.Run("R-12.8 fifteen seconds for HELLO", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			begin := time.Now()
			done := f.connect(t.Context())
			f.want(frame.TypeHello)
			err := (<-done).err
			require.ErrorIs(t, err, bifaci.ErrHandshake)
			assert.ErrorContains(t, err, "15s")
			assert.Equal(t, 15*time.Second, time.Since(begin))
			f.wantEnd()
		})
	})
	t.Run("R-12.8 fifteen seconds more for the identity check", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			begin := time.Now()
			done := f.connect(t.Context())
			f.want(frame.TypeHello)
			time.Sleep(14 * time.Second)
			f.send(hello(t))
			f.takeIdentity()
			err := (<-done).err
			require.ErrorIs(t, err, host.ErrIdentity)
			assert.Equal(t, 29*time.Second, time.Since(begin))
		})
	})
	t.Run("R-12.8 both are options", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			begin := time.Now()
			done := f.connect(t.Context(), host.WithHandshakeTimeout(time.Second, 3*time.Second))
			f.want(frame.TypeHello)
			f.send(hello(t))
			f.takeIdentity()
			require.ErrorIs(t, (<-done).err, host.ErrIdentity)
			assert.Equal(t, 3*time.Second, time.Since(begin))
		})
	})
	t.Run("R-12.8 they hold although nothing can be interrupted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := stubborn{make(chan struct{})}
			_, err := host.Connect(t.Context(), s, io.Discard)
			require.ErrorIs(t, err, bifaci.ErrHandshake)
			close(s.release) // the one goroutine that it costs
			synctest.Wait()
		})
	})
	t.Run("R-12.8 they hold although nobody reads what the host writes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			in, _ := io.Pipe()
			_, out := io.Pipe()
			_, err := host.Connect(t.Context(), in, out)
			require.ErrorIs(t, err, bifaci.ErrHandshake)
		})
	})
	t.Run("the context ends it with its cause", func(t *testing.T) {
		f := newFake(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		done := f.connect(ctx)
		f.want(frame.TypeHello)
		enough := errors.New("enough")
		cancel(enough)
		err := wait(t, done, "the end").err
		require.ErrorIs(t, err, bifaci.ErrHandshake)
		require.ErrorIs(t, err, enough)
		f.wantEnd()
	})
}

func ExampleWithHandshakeTimeout() {
	in, _ := io.Pipe() // a cartridge that says nothing
	_, err := host.Connect(context.Background(), in, io.Discard, host.WithHandshakeTimeout(time.Millisecond, time.Second))
	fmt.Println(err)
	// Output: bifaci: handshake failed: the cartridge sent no hello within 1ms
}
