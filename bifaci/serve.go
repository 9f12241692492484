package bifaci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
	"github.com/pipe-cartridge/pipe/pools"
	"github.com/pipe-cartridge/pipe/stages"
)

// interrupter is a reader whose blocked Read can be made to return for good.
type interrupter interface{ Interrupt() }

// Serve runs CBOR mode on r and w until r ends, a frame breaks the protocol, w fails, or ctx ends. It returns nil after a clean
// end: r ended between two frames, every request it had sent completely was served, and everything was written. A
// cartridge serves once; a second call returns [ErrAlreadyRun]. When ctx ends, r is interrupted through its Interrupt or Close
// method; one that ignores both may cost its one goroutine, never the return.
func (c *Cartridge) Serve(ctx context.Context, r io.Reader, w io.Writer) error {
	l, err := c.newLink(ctx, r, w)
	if err != nil {
		return err
	}
	c.link.Store(l)
	defer c.backlog.drain()
	defer l.tracer.Close()
	err = l.run(ctx, r, w)
	c.opts.log.Debug("the link has ended", "stats", c.Stats())
	return err
}

// newLink builds everything that can fail before a byte is written.
func (c *Cartridge) newLink(ctx context.Context, r io.Reader, w io.Writer) (*link, error) {
	if err := c.begin(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &link{c: c, ctx: withoutCancel(ctx), routes: make(map[string]*route), handlers: c.handlers,
		requests: make(map[frame.ID]*wireRequest), calls: make(map[frame.ID]*PeerCall), audited: make(map[string]bool)}
	patterns := make([]string, len(c.handlers))
	for i := range c.handlers {
		patterns[i] = c.handlers[i].pattern.String()
	}
	declared, err := c.manifest.Declarations()
	if err != nil {
		return nil, err
	}
	if l.pools, err = pools.NewTable(patterns, declared); err != nil {
		return nil, err
	}
	l.index = urn.NewIndex(c.patterns())
	l.lanes = stages.NewLanes(w, c.opts.limits.MaxFrame, l)
	l.dec = stages.NewDecoder(r, &l.pool, frame.DefaultLimits().MaxFrame)
	if l.tracer = stages.NewTracer(c.opts.trace); l.tracer != nil {
		l.lanes.SetTrace(l.tracer)
	}
	l.stages.Lanes, l.stages.Pool, l.stages.Decoder = l.lanes, &l.pool, l.dec
	if c.process && c.opts.watch {
		l.watch = newProcessorWatch(l)
	}
	l.stages.MaxStreams, l.stages.MaxItem = c.opts.maxStreams, c.opts.maxItemSize
	return l, nil
}

// handshake reads the host's HELLO and answers it, with this side's own proposals (spec/wire.md 6.1). Nothing is written
// when it fails.
func (l *link) handshake(w io.Writer) error {
	var f frame.Frame
	block, err := l.dec.Next(&f)
	if err != nil {
		return fmt.Errorf("%w: reading the host's hello: %w", ErrHandshake, err)
	}
	defer block.Release()
	l.received(&f)
	l.settle(f.Type, stats.Consumed)
	ours := l.c.opts.limits
	_, agreed, err := frame.AcceptHello(&f, frame.RoleHost, ours)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	l.mu.Lock()
	states, err := l.pools.Snapshot().Encode()
	l.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%w: the pool map: %w", ErrHandshake, err)
	}
	hello := frame.CartridgeHello(ours, l.c.json, states)
	if err := frame.CheckSize(hello, 0, frame.DefaultLimits().MaxFrame); err != nil {
		return fmt.Errorf("%w: our hello: %w", ErrHandshake, err)
	}
	l.tracer.Frame(stages.Out, hello)
	if _, err := w.Write(frame.Append(nil, hello)); err != nil {
		return fmt.Errorf("%w: writing our hello: %w", ErrHandshake, err)
	}
	l.dec.SetMaxFrame(agreed.MaxFrame)
	l.lanes.SetMaxFrame(agreed.MaxFrame)
	l.stages.Limits = agreed
	l.c.limits.Store(&agreed)
	return nil
}

// run is the life of the link: handshake, writer, reader, loop, then the end.
func (l *link) run(ctx context.Context, r io.Reader, w io.Writer) error {
	readerCtx, stopReader := context.WithCancel(context.Background())
	defer stopReader()
	shaken, readEnd := make(chan error, 1), make(chan error, 1)
	go func() { // ends with its input, at the latest when that is interrupted
		err := l.handshake(w)
		shaken <- err
		if err == nil {
			readEnd <- l.read(readerCtx)
		}
	}()
	select {
	case err := <-shaken:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		interrupt(r)
		return context.Cause(ctx)
	}

	writeEnd := make(chan error, 1)
	go func() { // ends after lanes.Close, which finish calls, or with a write error
		writeEnd <- l.lanes.Run(func(err error) error { return fmt.Errorf("%w: %w", ErrOutputClosed, err) })
	}()
	select {
	case err := <-readEnd:
		if err == nil {
			l.drain(nil)
			return l.finish(ctx, nil, writeEnd)
		}
		fault := protocolError("%w", err)
		l.drain(fault)
		return l.finish(ctx, err, writeEnd)
	case <-ctx.Done():
		cause := context.Cause(ctx)
		stopReader()
		interrupt(r)
		l.drain(failure.Newf(failure.Aborted, failure.Environment, "the cartridge is stopping: %w", cause))
		return l.finish(ctx, cause, writeEnd)
	case err := <-writeEnd:
		stopReader()
		interrupt(r)
		l.broken(err)
		writeEnd <- err
		return l.finish(ctx, err, writeEnd)
	}
}

