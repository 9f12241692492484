package stages

import (
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// peer drives a Receiver as route does, and keeps what consumers found.
type peer struct {
	*Receiver
	link *testLink

	mu     sync.Mutex
	faults []*failure.Failure
}

func (l *testLink) receive() *peer {
	p := &peer{Receiver: new(Receiver), link: l}
	p.Init(&l.Link, NewFlow(frame.UintID(7), frame.ID{}), frame.CreditRequest, p)
	return p
}

// Fault implements Owner.
func (p *peer) Fault(f *failure.Failure) {
	p.mu.Lock()
	p.faults = append(p.faults, f)
	p.mu.Unlock()
	p.Fail(f)
}

// Chunk is the receiver's, for tests that do not care about the frame's fate.
func (p *peer) Chunk(f *frame.Frame, block *Block) *failure.Failure {
	_, fault := p.Receiver.Chunk(f, block)
	return fault
}

// found gives the codes of what consumers and the auditor have found.
func (p *peer) found() (codes []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		codes = append(codes, f.Code)
	}
	return codes
}

// start starts a stream and gives its inbox.
func (p *peer) start(t require.TestingT, stream string, sequence bool) *Inbox {
	require.Nil(t, p.Start(startFrame(stream, sequence)))
	p.Receiver.mu.Lock()
	defer p.Receiver.mu.Unlock()
	return p.streams[len(p.streams)-1]
}

// chunks sends payloads as the chunks of a stream that has none yet.
func (p *peer) chunks(t require.TestingT, stream string, payloads ...[]byte) {
	for i, b := range payloads {
		require.Nil(t, p.Chunk(chunkFrame(stream, i, b), nil), "chunk %d", i)
	}
}

// blockOf is a chunk's payload in a block of the link's pool, as the decoder makes them.
func (l *testLink) blockOf(payload []byte) *Block {
	b := l.Pool.Get(len(payload))
	copy(b.Buf, payload)
	return b
}
