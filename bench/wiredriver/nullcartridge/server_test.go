//go:build linux

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pipe-cartridge/pipe/bench/wiredriver/wire"
)

func TestMain(m *testing.M) {
	version, maxChunk, window = 6, 4096, 1
	metaRequest = mustMarshal(map[string]string{"credit_dir": "request"})
	metaDone = mustMarshal(map[string]any{"exit_code": 0, "progress": 1.0})
	goleak.VerifyTestMain(m)
}

// send hands the server a request for items with a text as its argument.
func send(s *server, text string) {
	id := wire.IntID(1)
	s.handle(&wire.Frame{Version: version, Type: wire.Req, ID: id, Cap: []byte("cap:items")})
	p := wire.CBORBytes([]byte(text))
	s.handle(&wire.Frame{Version: version, Type: wire.Chunk, ID: id, StreamID: []byte("s"), Payload: p, Checksum: wire.Checksum(p)})
	s.flush() // the CREDIT, in front of the answer
	s.handle(&wire.Frame{Version: version, Type: wire.End, ID: id})
}

func TestItemsWaitForCredit(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	s := &server{out: w, reqs: map[wire.ID]*request{}}
	send(s, "3")
	in := wire.NewReader(r, 64<<10)
	var f wire.Frame
	next := func() wire.Frame {
		require.NoError(t, in.Next(&f))
		return f
	}
	require.Equal(t, uint64(wire.Credit), next().Type)
	require.Equal(t, uint64(wire.StreamStart), next().Type)
	for i := range uint64(3) {
		if i > 0 {
			s.handle(&wire.Frame{Version: version, Type: wire.Credit, ID: wire.IntID(1), Credit: 1})
		}
		chunk := next()
		require.Equal(t, uint64(wire.Chunk), chunk.Type)
		assert.Equal(t, i, chunk.ChunkIndex)
	}
	end := next()
	assert.Equal(t, uint64(wire.StreamEnd), end.Type)
	assert.EqualValues(t, 3, end.ChunkCount)
	assert.Equal(t, uint64(wire.End), next().Type)
	s.live.Wait()
	require.NoError(t, w.Close())
}

func TestTheEndReleasesWhoWaitsForCredit(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	s := &server{out: w, reqs: map[wire.ID]*request{}}
	send(s, "3")
	for _, q := range s.reqs {
		q.close()
	}
	s.live.Wait()
	require.NoError(t, w.Close())
}
