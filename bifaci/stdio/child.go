package stdio

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// SpawnOptions says what a child gets besides its pipes. The zero value is a child like its parent.
type SpawnOptions struct {
	Dir string   // working directory; the parent's when empty
	Env []string // "name=value" each; the parent's environment when nil
}

// Child is a process at the other ends of three pipes. Its methods are safe for concurrent use; the pipes follow the
// rules of [In] and [Out]. Whoever spawned it ends it, by closing Stdin if it is well-behaved and by Kill if not, then
// waits for Done or calls Wait, and closes the pipes with Close.
type Child struct {
	Stdin  *Out // what the child reads; closing it is how a cartridge is asked to end
	Stdout *In  // what the child writes
	Stderr *In  // has to be read, or the child waits when the pipe is full

	process *os.Process
	done    chan struct{}    // closed by the goroutine that reaps
	state   *os.ProcessState // valid after done
	err     error            // valid after done

	mu     sync.Mutex
	reaped bool // from here on the process id may belong to somebody else
}

// Spawn starts the program at path, which is not looked up in PATH, without arguments: that is what makes a cartridge
// speak frames. The child leads a process group of its own, so that a terminal's interrupt reaches only the
// host, which ends its children in order, and [Child.Kill] reaches the child's children.
//
// It returns once the program runs. Its end is always collected, whether or not anybody calls Wait.
func Spawn(path string, opts SpawnOptions) (*Child, error) {
	var undo cleanup
	child, err := spawn(path, opts, &undo)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("spawn %s: %w", path, err), undo.run())
	}
	go child.reap() // ends with the process; Wait and Done wait for it
	return child, nil
}

func spawn(path string, opts SpawnOptions, undo *cleanup) (*Child, error) {
	child := &Child{done: make(chan struct{})}
	var theirs [3]*os.File
	defer func() {
		for _, f := range theirs {
			if f != nil {
				_ = f.Close() // only the child's copy counts
			}
		}
	}()
	for i := range theirs {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		ours := r
		theirs[i] = w
		if i == 0 {
			ours, theirs[i] = w, r
		}
		undo.add(ours.Close)
		switch i {
		case 0:
			child.Stdin, err = newOut(ours)
		case 1:
			child.Stdout, err = newIn(ours)
		case 2:
			child.Stderr, err = newIn(ours)
		}
		if err != nil {
			return nil, err
		}
	}
	process, err := os.StartProcess(path, []string{path}, &os.ProcAttr{
		Dir:   opts.Dir,
		Env:   opts.Env,
		Files: theirs[:],
		Sys:   ownGroup(),
	})
	if err != nil {
		return nil, err
	}
	child.process = process
	return child, nil
}

// PID is the child's process id and, where there are such, its process group. After Done it may be somebody else's.
func (c *Child) PID() int {
	return c.process.Pid
}

// Done is closed when the process has ended and its end was collected. Output may still be in the pipes.
func (c *Child) Done() <-chan struct{} {
	return c.done
}

// Wait waits for the process to end and says how it did: the state's String is "exit status 3" or "signal: killed". Any
// number of goroutines may wait, and each gets the same answer. An error means that the system did not tell.
func (c *Child) Wait() (*os.ProcessState, error) {
	<-c.done
	return c.state, c.err
}

// Kill ends the child and everything it started that did not leave its process group, at once and without asking. It
// does not wait; after the end it does nothing. What the processes wrote before stays in the pipes.
func (c *Child) Kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return nil
	}
	return c.killGroup()
}

// Close closes the three pipes, waking whoever reads or writes them. It ends no process.
func (c *Child) Close() error {
	return errors.Join(c.Stdin.Close(), c.Stdout.Close(), c.Stderr.Close())
}

// reap collects the end of the process. What is left of its group goes with it: nobody else would end a forgotten
// helper, and as long as it holds the pipes their end is not seen.
func (c *Child) reap() {
	defer close(c.done)
	ended := awaitEnd(c.process.Pid)
	if !ended {
		c.state, c.err = c.process.Wait()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reaped = true
	if ended { // not collected yet, so the group's id is still its own
		_ = c.killGroup()
		c.state, c.err = c.process.Wait()
	}
}
