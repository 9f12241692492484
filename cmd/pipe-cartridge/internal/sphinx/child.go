package sphinx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

// logGrace is how long the log is read after the child has ended, in case a process that it left behind holds it open.
const logGrace = time.Second

// child is one running program with its three pipes. Its goroutines end when the process does and stdin is closed;
// close waits for them.
type child struct {
	stdin  *os.File // written and closed by the feeder
	stdout *os.File // read by the relay
	log    *childLog

	died    chan struct{} // closed when the process has been waited for
	settled chan struct{} // closed when status and unread are known and the log is complete
	done    sync.WaitGroup

	command    *exec.Cmd
	stdinRead  *os.File
	stderrRead *os.File

	mu     sync.Mutex
	reaped bool // guarded by mu: the process id is nobody's any more

	// Written before settled is closed, read after.
	status error // from Wait
	unread int64 // bytes that were given to the child and that it did not take
}

// startChild starts the program. When ctx ends, its whole process group is killed. On an error nothing is left.
func startChild(ctx context.Context, command *exec.Cmd, log *childLog) (*child, error) {
	c := &child{command: command, log: log, died: make(chan struct{}), settled: make(chan struct{})}
	var ends []*os.File
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			ends = append(ends, r, w)
		}
		return r, w, err
	}
	var err, err2, err3 error
	var stdoutWrite, stderrWrite *os.File
	c.stdinRead, c.stdin, err = pipe()
	c.stdout, stdoutWrite, err2 = pipe()
	c.stderrRead, stderrWrite, err3 = pipe()
	if err = errors.Join(err, err2, err3); err == nil {
		command.Stdin, command.Stdout, command.Stderr = c.stdinRead, stdoutWrite, stderrWrite
		ownGroup(command)
		err = command.Start()
	}
	if err != nil {
		for _, f := range ends {
			_ = f.Close()
		}
		return nil, failure.Newf(CodeFailed, failure.Environment, "engine pocketsphinx: start %s: %w", command.Path, err)
	}
	// stdinRead stays open here: what is left in it at the end is what the child did not take. It also means that
	// writing to a dead child never fails and never raises a signal, so wait has to read the rest.
	_, _ = stdoutWrite.Close(), stderrWrite.Close()

	logged := make(chan struct{})
	c.done.Go(func() { // joined by close
		defer close(logged)
		log.drain(c.stderrRead)
	})
	c.done.Go(func() { c.wait(logged) }) // joined by close
	c.done.Go(func() { c.watch(ctx) })   // joined by close
	return c, nil
}

// wait collects the status, then empties the input so that a feeder that waits for room goes on and notices.
func (c *child) wait(logged <-chan struct{}) {
	defer close(c.settled)
	c.status = c.command.Wait()
	c.mu.Lock()
	c.reaped = true
	c.mu.Unlock()
	killGroup(c.command.Process) // what the child has started, if anything, and left behind
	close(c.died)
	c.unread, _ = io.Copy(io.Discard, c.stdinRead) // ends when the feeder has closed its end
	_ = c.stdinRead.Close()
	_ = c.stderrRead.SetReadDeadline(time.Now().Add(logGrace)) // not every system can; the group is dead anyway
	<-logged
	_ = c.stderrRead.Close()
}

// watch kills the child when ctx ends before it.
func (c *child) watch(ctx context.Context) {
	select {
	case <-c.died:
	case <-ctx.Done():
		c.mu.Lock()
		if !c.reaped {
			killGroup(c.command.Process)
			_ = c.command.Process.Kill() // where there are no groups
		}
		c.mu.Unlock()
		<-c.died
	}
	// A process that has left the group may hold the output open; nobody reads it any more once ctx has ended.
	<-ctx.Done()
	_ = c.stdout.SetReadDeadline(time.Now())
}

// close waits until the process and all goroutines have ended. The context given to startChild must have been ended,
// and stdin been closed.
func (c *child) close() {
	c.done.Wait()
	_ = c.stdout.Close()
}

// failed tells what was wrong with the way the child ended: nil for status 0 after the whole input. Only after settled.
func (c *child) failed(fedAll bool) error {
	how := ""
	switch {
	case c.status != nil:
		how = "ended with " + c.status.Error()
	case !fedAll:
		how = "ended with exit status 0 before its input had ended"
	case c.unread > 0:
		how = fmt.Sprintf("ended with exit status 0 and left %d bytes of its input unread", c.unread)
	default:
		return nil
	}
	last := c.log.lastLine()
	if last == "" {
		last = "nothing"
	}
	f := failure.Newf(CodeFailed, failure.Environment, "engine pocketsphinx: %s %s; the last it said was: %s",
		c.command.Path, how, last)
	f.Err = &ChildError{Status: c.status, Log: c.log.kept()}
	return f
}

// ChildError is the cause of a failure that the death of the program was: what [exec.Cmd.Wait] returned and the last
// 8 KiB of its log. It is for this side's log only and never goes onto the wire.
type ChildError struct {
	Status error // nil for status 0 too early
	Log    string
}

// Error is the status.
func (e *ChildError) Error() string {
	if e.Status == nil {
		return "exit status 0"
	}
	return e.Status.Error()
}

// Unwrap gives the status, an [*exec.ExitError].
func (e *ChildError) Unwrap() error { return e.Status }
