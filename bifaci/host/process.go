package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/stdio"
)

// maxStderrLine bounds a line handed to the WithStderr callback; longer ones are handed over in parts, bytes.
const maxStderrLine = 64 << 10

// Process is a cartridge's process and the live link to it. Shutdown must be called, also after the link has ended by itself.
type Process struct {
	*Conn
	child   program
	tail    tail
	drained chan struct{}          // closed when standard error has ended
	lines   *callbackQueue[string] // of standard error, for the callback; nil without one
	once    sync.Once
	err     error // of the shutdown
}

// program is a running program as its host sees it: a process, or what stands in for one in a test.
type program struct {
	in, out, err endpoint // what it reads, and what it writes
	pid          int
	done         <-chan struct{} // closed when it has ended and its end was collected
	wait         func() (status, error)
	kill         func() error // at once; does not wait
}

// status is how a program has ended.
type status interface {
	Success() bool
	String() string
}

// endpoint is one end of a pipe.
type endpoint interface {
	io.ReadWriteCloser
	Interrupt()
}

// readOnly and writeOnly make endpoints of the ends of a process's pipes.
type readOnly struct{ *stdio.In }

func (readOnly) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

type writeOnly struct{ *stdio.Out }

func (writeOnly) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

// spawn starts the program at path as a process of its own.
func spawn(path string, o *options) (program, error) {
	child, err := stdio.Spawn(path, stdio.SpawnOptions{Dir: o.dir, Env: o.env})
	if err != nil {
		return program{}, err
	}
	return program{in: writeOnly{child.Stdin}, out: readOnly{child.Stdout}, err: readOnly{child.Stderr}, pid: child.PID(), done: child.Done(),
		wait: func() (status, error) { return child.Wait() }, kill: child.Kill}, nil
}

// close closes the pipes.
func (c *program) close() error { return errors.Join(c.in.Close(), c.out.Close(), c.err.Close()) }

// Start runs the program at path without arguments and makes its link live. When that fails the process is gone when Start
// returns, and the error is a [*failure.Failure] with the code SPAWN_FAILED and the end of its standard error. ctx counts until
// Start returns.
func Start(ctx context.Context, path string, opts ...Option) (*Process, error) {
	p, err := start(ctx, path, newOptions(opts))
	var failed *startError
	if errors.As(err, &failed) {
		return nil, failed.Failure
	}
	return p, err
}

func start(ctx context.Context, path string, o options) (*Process, error) {
	child, err := o.launch(path, &o)
	if err != nil {
		return nil, &startError{failure.Newf(failure.SpawnFailed, failure.Environment, "%w", err), KindEntryPointMissing}
	}
	p := &Process{child: child, drained: make(chan struct{})}
	if o.stderr != nil {
		p.lines = newLineQueue(o.stderr)
	}
	go p.drain() // ends with the process's standard error; stopped by Shutdown
	o.died, o.kill = p.lastWords, p.putDown
	if o.spawned != nil {
		o.spawned(p)
	}
	p.Conn, err = connect(ctx, child.out, child.in, o)
	if err != nil {
		kind := kindOf(err)
		err = errors.Join(err, child.kill())
		state, waitErr := child.wait()
		p.awaitStderr()
		err = errors.Join(err, waitErr, child.close())
		p.lines.close()
		return nil, &startError{failure.Newf(failure.SpawnFailed, failure.Environment, "%s: %w (%s%s)", path, err, state, p.tail.quoted()), kind}
	}
	go p.watch() // ends with the process, which Shutdown sees to
	return p, nil
}

// watch ends the link of a process that has ended while somebody else holds its output open.
func (p *Process) watch() {
	<-p.child.done
	if !await(p.readEnd, drainGrace) {
		p.child.out.Interrupt()
	}
}

// await waits for done, but not longer than limit.
func await(done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// putDown kills a process that is of no use any more; the watch on it sees the rest.
func (p *Process) putDown() {
	if err := p.child.kill(); err != nil {
		p.opts.log.Warn("a process could not be killed", "pid", p.child.pid, "error", err)
	}
}

// lastWords sees to it that a process whose link has ended ends too, and tells how it did.
func (p *Process) lastWords(f *failure.Failure) *failure.Failure {
	byItself := f.Code == failure.CartridgeDied
	if !byItself {
		p.putDown()
	}
	if !await(p.child.done, drainGrace) {
		p.putDown()
		if !await(p.child.done, drainGrace) {
			return f
		}
	}
	await(p.drained, drainGrace)
	died := p.Died()
	if !byItself {
		died.Code, died.Class, died.Message = f.Code, f.Class, f.Message+" ("+died.Message+")"
	}
	died.Err = f
	return died
}

// drain reads standard error for the whole life of the process and keeps its end.
func (p *Process) drain() {
	defer close(p.drained)
	r := bufio.NewReaderSize(io.TeeReader(p.child.err, &p.tail), maxStderrLine)
	for {
		text, err := r.ReadSlice('\n')
		if len(text) > 0 && p.lines != nil {
			p.lines.put(string(trimNewline(text)), len(text))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func trimNewline(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		return b[:n-1]
	}
	return b
}

// PID is the process id.
func (p *Process) PID() int { return p.child.pid }

// Stderr is the end of what the process has written to its standard error, at most 2000 bytes.
func (p *Process) Stderr() string { return p.tail.String() }

// Died is the failure of a process that ended by itself, with its exit status and the end of its standard error; nil
// while it runs.
func (p *Process) Died() *failure.Failure {
	select {
	case <-p.child.done:
	default:
		return nil
	}
	state, err := p.child.wait()
	what := fmt.Sprint(state)
	if err != nil {
		what = err.Error()
	}
	return failure.Newf(failure.CartridgeDied, failure.Environment, "the cartridge ended: %s%s", what, p.tail.quoted())
}

// Shutdown closes the process's input, waits for it to end, kills it when the grace is over or ctx ends, and waits for it in any
// case. Calls that the process still answers succeed, the others get [ErrClosed]. The error says that the process
// did not end well by itself. A second call returns the same.
func (p *Process) Shutdown(ctx context.Context) error {
	p.once.Do(func() { p.err = p.shutdown(ctx) })
	return p.err
}

func (p *Process) shutdown(ctx context.Context) error {
	p.CloseInput()
	timer := time.NewTimer(p.opts.shutdownGrace)
	defer timer.Stop()
	var killed error
	select {
	case <-p.child.done:
	case <-timer.C:
		killed = fmt.Errorf("host: the cartridge did not end within %v of the end of its input and was killed", p.opts.shutdownGrace)
	case <-ctx.Done():
		killed = fmt.Errorf("host: the cartridge was killed: %w", context.Cause(ctx))
	}
	if killed != nil {
		killed = errors.Join(killed, p.child.kill())
	}
	state, err := p.child.wait()
	await(p.readEnd, drainGrace) // what it has written counts
	p.Close()
	p.awaitStderr()
	err = errors.Join(killed, err, p.child.close())
	p.lines.close()
	if err == nil && !state.Success() {
		err = fmt.Errorf("host: the cartridge ended: %s%s", state, p.tail.quoted())
	}
	return err
}

// awaitStderr waits until everything on standard error was read; a process outside the group that holds it open is not waited for.
func (p *Process) awaitStderr() {
	if !await(p.drained, drainGrace) {
		p.child.err.Interrupt()
		<-p.drained
	}
}

// Kill ends the process at once. Shutdown must still be called.
func (p *Process) Kill() error { return p.child.kill() }
