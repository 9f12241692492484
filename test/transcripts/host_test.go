package transcripts

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/host"
	"github.com/pipe-cartridge/pipe/test/peer"
)

// The handshake transcripts judge a host too: its HELLO, its identity check and its POLICY are the vector's bytes, but for the id
// of the request, which is a fresh one.
func TestTranscriptsOfAHost(t *testing.T) {
	for name, rules := range map[string]string{
		"handshake-identity-policy":          "R-12.1 R-12.30",
		"handshake-with-interleaved-control": "R-12.7 R-12.44",
	} {
		t.Run(name+" "+rules, func(t *testing.T) { replayHost(t, named(t, name)) })
	}
}

type connected struct {
	conn *host.Conn
	err  error
}

func replayHost(t *testing.T, tr *transcript) {
	fromHost, hostOut := io.Pipe()
	hostIn, toTheHost := io.Pipe()
	result := make(chan connected, 1)
	go func() { // ends with the handshake; its result is awaited below
		conn, err := host.Connect(t.Context(), hostIn, hostOut, host.WithPolicy(policyOf(t, tr)),
			host.WithHandshakeTimeout(30*time.Second, 30*time.Second))
		result <- connected{conn, err}
		if err != nil {
			err = errors.Join(hostIn.CloseWithError(err), hostOut.CloseWithError(err)) // shows in the test's next read or write
			assert.NoError(t, err)
		}
	}()
	check := cartridgetest.NewCheck()
	judge := func(d cartridgetest.Direction, wire []byte) {
		_, err := check.Tap(d, nil).Write(wire)
		require.NoError(t, err)
	}
	var theirs, ours []byte // the request id of the transcript, and of the host
	for _, s := range tr.Frames {
		if s.Dir == toHost {
			wire := bytes.ReplaceAll(s.wire, theirs, ours)
			judge(cartridgetest.ToHost, wire)
			_, err := toTheHost.Write(wire)
			require.NoError(t, err, "%s: the host reads no more", s)
			continue
		}
		f, wire, err := peer.ReadFrame(fromHost)
		require.NoError(t, err, "%s: the host writes no more", s)
		judge(cartridgetest.ToCartridge, wire)
		if f.Type() == peer.TypeReq {
			theirs, _ = s.frame[peer.KeyID].([]byte)
			ours, _ = f[peer.KeyID].([]byte)
			require.Len(t, ours, 16, "%s: a uuid", s)
			require.NotEqual(t, theirs, ours, "%s: a fresh id", s)
		}
		want := s.wire
		if ours != nil {
			want = bytes.ReplaceAll(want, theirs, ours)
		}
		require.Equal(t, want, wire, "%s\nwant %s\ngot  %s", s, s.frame, f)
	}
	got := <-result
	require.NoError(t, got.err)
	limits := got.conn.Hello().Limits
	assert.Equal(t, tr.limits(), peer.Limits{MaxFrame: limits.MaxFrame, MaxChunk: limits.MaxChunk,
		MaxReorderBuffer: limits.MaxReorderBuffer, InitialCredit: limits.InitialCredit})
	got.conn.Close()
	<-got.conn.Done()
	rest, err := io.ReadAll(fromHost)
	require.NoError(t, err)
	assert.Empty(t, rest, "the host says nothing more")
	assert.Empty(t, check.Breaches())
	require.NoError(t, toTheHost.Close())
}

// policyOf is the policy that the transcript ends with.
func policyOf(t *testing.T, tr *transcript) (p frame.Policy) {
	t.Helper()
	last := tr.Frames[len(tr.Frames)-1].frame
	network, _ := last.Meta()["network"].(map[string]any)
	require.NotNil(t, network, "the transcript's last frame: %s", last)
	p.Name, _ = network["name"].(string)
	p.OurServices, _ = network["our_services"].(bool)
	p.Telemetry, _ = network["telemetry"].(bool)
	p.ThirdParty, _ = network["third_party"].(bool)
	return p
}
