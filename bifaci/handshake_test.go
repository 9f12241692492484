package bifaci_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// wire is a frame in bytes, as a CBOR library writes it.
func wire(t *testing.T, f cartridgetest.Frame) []byte {
	t.Helper()
	for _, k := range []frame.Key{frame.KeyID, frame.KeySeq} {
		if !f.Has(k) {
			f = f.With(k, uint64(0))
		}
	}
	body, err := cbor.Marshal(f)
	require.NoError(t, err)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// metaWith changes one entry of a frame's meta; nil takes it out.
func metaWith(f cartridgetest.Frame, key string, v any) cartridgetest.Frame {
	m := map[string]any{}
	for k, old := range f.Meta() {
		m[k] = old
	}
	if m[key] = v; v == nil {
		delete(m, key)
	}
	return f.With(frame.KeyMeta, m)
}

func TestMode(t *testing.T) {
	t.Run("R-2.1 an argument means the command line", func(t *testing.T) {
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		require.NoError(t, err)
		args, stdout := os.Args, os.Stdout
		os.Args, os.Stdout = []string{"cartridge", "manifest"}, out
		defer func() { os.Args, os.Stdout = args, stdout }()
		c, err := bifaci.New(manifestOf("one"))
		require.NoError(t, err)
		require.NoError(t, c.Run(t.Context()))
		require.NoError(t, out.Close())
		got, err := os.ReadFile(out.Name())
		require.NoError(t, err)
		want, err := c.Manifest().JSON()
		require.NoError(t, err)
		assert.JSONEq(t, string(want), string(got))
	})
	t.Run("R-2.2 a cartridge runs once", func(t *testing.T) {
		c, err := bifaci.New(manifestOf())
		require.NoError(t, err)
		require.Error(t, c.Serve(t.Context(), bytes.NewReader(nil), io.Discard))
		require.ErrorIs(t, c.Serve(t.Context(), unreadable{t}, io.Discard), bifaci.ErrAlreadyRun)
		require.ErrorIs(t, c.RunCLI(t.Context(), []string{"manifest"}, unreadable{t}, io.Discard, io.Discard), bifaci.ErrAlreadyRun)
	})
	t.Run("R-2.3 Serve takes any streams, whatever they give at a time", func(t *testing.T) {
		c := cartridgeOf(t, nil, nil, answers("one"))
		in := bytes.Join([][]byte{wire(t, cartridgetest.HelloFrame(frame.DefaultLimits())), wire(t, cartridgetest.PolicyFrame(bifaci.Policy{Name: "p"})),
			wire(t, cartridgetest.ReqFrame(capNamed("one")).With(frame.KeyID, uint64(1))),
			wire(t, cartridgetest.EndFrame(false).With(frame.KeyID, uint64(1)).With(frame.KeySeq, uint64(1)))}, nil)
		check := cartridgetest.NewCheck()
		_, err := check.Tap(cartridgetest.ToCartridge, nil).Write(in)
		require.NoError(t, err)
		require.NoError(t, c.Serve(t.Context(), iotest.DataErrReader(iotest.OneByteReader(bytes.NewReader(in))), check.Tap(cartridgetest.ToHost, io.Discard)))
		assert.Empty(t, check.Breaches())
		assert.Empty(t, check.Unanswered())
	})
}

func TestHandshake(t *testing.T) {
	hello := cartridgetest.HelloFrame(frame.DefaultLimits())
	fails := func(t *testing.T, in []byte) error {
		t.Helper()
		c, err := bifaci.New(manifestOf())
		require.NoError(t, err)
		var out bytes.Buffer
		err = c.Serve(t.Context(), bytes.NewReader(in), &out)
		require.ErrorIs(t, err, bifaci.ErrHandshake)
		assert.Empty(t, out.Bytes(), "nothing was sent")
		return err
	}
	virtual(t, "R-2.23 nothing is written before the host's HELLO, and HELLO is first and has the pools", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil), cartridgetest.WithoutHello())
		synctest.Wait()
		assert.Empty(t, h.Check().Trace())
		h.Send(hello)
		h.Policy(bifaci.Policy{Name: "p"})
		assert.Contains(t, h.Probe().Pools, "all")
		assert.Contains(t, h.Hello().Meta(), "pools")
	})
	for name, tc := range map[string]struct {
		in   []byte
		says []string
	}{
		"end of input":           {nil, nil},
		"a cut prefix":           {[]byte{0, 0}, nil},
		"a cut frame":            {wire(t, hello)[:20], nil},
		"a probe first":          {wire(t, cartridgetest.HeartbeatFrame(nil)), []string{"heartbeat"}},
		"version 4 in the frame": {wire(t, hello.With(frame.KeyVersion, uint64(4))), []string{"4", "6"}},
		"version 4 in the meta":  {wire(t, metaWith(hello, "version", uint64(4))), []string{"4", "6"}},
		"version 262":            {wire(t, metaWith(hello, "version", uint64(262))), []string{"262", "6"}},
		"no version":             {wire(t, metaWith(hello, "version", nil)), []string{"version"}},
		"no max_frame":           {wire(t, metaWith(hello, "max_frame", nil)), []string{"max_frame"}},
		"no max_chunk":           {wire(t, metaWith(hello, "max_chunk", nil)), []string{"max_chunk"}},
		"no max_reorder_buffer":  {wire(t, metaWith(hello, "max_reorder_buffer", nil)), []string{"max_reorder_buffer"}},
		"no initial_credit":      {wire(t, metaWith(hello, "initial_credit", nil)), []string{"initial_credit"}},
		"a limit as text":        {wire(t, metaWith(hello, "max_frame", "1000")), []string{"max_frame"}},
		"credit 0":               {wire(t, metaWith(hello, "initial_credit", uint64(0))), []string{"initial_credit", "0", "32"}},
		"undecodable":            {[]byte{0, 0, 0, 1, 0xff}, nil},
		"an empty frame":         {[]byte{0, 0, 0, 0}, nil},
		"a frame too large":      {[]byte{0xff, 0xff, 0xff, 0xff}, nil},
	} {
		t.Run("R-2.24 "+name, func(t *testing.T) {
			err := fails(t, tc.in)
			for _, s := range tc.says {
				assert.ErrorContains(t, err, s)
			}
		})
	}
	virtual(t, "R-2.25 Limits are the proposal, then what was agreed", func(t *testing.T) {
		ours := frame.Limits{MaxFrame: 2_000_000, MaxChunk: 500, MaxReorderBuffer: 7, InitialCredit: 9}
		theirs := frame.Limits{MaxFrame: 1_000_000, MaxChunk: 1000, MaxReorderBuffer: 3, InitialCredit: 20}
		c := cartridgeOf(t, nil, []bifaci.Option{bifaci.WithLimits(ours)})
		assert.Equal(t, ours, c.Limits())
		h := cartridgetest.Start(t, c, cartridgetest.WithLimits(theirs))
		agreed := frame.Limits{MaxFrame: 1_000_000, MaxChunk: 500, MaxReorderBuffer: 3, InitialCredit: 9}
		assert.Equal(t, agreed, c.Limits())
		assert.Equal(t, agreed, h.Limits())
		for key, own := range map[string]uint64{"max_frame": 2_000_000, "max_chunk": 500, "max_reorder_buffer": 7, "initial_credit": 9} {
			assert.Equal(t, own, h.Hello().Meta()[key], "HELLO has our own proposal of %s", key)
		}
	})
}

