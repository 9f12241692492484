package bifaci

import (
	"context"
	"sync"

	"github.com/pipe-cartridge/pipe/stream"
)

// group is the goroutines that a handler has started with [Request.Go], and how the first of them failed.
type group struct {
	mu      sync.Mutex
	running int
	over    bool          // the handler has returned and everybody has been waited for
	idle    chan struct{} // closed when running gets 0; made by join
	err     error         // the first error

	topology *stream.Pipeline // of Source and Sink, or nil
}

// Go runs f in a goroutine of the request's own, under the handler's context. The request ends only when every such goroutine has
// returned, so f may use the input and the output. An error of f, its panic, or runtime.Goexit, fails the request like one of the
// handler: the first of all decides, the handler's context ends with it as the cause, and a LOG carries the stack of a panic
// . An error of the handler ends the context of the others likewise; when the handler returns nil they are waited for,
// so one that runs until its context ends must be told to stop. A goroutine may start further ones. After the request has
// ended Go does nothing.
//
// Only goroutines started here are protected: a panic in one that a handler starts with the go statement ends the process.
func (r *Request) Go(f func(ctx context.Context) error) {
	g := &r.group
	g.mu.Lock()
	if g.over {
		g.mu.Unlock()
		return
	}
	g.running++
	g.mu.Unlock()
	go guard(func() error { return f(r.ctx) }, r.goEnded) // joined before the request's terminal, or the command's end
}

// goEnded takes the result of one goroutine.
func (r *Request) goEnded(err error) {
	if err != nil {
		r.failed(err)
	}
	g := &r.group
	g.mu.Lock()
	g.running--
	if g.running == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
	g.mu.Unlock()
}

// failed makes err the request's, unless something else was first, and stops what it has running.
func (r *Request) failed(err error) {
	g := &r.group
	g.mu.Lock()
	first := g.err == nil
	if first {
		g.err = err
	}
	g.mu.Unlock()
	if logErr := logPanic(r.ctx, r.out.sink, err); logErr != nil {
		r.env.options().log.Debug("the stack of a panic could not be sent", "error", logErr)
	}
	if first {
		r.env.fail(r, err)
	}
}

// join waits for the goroutines of a handler that has returned result, and returns how it all went: the first error.
func (r *Request) join(result error) error {
	result = r.endTopology(result)
	g := &r.group
	g.mu.Lock()
	busy := g.running > 0
	g.mu.Unlock()
	if result != nil && busy {
		r.failed(result)
	}
	g.mu.Lock()
	if g.running > 0 {
		idle := make(chan struct{})
		g.idle = idle
		g.mu.Unlock()
		<-idle
		g.mu.Lock()
	}
	g.over = true
	err := g.err
	g.mu.Unlock()
	if err == nil {
		err = result
	}
	return err
}
