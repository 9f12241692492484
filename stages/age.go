package stages

import (
	"context"
	"time"
)

// CoalesceAge is how old the oldest coalesced byte of a stream may get before a flush by age sends it.
const CoalesceAge = coalesceAge

// SetAgeFlush makes ask be called when bytes have begun to wait for a next write, on the goroutine that wrote them and without a
// lock. The asker calls [Sender.FlushAged] CoalesceAge later. It is set before the sender is used.
func (s *Sender) SetAgeFlush(ask func()) { s.ageFlush = ask }

// endCall ends a data call that may have left bytes waiting.
func (s *Sender) endCall() {
	ask := s.ageFlush != nil && len(s.buf) > bufHead
	s.unlock()
	if ask {
		s.ageFlush()
	}
}

// FlushAged sends the coalesced bytes when the oldest is CoalesceAge old; otherwise left is how long until then, and 0 when
// nothing waits. It waits like Flush.
func (s *Sender) FlushAged(ctx context.Context) (left time.Duration, err error) {
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.unlock()
	if s.broken != nil || s.state == senderEnded || len(s.buf) <= bufHead {
		return 0, s.broken
	}
	if left := coalesceAge - time.Since(s.since); left > 0 {
		return left, nil
	}
	return 0, s.breakOff(s.sendBytes(ctx, nil))
}
