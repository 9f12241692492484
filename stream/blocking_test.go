package stream_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/stream"
)

// echoed is a stage that lets a value through when the one before has come back.
type echoed struct {
	ctx  context.Context
	back chan int
}

func (e *echoed) Begin(ctx context.Context) { e.ctx = ctx }

func (e *echoed) Step(in int, emit func(int) error) error {
	if in > 0 {
		select {
		case <-e.back:
		case <-e.ctx.Done():
			return context.Cause(e.ctx)
		}
	}
	return emit(in)
}

func TestRunHandsOutputsOfABlockingStageOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a deadlock fails the test
		const values = 200
		e := &echoed{back: make(chan int, 1)}
		in, out := stream.NewQueue[int](values, 0, nil), stream.NewQueue[int](1, 0, nil)
		for i := range values {
			require.NoError(t, in.Put(t.Context(), i))
		}
		in.Close(nil)
		done := make(chan error, 1)
		go func() { done <- stream.Run(t.Context(), e, in, out) }()
		for want := range values {
			got, err := out.TakeAll(t.Context(), nil)
			require.NoError(t, err)
			require.Equal(t, []int{want}, got)
			e.back <- want
		}
		require.NoError(t, <-done)
	})
}

func TestBlockingStageIsReleasedWhenItsConsumerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := stream.NewPipeline(t.Context())
		numbers := stream.FromSeq(p, "numbers", func(yield func(int, error) bool) {
			for i := 0; yield(i, nil); i++ {
			}
		})
		for got, err := range stream.Then[int, int](numbers, "echoed", &echoed{back: make(chan int)}).All() {
			require.NoError(t, err)
			require.Zero(t, got)
			break // while the stage waits for what will never come back
		}
		require.NoError(t, p.Wait())
	})
}
