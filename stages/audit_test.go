package stages

import (
	"bytes"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

func TestAudit(t *testing.T) {
	big := encoded(t, bytes.Repeat([]byte("x"), 256<<10))
	notOne := append(append([]byte{}, encoded(t, string(make([]byte, 8<<10)))...), 1) // one value and a half
	// unread sends a good chunk and f on a stream that nobody reads.
	unread := func(t *testing.T, merged, sequence bool, f *frame.Frame) (*testLink, *peer) {
		l := newTestLink(withCredit(8)).run()
		p := l.receive()
		if merged {
			p.Merge()
		}
		p.start(t, "s", sequence)
		good := l.blockOf(big)
		require.Nil(t, p.Chunk(chunkFrame("s", 0, good.Buf), good))
		block := l.blockOf(f.Payload)
		f.Payload = block.Buf
		require.Nil(t, p.Chunk(f, block))
		return l, p
	}
	for _, merged := range []bool{false, true} {
		t.Run("R-3.32 an unread chunk of 256 KiB with a wrong checksum is found", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, p := unread(t, merged, true, wrongSum(chunkFrame("s", 1, big)))
				synctest.Wait()
				time.Sleep(auditInterval - time.Millisecond) // virtual
				require.Empty(t, p.found(), "before its time")
				time.Sleep(auditInterval + 2*time.Millisecond)
				synctest.Wait()
				require.Equal(t, []string{failure.CorruptedData}, p.found())
				l.finish(t)
			})
		})
		t.Run("R-3.37 an unread payload that is not one CBOR value is found", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, p := unread(t, merged, false, chunkFrame("s", 1, notOne))
				time.Sleep(3 * auditInterval)
				synctest.Wait()
				require.Equal(t, []string{failure.DecodeError}, p.found())
				l.finish(t)
			})
		})
	}
	t.Run("R-3.32 what is all right is verified once, and then the auditor rests", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, p := unread(t, false, true, chunkFrame("s", 1, big))
			time.Sleep(3 * auditInterval)
			synctest.Wait()
			require.Empty(t, p.found())
			in, err := p.Stream(t.Context(), 0)
			require.NoError(t, err)
			for i := range in.own.q {
				require.NotZero(t, in.own.q[i].flags&chunkVerified, "chunk %d", i)
			}
			require.Empty(t, l.audit.streams)
			require.False(t, l.audit.timer.Stop(), "no look is to come")
			late := l.blockOf(big)
			require.Nil(t, p.Chunk(wrongSum(chunkFrame("s", 2, late.Buf)), late))
			time.Sleep(3 * auditInterval)
			synctest.Wait()
			require.Equal(t, []string{failure.CorruptedData}, p.found(), "it looks again when something comes")
			l.finish(t)
		})
	})
	t.Run("R-3.32 a reader that takes a chunk in time verifies it itself", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, p := unread(t, false, true, wrongSum(chunkFrame("s", 1, big)))
			in, err := p.Stream(t.Context(), 0)
			require.NoError(t, err)
			_, err = in.Next(t.Context())
			var fault *failure.Failure
			require.ErrorAs(t, err, &fault)
			require.Equal(t, failure.CorruptedData, fault.Code)
			time.Sleep(3 * auditInterval)
			synctest.Wait()
			require.Len(t, p.found(), 1)
			l.finish(t)
		})
	})
	t.Run("R-3.32 a discarded chunk is checked as well", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, p := unread(t, false, true, wrongSum(chunkFrame("s", 1, big)))
			p.Discard()
			require.Equal(t, []string{failure.CorruptedData}, p.found())
			l.finish(t)
		})
	})
	t.Run("R-3.32 a reader waits for the chunk that is being audited, and gets it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, p := unread(t, false, true, chunkFrame("s", 1, big))
			in, err := p.Stream(t.Context(), 0)
			require.NoError(t, err)
			in.own.mu.Lock()
			in.own.q[1].flags |= chunkAuditing
			held := in.own.q[1]
			in.own.mu.Unlock()
			_, err = in.Next(t.Context())
			require.NoError(t, err, "the one in front can be had")
			second := make(chan error)
			go func() { _, err := in.Next(t.Context()); second <- err }()
			synctest.Wait()
			require.Empty(t, second)
			in.own.mu.Lock()
			require.Zero(t, in.own.release(&held))
			in.own.mu.Unlock()
			require.NoError(t, <-second)
			l.finish(t)
		})
	})
	t.Run("R-3.50 the block of a chunk that is being audited goes back when the auditor has done", func(t *testing.T) {
		l, p := unread(t, false, true, chunkFrame("s", 1, big))
		in, err := p.Stream(t.Context(), 0)
		require.NoError(t, err)
		in.own.q[1].flags |= chunkAuditing
		held := in.own.q[1]
		p.Fail(errGone)
		one := held.block.Buf
		require.Len(t, one, len(big), "released while it is being hashed")
		require.Equal(t, -1, in.own.release(&held))
		l.finish(t)
	})
	t.Run("R-3.32 a look leaves alone what another one has in hand", func(t *testing.T) {
		l, p := unread(t, false, true, chunkFrame("s", 1, big))
		in, err := p.Stream(t.Context(), 0)
		require.NoError(t, err)
		in.own.q[1].flags |= chunkAuditing | chunkSeen
		in.audit()
		require.Equal(t, chunkAuditing|chunkSeen, in.own.q[1].flags)
		l.finish(t)
	})
	t.Run("a stream is looked at while it fails, is read and is discarded", func(t *testing.T) {
		for round := range 30 {
			l, p := unread(t, round%2 == 1, true, chunkFrame("s", 1, big))
			in, err := p.Stream(t.Context(), 0)
			require.NoError(t, err)
			start := make(chan struct{})
			audited := make(chan struct{})
			go func() { // two looks, one of them late
				defer close(audited)
				<-start
				in.audit()
				in.audit()
			}()
			close(start)
			for looking := true; looking && !in.isAudited(); { // until the first look has a chunk in hand, or is over
				select {
				case <-audited:
					looking = false
				default:
					runtime.Gosched()
				}
			}
			switch round % 3 {
			case 0:
				p.Fail(errGone)
			case 1:
				p.Discard()
			case 2:
				if p.Merged() {
					_, _, _, err = p.NextMerged(t.Context())
				} else {
					_, err = in.Next(t.Context())
				}
				require.NoError(t, err)
			}
			<-audited
			l.Close() // on a busy machine the link's own look may have become due as well
			if round%3 == 1 {
				require.Equal(t, uint64(8), in.window.Outstanding())
			}
			l.Close() // on a busy machine the link's own look may be under way as well
			if round%3 != 2 {
				require.Equal(t, 2*(256<<10+blockSlack), l.Pool.Held())
			}
			require.Empty(t, p.found())
			l.finish(t)
		}
	})
	t.Run("Close ends a look that is to come, and waits for one under way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, p := unread(t, false, true, wrongSum(chunkFrame("s", 1, big)))
			l.finish(t)
			time.Sleep(3 * auditInterval)
			require.Empty(t, p.found())
			late := l.blockOf(big)
			require.Nil(t, p.Chunk(chunkFrame("s", 2, late.Buf), late), "and does not start again")
		})
	})
}

// isAudited reports whether the auditor has a chunk of the stream in hand.
func (in *Inbox) isAudited() bool {
	cq := in.queue()
	cq.mu.Lock()
	defer cq.mu.Unlock()
	for i := range cq.q {
		if cq.q[i].flags&chunkAuditing != 0 {
			return true
		}
	}
	return false
}
