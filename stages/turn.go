package stages

import (
	"context"
)

// turn is lock for a data call. One that leaves before its turn leaves a hole in the stream, which breaks it.
func (s *Sender) turn(ctx context.Context) error {
	err := s.lock(ctx)
	if err != nil {
		s.mu.Lock()
		if s.refused == nil && s.hole == nil {
			s.hole = err
		}
		s.mu.Unlock()
	}
	return err
}

// lock makes the caller the one that sends, in order of arrival. Before it waits it calls the hook: who is in front may be
// waiting for credit.
func (s *Sender) lock(ctx context.Context) error {
	s.mu.Lock()
	if s.refused != nil {
		err := s.refused
		s.mu.Unlock()
		return err
	}
	if !s.busy {
		s.busy = true
		s.takeHole()
		s.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	s.queue = append(s.queue, turn)
	s.mu.Unlock()
	if s.hook != nil {
		s.hook()
	}
	s.act.enter()
	defer s.act.leave()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	for i, q := range s.queue {
		if q == turn {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			s.mu.Unlock()
			return context.Cause(ctx)
		}
	}
	s.mu.Unlock()
	s.unlock() // the turn came together with the end of the context
	return context.Cause(ctx)
}

func (s *Sender) unlock() {
	s.mu.Lock()
	if len(s.queue) > 0 {
		turn := s.queue[0]
		s.queue = s.queue[1:]
		s.takeHole()
		s.mu.Unlock()
		close(turn)
		return
	}
	s.busy = false
	s.mu.Unlock()
}

// takeHole makes a hole break the stream; s.mu is held, and the caller is the one that sends.
func (s *Sender) takeHole() {
	if s.hole != nil && s.broken == nil {
		s.broken = s.hole
	}
}