// brokenInputs end the link of at once.
func brokenInputs(t *testing.T) map[string][]byte {
	t.Helper()
	policy := cartridgetest.PolicyFrame(bifaci.Policy{Name: "p"})
	relay := func(n uint64) cartridgetest.Frame {
		return cartridgetest.HeartbeatFrame(nil).With(frame.KeyType, n).With(frame.KeyPayload, []byte("x"))
	}
	network := func(key string, v any) cartridgetest.Frame {
		m := map[string]any{}
		for k, old := range policy.Meta()["network"].(map[string]any) {
			m[k] = old
		}
		m[key] = v
		return policy.With(frame.KeyMeta, map[string]any{"network": m})
	}
	return map[string][]byte{
		"an empty frame":              {0, 0, 0, 0},
		"a frame too large":           {0x01, 0x00, 0x00, 0x01},
		"a body that is no CBOR":      {0, 0, 0, 1, 0xff},
		"a body that is no map":       {0, 0, 0, 1, 0x05},
		"an unknown type":             wire(t, cartridgetest.HeartbeatFrame(nil).With(frame.KeyType, uint64(16))),
		"the retired type":            wire(t, cartridgetest.HeartbeatFrame(nil).With(frame.KeyType, uint64(2))),
		"a frame of version 4":        wire(t, cartridgetest.HeartbeatFrame(nil).With(frame.KeyVersion, uint64(4))),
		"an id that is none":          wire(t, cartridgetest.HeartbeatFrame(nil).With(frame.KeyID, []byte{1, 2, 3})),
		"RELAY_NOTIFY":                wire(t, relay(10)),
		"RELAY_STATE":                 wire(t, relay(11)),
		"POLICY without a name":       wire(t, network("name", "")),
		"POLICY with a number":        wire(t, network("telemetry", uint64(1))),
		"POLICY with another key":     wire(t, network("other", true)),
		"POLICY without meta":         wire(t, policy.Without(frame.KeyMeta)),
		"CHUNK without a checksum":    wire(t, cartridgetest.ChunkFrame("s", 0, nil).Without(frame.KeyChecksum)),
		"CREDIT without a count":      wire(t, cartridgetest.CreditFrame(frame.CreditResponse, "s", 1).Without(frame.KeyCredit)),
		"a negative chunk_index":      wire(t, cartridgetest.ChunkFrame("s", 0, nil).With(frame.KeyChunkIndex, int64(-1))),
		"a body with bytes behind it": append([]byte{0, 0, 0, 11}, append(wire(t, cartridgetest.HeartbeatFrame(nil))[4:], 0, 0)...),
	}
}

func TestFatalFrames(t *testing.T) {
	for name, b := range brokenInputs(t) {
		virtual(t, "R-2.32 "+name, func(t *testing.T) {
			g := newGate()
			c := cartridgeOf(t, bounded(map[string]uint64{capNamed("line"): 1}), nil, served{"one", g.handle}, served{"line", g.handle})
			h := cartridgetest.Start(t, c)
			running := h.Request(capNamed("one")).Chunk("x").End()
			ahead, inLine := h.Request(capNamed("line")).End(), h.Request(capNamed("line")).End()
			inLine.WantLog("queued")
			r := <-g.started
			h.SendBytes(b)
			inLine.WantErr(failure.ProtocolError, failure.Internal)
			<-r.Context().Done()
			synctest.Wait()
			g.open()
			running.WantErr(failure.ProtocolError, failure.Internal)
			ahead.WantErr(failure.ProtocolError, failure.Internal)
			require.Error(t, h.Wait())
			assert.Empty(t, h.Check().Unanswered())
			h.WantIdle()
		})
		virtual(t, "R-3.1 fatal before the first POLICY too: "+name, func(t *testing.T) {
			h := cartridgetest.Start(t, cartridgeOf(t, nil, nil), cartridgetest.WithoutPolicy())
			h.SendBytes(b)
			require.Error(t, h.Wait())
		})
	}
}
