package peer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// stderrShown is how much of the end of standard error a failure shows, bytes.
const stderrShown = 4000

// Process is a cartridge's process and the link to it. When the test ends it is killed, if it still runs, and the order of the
// frames is judged.
type Process struct {
	*Link
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process was waited for

	stderr  stderr
	drained chan struct{} // closed when standard error has ended
}

// stderr is what the process has written there.
type stderr struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *stderr) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// Start runs the program at path without arguments, and says nothing yet: see [Link.Live].
func Start(t testing.TB, path string, opts ...Option) *Process {
	t.Helper()
	in, toCartridge := pipe(t)
	toHost, out := pipe(t)
	errOut, errIn := pipe(t)
	p := &Process{Link: newLink(t, toCartridge, toHost, opts), cmd: exec.Command(path), exited: make(chan struct{}),
		drained: make(chan struct{})}
	p.more = func() string { return p.shown() }
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, out, errIn
	// A program built with the race detector sleeps for a second at its end, unless it is told otherwise.
	p.cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), p.opts.env...)
	if p.opts.deaf {
		closeAll(t, errOut)
	}
	if err := p.cmd.Start(); err != nil {
		closeAll(t, in, toCartridge, toHost, out, errOut, errIn)
		t.Fatalf("peer: starting %s: %v", path, err)
	}
	closeAll(t, in, out, errIn)
	go func() { // ends with the process's standard error, which end waits for
		defer close(p.drained)
		if _, err := io.Copy(&p.stderr, errOut); err != nil && !p.opts.deaf {
			t.Errorf("peer: reading standard error: %v", err)
		}
		if err := errOut.Close(); err != nil && !p.opts.deaf {
			t.Errorf("peer: closing standard error: %v", err)
		}
	}()
	go func() { // ends with the process, which end waits for
		defer close(p.exited)
		var exit *exec.ExitError
		if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
			t.Errorf("peer: waiting for the process: %v", err)
		}
	}()
	p.run()
	t.Cleanup(p.end)
	return p
}

func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatalf("peer: %v", err)
	}
	return r, w
}

func closeAll(t testing.TB, files ...*os.File) {
	t.Helper()
	for _, f := range files {
		if err := f.Close(); err != nil {
			t.Errorf("peer: %v", err)
		}
	}
}

// end ends what is left and judges.
func (p *Process) end() {
	select {
	case <-p.exited:
	default:
		if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			p.t.Errorf("peer: killing the process: %v", err)
		}
	}
	p.CloseInput()
	<-p.exited
	err := p.toHost.Close() // a child of the cartridge's may hold the other end
	_ = err                 // a second close, when the test has done it
	<-p.readDone
	<-p.writeDone
	<-p.drained
	if p.check == nil {
		return
	}
	for _, b := range p.check.Breaches() {
		p.t.Errorf("peer: %v", b)
	}
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("peer: signal %v: %v", s, err)
	}
}

// Kill ends the process at once.
func (p *Process) Kill() { p.t.Helper(); p.Signal(os.Kill) }

// Stderr is what the process has written to its standard error so far; after [Process.AwaitExit] all of it.
func (p *Process) Stderr() string {
	p.stderr.mu.Lock()
	defer p.stderr.mu.Unlock()
	return p.stderr.text.String()
}

// shown is the end of standard error, and how the process has ended, for messages.
func (p *Process) shown() string {
	text := p.Stderr()
	if len(text) > stderrShown {
		text = "…" + text[len(text)-stderrShown:]
	}
	select {
	case <-p.exited:
		return fmt.Sprintf("\nthe process has ended: %v\nstandard error: %s", p.cmd.ProcessState, text)
	default:
		return "\nthe process runs\nstandard error: " + text
	}
}

// AwaitExit waits for the process to end by itself and returns its exit status, -1 when a signal ended it.
func (p *Process) AwaitExit() int {
	p.t.Helper()
	return p.AwaitExitWithin(p.opts.patience)
}

// AwaitExitWithin is AwaitExit with a limit of its own.
func (p *Process) AwaitExitWithin(d time.Duration) int {
	p.t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		p.fatal("the end of the process", "it did not come within "+d.String())
	}
	<-p.drained
	return p.cmd.ProcessState.ExitCode()
}

// WantExit waits for the process to end with a status.
func (p *Process) WantExit(status int) {
	p.t.Helper()
	if got := p.AwaitExit(); got != status {
		p.fatal(fmt.Sprintf("exit status %d", status), fmt.Sprintf("it is %d", got))
	}
}

// Finish ends the input, reads the output to its end, which must be between two frames, and waits for status 0.
func (p *Process) Finish() {
	p.t.Helper()
	p.CloseInput()
	if err := p.AwaitEnd(); !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		p.fatal("the end of the output between two frames", err.Error())
	}
	p.WantExit(0)
}
