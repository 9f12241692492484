package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// defaultQueueItems is how many items fit between two stages of a pipeline.
const defaultQueueItems = 64

// Pipeline owns the goroutines of sources, stages and sinks that belong together. The first error cancels all of them
// with itself as the cause; a panic is an error with a stack. Every pipeline must be waited for, and every stream in it
// needs a consumer, or the stages in front of it wait until the context ends.
//
// Its methods are safe for concurrent use, except that nothing may be started once Wait has been called, other than by
// what is running in it.
type Pipeline struct {
	ctx        context.Context // of everything in the pipeline; ends when Wait returns at the latest
	cancel     context.CancelCauseFunc
	queueItems int
	running    sync.WaitGroup

	mu  sync.Mutex
	err error // guarded by mu; the first error
}

// PipelineOption changes a pipeline at construction.
type PipelineOption func(*Pipeline)

// WithQueueItems sets how many items fit between two stages, at least 1; the default is 64. A stage may have as many
// again in hand, which it has taken at once.
func WithQueueItems(n int) PipelineOption {
	if n < 1 {
		panic(fmt.Sprintf("stream: pipeline with queues of %d items, want at least 1", n))
	}
	return func(p *Pipeline) { p.queueItems = n }
}

// NewPipeline returns a pipeline in which nothing runs yet. All of it ends when ctx does.
func NewPipeline(ctx context.Context, opts ...PipelineOption) *Pipeline {
	p := &Pipeline{queueItems: defaultQueueItems}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	for _, opt := range opts {
		opt(p)
	}
	return p
}

// Context returns the context of the pipeline, for functions that are handed to it.
func (p *Pipeline) Context() context.Context { return p.ctx }

// Go runs f in the pipeline. Its context ends with the first error of the pipeline, with Stop, or with the context the
// pipeline was made with. An error of f is reported by Wait as a *StageError with the given name, if it is the first
// and comes before the context has ended: an error after that is taken for its consequence.
func (p *Pipeline) Go(name string, f func(ctx context.Context) error) {
	p.start(p.ctx, name, f, func(error) {})
}

// Stop ends the pipeline without an error: its context ends with ErrStopped as the cause. It does not wait.
func (p *Pipeline) Stop() { p.cancel(ErrStopped) }

// Wait waits until everything in the pipeline has returned. It gives the first error, the cause of the context if that
// ended first and something noticed, or nil.
func (p *Pipeline) Wait() error {
	p.running.Wait()
	p.cancel(ErrStopped) // nothing is left to see it; this unties the context from its parent
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// start runs f on a goroutine that Wait joins. ended is called there with the result, however f ends.
func (p *Pipeline) start(ctx context.Context, name string, f func(ctx context.Context) error, ended func(error)) {
	p.running.Go(func() {
		err := named(name, ErrGoexit) // what stays if f ends its goroutine
		defer func() {
			if v := recover(); v != nil {
				err = named(name, newPanicError(v))
			}
			p.fail(err)
			ended(err)
		}()
		if err = f(ctx); err != nil && ctx.Err() != nil {
			err = context.Cause(ctx) // what f says now is a consequence
		}
		err = named(name, err)
	})
}

// fail keeps the first error and ends the pipeline with it. Once the context has ended for another reason that reason
// counts, but a panic is never kept quiet.
func (p *Pipeline) fail(err error) {
	if err == nil || errors.Is(err, ErrStopped) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return
	}
	var panicked *PanicError
	cause := context.Cause(p.ctx)
	switch {
	case cause == nil || errors.As(err, &panicked):
		p.err = err
		p.cancel(err)
	case cause != ErrStopped:
		p.err = cause
	}
}