// interrupt makes a blocked Read return, if r lets it.
func interrupt(r io.Reader) {
	switch r := r.(type) {
	case interrupter:
		r.Interrupt()
	case io.Closer:
		err := r.Close()
		_ = err // it was closed to be interrupted; the cause of the end is reported
	}
}

// read is the reader: it decodes, answers heartbeats, and makes the loop's turn for every frame in order. It returns
// nil at a clean end of the input.
func (l *link) read(ctx context.Context) error {
	var f frame.Frame
	l.dec.BeforeRead(l.launch)
	defer l.launch()
	reorder := l.newReorder()
	if reorder != nil {
		defer reorder.Close()
	}
	for {
		block, err := l.dec.Next(&f)
		if ctx.Err() != nil {
			block.Release()
			return context.Cause(ctx)
		}
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		l.received(&f)
		if f.Type == frame.TypeHeartbeat {
			l.heartbeat(&f)
		}
		if err := l.ordered(reorder, &f, block); err != nil {
			return err
		}
		if err := l.lanes.WaitOwn(ctx, l.launch); err != nil {
			return err
		}
	}
}

// received books a frame that was decoded; whoever calls it sees to it that the frame is settled.
func (l *link) received(f *frame.Frame) {
	l.ledger.Receive()
	l.tracer.Frame(stages.In, f)
}

// drain ends what the input can no longer complete. With a nil fault the input ended cleanly: a request whose body is
// complete goes on, also one in line; otherwise every request fails with it.
func (l *link) drain(fault *failure.Failure) {
	closed := errConnectionClosed("the request's body was complete")
	l.mu.Lock()
	l.ending = fault
	if fault == nil {
		l.ending = closed
	}
	l.closeLine(fault != nil)
	all := make([]*wireRequest, 0, len(l.requests))
	for _, w := range l.requests {
		all = append(all, w)
	}
	calls := l.openCalls()
	l.mu.Unlock()
	lost := fault
	if lost == nil {
		lost = errConnectionClosed("the call was answered")
	}
	for _, w := range all {
		switch {
		case fault != nil:
			l.poison(w, fault)
		case !w.bodyEnd.Load():
			l.poison(w, closed)
		default:
			w.closeFeeds(func(string) bool { return true }) // R-2.30 (e)
			w.gates.NoMoreGrants(errConnectionClosed("the credit that is needed was granted"))
		}
	}
	// After the requests: a handler that its call's end wakes must not be quicker than what was decided for it.
	for _, c := range calls {
		c.Lost(lost) // R-2.30 (g)
	}
}

// broken stops everything after the output failed: nothing can be said any more.
func (l *link) broken(err error) {
	l.mu.Lock()
	l.ending = failure.From(err)
	l.closeLine(true)
	all := make([]*wireRequest, 0, len(l.requests))
	for _, w := range l.requests {
		all = append(all, w)
	}
	calls := l.openCalls()
	l.mu.Unlock()
	for _, w := range all {
		l.end(w, &outcome{failure: failure.From(err)}, err)
	}
	for _, c := range calls {
		c.Lost(err)
	}
}

// closeLine takes requests out of the line, so that nobody else's end admits them before their own: everyone, or those whose body
// is not complete (R-2.30 d, R-2.33). l.mu is held; the requests are ended afterwards.
func (l *link) closeLine(everyone bool) {
	for _, w := range l.requests {
		if w.waiting && (everyone || !w.bodyEnd.Load()) {
			l.pools.CancelWaiting(&w.slot)
		}
	}
}

// openCalls lists the unfinished peer calls; l.mu is held.
func (l *link) openCalls() []*PeerCall {
	calls := make([]*PeerCall, 0, len(l.calls))
	for _, c := range l.calls {
		calls = append(calls, c)
	}
	return calls
}

// finish waits for the handlers and the writer and returns how the link ended.
func (l *link) finish(ctx context.Context, result error, writeEnd chan error) error {
	err := l.waitIdle(ctx)
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.stages.Close()
	l.watch.close()
	if err != nil {
		return errors.Join(result, err)
	}
	l.lanes.Close()
	if werr := <-writeEnd; result == nil {
		result = werr
	}
	return result
}

// waitIdle waits until no request is left, without bound unless WithShutdownGrace gives one.
func (l *link) waitIdle(ctx context.Context) error {
	l.mu.Lock()
	if l.active == 0 {
		l.mu.Unlock()
		return nil
	}
	idle := make(chan struct{})
	l.idle = idle
	l.mu.Unlock()
	grace := l.c.opts.shutdownGrace
	if grace <= 0 {
		select {
		case <-idle:
			return nil
		case <-ctx.Done():
		}
		// The run's context ended while requests were still being served after the end of the input.
		l.drain(failure.Newf(failure.Aborted, failure.Environment, "the cartridge is stopping: %w", context.Cause(ctx)))
		<-idle
		return nil
	}
	for _, stop := range []bool{true, false} {
		timer := time.NewTimer(grace)
		select {
		case <-idle:
			timer.Stop()
			return nil
		case <-timer.C:
		}
		if stop {
			l.drain(failure.New(failure.Aborted, failure.Environment, "the cartridge is stopping and its grace is over"))
		}
	}
	return fmt.Errorf("bifaci: handlers still run %v after they were told to stop", grace)
}
