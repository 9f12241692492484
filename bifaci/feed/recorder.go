package feed

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// exitGrace is how long a program may go on after it has closed its output, or its standard error stay open after its
// end, before it is given up.
const exitGrace = time.Second

// recorder is a running program that writes samples to its standard output. Its user calls read and stop, from one
// goroutine at a time, and stop at the end in any case.
type recorder struct {
	log     recorderLog
	ctx     context.Context // the life of the program
	kill    context.CancelFunc
	command *exec.Cmd
	out     *os.File
	unwatch func() bool
	status  error // from Wait
	ended   bool  // waited for
}

// startRecorder starts the program, which is killed with all it has started when ctx ends. On an error nothing is left.
func startRecorder(ctx context.Context, path string, args []string) (*recorder, error) {
	r := &recorder{}
	r.ctx, r.kill = context.WithCancel(ctx)
	r.command = exec.CommandContext(r.ctx, path, args...)
	ownGroup(r.command)
	r.command.Cancel = func() error { return killGroup(r.command.Process) }
	r.command.WaitDelay = exitGrace
	r.command.Env = append(r.command.Environ(), "LC_ALL=C") // what it says is read, so not in the user's language
	r.command.Stderr = &r.log
	out, theirs, err := os.Pipe()
	if err == nil {
		r.command.Stdout = theirs
		err = r.command.Start()
		_ = theirs.Close() // only the program's copy counts
	}
	if err != nil {
		r.kill()
		if out != nil {
			_ = out.Close()
		}
		return nil, err
	}
	r.out = out
	// A process that has left the group may hold the pipe open.
	r.unwatch = context.AfterFunc(r.ctx, func() { _ = out.SetReadDeadline(time.Now()) })
	return r, nil
}

// read fills p. The program's end is an error, whatever its status: recording does not end by itself. So is the end of
// its context, which is the cause then.
func (r *recorder) read(p []byte) error {
	for n := 0; n < len(p); {
		m, err := r.out.Read(p[n:])
		n += m
		if err != nil && n < len(p) {
			return r.death(err)
		}
	}
	return nil
}

// death says how the program ended, and waits until it has.
func (r *recorder) death(err error) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	timer := time.AfterFunc(exitGrace, r.kill) // it may have closed its output only
	defer timer.Stop()
	r.wait()
	how := "exit status 0"
	if r.status != nil {
		how = r.status.Error()
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%s ended with %s while recording (%w); it said: %s", r.command.Path, how, err, r.log.said())
}

// stop kills the program, unless it has ended, waits for it, and gives the pipe back.
func (r *recorder) stop() {
	r.kill()
	r.wait()
	r.unwatch()
	_ = r.out.Close()
}

func (r *recorder) wait() {
	if !r.ended {
		r.status, r.ended = r.command.Wait(), true
		_ = killGroup(r.command.Process) // what it has started, if anything, and left behind
	}
}
