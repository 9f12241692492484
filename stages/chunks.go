package stages

import (
	"context"
	"sync"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// chunk is one CHUNK between route and its reader: the value that crosses the hand-off ①. It owns its block. In a merged
// queue a LOG takes a chunk's place.
type chunk struct {
	payload []byte
	meta    []byte
	block   *Block
	sum     uint64
	in      *Inbox
	log     *frame.LogRecord
	flags   chunkFlags
}

type chunkFlags uint8

const (
	chunkVerified chunkFlags = 1 << iota // checksum and CBOR were checked in route
	chunkCredited                        // granted back on arrival, as it continues an item
	chunkAuditing                        // the auditor is hashing it: nobody may take it now
	chunkSeen                            // unverified at the auditor's previous tick
	chunkTail                            // END's payload, no CHUNK: costs no credit
)

// maxQueuedLogs bounds the LOG records a response keeps for a caller that does not read them.
const maxQueuedLogs = 1024

// chunkQueue is the hand-off from route to the one reader of a stream, or of a whole response. Its bound is the streams'
// windows, so put never waits. A waiter is woken when the queue stops being empty, and nobody otherwise.
type chunkQueue struct {
	mu      sync.Mutex
	q       []chunk
	end     error         // nil while more may come; io.EOF after a clean end
	wake    chan struct{} // capacity 1, made by the first wait
	waiting bool
	logs    int      // LOG records in q
	room    [1]chunk // the first memory of q, for the usual stream of one chunk; see init
}

// init gives an empty queue its first memory. It is called before the queue is shared, and once: a reader may hold what was taken.
func (cq *chunkQueue) init() { cq.q = cq.room[:0] }

// put appends a chunk. It reports false, and takes nothing, once the queue has ended.
func (cq *chunkQueue) put(c *chunk) bool {
	cq.mu.Lock()
	if cq.end != nil {
		cq.mu.Unlock()
		return false
	}
	cq.q = append(cq.q, *c)
	cq.unlockAndWake()
	return true
}

// putLog appends a LOG. Beyond maxQueuedLogs the oldest progress record goes, or else the oldest record; dropped reports
// that one did.
func (cq *chunkQueue) putLog(log *frame.LogRecord) (dropped bool) {
	cq.mu.Lock()
	if cq.end != nil {
		cq.mu.Unlock()
		return true
	}
	if cq.logs >= maxQueuedLogs {
		victim := -1
		for i := range cq.q {
			if l := cq.q[i].log; l != nil && (victim < 0 || l.IsProgress()) {
				victim = i
				if l.IsProgress() {
					break
				}
			}
		}
		cq.q = append(cq.q[:victim], cq.q[victim+1:]...)
		cq.logs--
		dropped = true
	}
	cq.q = append(cq.q, chunk{log: log, flags: chunkVerified})
	cq.logs++
	cq.unlockAndWake()
	return dropped
}

// close ends the queue: what is in it is still read, then err.
func (cq *chunkQueue) close(err error) {
	cq.mu.Lock()
	if cq.end == nil {
		cq.end = err
	}
	cq.unlockAndWake()
}

// fail ends the queue at once, for a cancel or a violation: what is in it is dropped, and an end that was not read yet is
// replaced. The dropped chunks are the caller's to give back.
func (cq *chunkQueue) fail(err error) []chunk {
	cq.mu.Lock()
	dropped := cq.q
	cq.q, cq.logs = nil, 0
	cq.end = err
	cq.unlockAndWake()
	return dropped
}

func (cq *chunkQueue) unlockAndWake() {
	wake := cq.waiting
	cq.waiting = false
	cq.mu.Unlock()
	if wake {
		cq.wake <- struct{}{}
	}
}

// take gives everything there is, in exchange for the emptied run taken before. It waits for a first chunk, for the end,
// or for ctx; before a wait it calls flush once. A chunk that the auditor holds is waited for.
func (cq *chunkQueue) take(ctx context.Context, run []chunk, flush func()) ([]chunk, error) {
	cq.mu.Lock()
	for flushed := false; ; flushed = true {
		if len(cq.q) > 0 && cq.q[0].flags&chunkAuditing == 0 {
			return cq.takeLocked(run), nil
		}
		if len(cq.q) == 0 && cq.end != nil {
			err := cq.end
			cq.mu.Unlock()
			return run[:0], err
		}
		if cq.wake == nil {
			cq.wake = make(chan struct{}, 1)
		}
		cq.waiting = true
		cq.mu.Unlock()
		if !flushed && flush != nil {
			flush()
		}
		select {
		case <-cq.wake:
		case <-ctx.Done():
			cq.stopWaiting()
			return run[:0], context.Cause(ctx)
		}
		cq.mu.Lock()
	}
}

// takeLocked is entered with the lock and leaves without it. It stops in front of a chunk that is being audited.
func (cq *chunkQueue) takeLocked(run []chunk) []chunk {
	n := len(cq.q)
	for i := 1; i < n; i++ {
		if cq.q[i].flags&chunkAuditing != 0 {
			n = i
			break
		}
	}
	if n == len(cq.q) {
		run, cq.q = cq.q, run[:0]
		cq.logs = 0
	} else {
		run = append(run[:0], cq.q[:n]...)
		cq.q = append(cq.q[:0], cq.q[n:]...)
		for i := range run {
			if run[i].log != nil {
				cq.logs--
			}
		}
	}
	cq.mu.Unlock()
	return run
}

// tryTake is take without waiting; ok is false when nothing is there.
func (cq *chunkQueue) tryTake(run []chunk) (taken []chunk, end error, ok bool) {
	cq.mu.Lock()
	if len(cq.q) > 0 && cq.q[0].flags&chunkAuditing == 0 {
		return cq.takeLocked(run), nil, true
	}
	if len(cq.q) == 0 && cq.end != nil {
		end = cq.end
		cq.mu.Unlock()
		return run[:0], end, true
	}
	cq.mu.Unlock()
	return run[:0], nil, false
}

// stopWaiting takes a wake-up back that came together with the end of the waiter's context.
func (cq *chunkQueue) stopWaiting() {
	cq.mu.Lock()
	if !cq.waiting {
		<-cq.wake
	}
	cq.waiting = false
	cq.mu.Unlock()
}

// auditInterval is after how long a large payload that nobody takes is verified all the same.
const auditInterval = 50 * time.Millisecond
