package conform

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/stdio"
)

const (
	maxUnwritten = 64 << 20 // bytes that may wait for the cartridge to read them
	framesShown  = 16       // by a failure
	inVain       = "nothing of the kind within "
	stderrShown  = 2000 // bytes, by a failure
)

// event is one frame on the link, or what stood in its place.
type event struct {
	fromHost bool
	frame    frame  // nil when the bytes are no frame
	wire     []byte // with the prefix
	err      error  // why they are none
}

func (e event) String() string {
	arrow := "cartridge→host "
	if e.fromHost {
		arrow = "host→cartridge "
	}
	if e.frame == nil {
		return arrow + e.err.Error()
	}
	return arrow + e.frame.String()
}

// session is one process of the cartridge and the conversation with it. Two goroutines work for it, one reads without pause and
// grants credit, one writes; close ends both.
type session struct {
	t        *trial
	child    *stdio.Child
	proposal limits
	patience time.Duration // for one thing that must come
	wake     chan struct{} // of the writer; one place
	readers  sync.WaitGroup
	drained  chan struct{} // closed when standard error has ended

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced whenever something below, or of a request, changes
	unwritten [][]byte
	bytes     int  // in unwritten
	closing   bool // no more is sent; the writer closes its end
	readErr   error
	agreed    limits
	events    []event
	requests  map[string]*request
	stderr    []byte
	xid       uint64
	paused    chan struct{} // not nil while the reader stands, which it does until this is closed
}

// start runs the cartridge and says nothing yet.
func (t *trial) start(proposal limits) *session {
	child, err := stdio.Spawn(t.path, stdio.SpawnOptions{Env: t.env})
	if err != nil {
		t.fail("the program starts", "%v", err)
	}
	s := &session{t: t, child: child, proposal: proposal, patience: t.opening, agreed: proposal, wake: make(chan struct{}, 1),
		drained: make(chan struct{}), changed: make(chan struct{}), requests: map[string]*request{}}
	t.sessions = append(t.sessions, s)
	s.readers.Go(s.read)  // all three end with the process, which close ends
	s.readers.Go(s.write) //
	s.readers.Go(s.drain)
	return s
}

// close ends the process, whatever it does, and everything that works for the session.
func (s *session) close() {
	s.mu.Lock()
	s.closing = true
	s.announce()
	s.mu.Unlock()
	s.resume()
	err := s.child.Kill()
	_, waitErr := s.child.Wait()
	_ = errors.Join(err, waitErr, s.child.Close()) // nothing can be done about it, and the verdict stands
	s.nudge()
	s.readers.Wait()
}

func (s *session) drain() {
	defer close(s.drained)
	buf := make([]byte, 4096)
	for {
		n, err := s.child.Stderr.Read(buf)
		s.mu.Lock()
		s.stderr = append(s.stderr, buf[:n]...)
		if len(s.stderr) > 1<<20 {
			s.stderr = append(s.stderr[:0], s.stderr[len(s.stderr)-1<<19:]...)
		}
		s.announce()
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *session) read() {
	r := bufio.NewReaderSize(s.child.Stdout, 64<<10)
	for {
		wire, err := readWire(r)
		e := event{wire: wire}
		if err == nil {
			e.frame, e.err = decode(wire[4:])
		}
		s.mu.Lock()
		switch {
		case err != nil:
			if len(wire) > 0 {
				e.err = err
				s.events = append(s.events, e)
			}
			s.setReadErr(err)
		default:
			s.events = append(s.events, e)
			if e.err != nil {
				s.setReadErr(e.err)
			} else if req := s.requests[idKey(e.frame[xID])]; req != nil && e.frame.kind() != kHeartbeat {
				req.take(e.frame)
			}
		}
		s.announce()
		paused := s.paused
		s.mu.Unlock()
		if err != nil {
			return
		}
		if paused != nil {
			<-paused
		}
	}
}

// pause makes the reader stand behind the next frame, until resume.
func (s *session) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = make(chan struct{})
}

func (s *session) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused != nil {
		close(s.paused)
		s.paused = nil
	}
}

// setReadErr keeps the first error: what follows bytes that are no frame proves nothing. s.mu is held.
func (s *session) setReadErr(err error) {
	if s.readErr == nil {
		s.readErr = err
	}
}

func (s *session) write() {
	w := bufio.NewWriterSize(s.child.Stdin, 64<<10)
	for {
		s.mu.Lock()
		batch, closing := s.unwritten, s.closing
		s.unwritten, s.bytes = nil, 0
		s.announce()
		s.mu.Unlock()
		var err error
		for _, b := range batch {
			if err == nil {
				_, err = w.Write(b)
			}
		}
		if err == nil {
			err = w.Flush()
		}
		if err != nil || closing {
			s.mu.Lock()
			s.closing = true
			s.announce()
			s.mu.Unlock()
			err := s.child.Stdin.Close()
			_ = err // a broken pipe is what some checks are about
			return
		}
		<-s.wake
	}
}

func (s *session) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// announce wakes whoever waits; s.mu is held.
func (s *session) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// queue appends bytes for the cartridge; s.mu is held. After closeInput they go nowhere.
func (s *session) queue(wire []byte) {
	if s.closing {
		return
	}
	s.unwritten = append(s.unwritten, wire)
	s.bytes += len(wire)
	s.nudge()
}

// send sends frames as they are, in one piece. It waits while the cartridge does not read.
func (s *session) send(frames ...frame) {
	var wire []byte
	s.mu.Lock()
	for _, f := range frames {
		w := f.encode()
		s.events = append(s.events, event{fromHost: true, frame: f, wire: w})
		wire = append(wire, w...)
	}
	s.queue(wire)
	s.mu.Unlock()
	s.await("the cartridge reads its input", func() bool { return s.bytes < maxUnwritten || s.closing })
}

// sendRaw sends bytes that may be no frame.
func (s *session) sendRaw(wire []byte) {
	s.mu.Lock()
	e := event{fromHost: true, wire: wire, err: fmt.Errorf("%d bytes %.48x", len(wire), wire)}
	s.events = append(s.events, e)
	s.queue(wire)
	s.mu.Unlock()
}

// closeInput ends the cartridge's input behind everything that was sent.
func (s *session) closeInput() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.nudge()
}

// await waits until ready, which is called with s.mu held, and fails when it does not come.
func (s *session) await(what string, ready func() bool) {
	if late := s.awaitWithin(s.patience, ready); late != "" {
		s.t.fail(what, "%s", late)
	}
}

// awaitWithin waits until ready; otherwise it says why it gave up: the time is over, or nothing more can come.
func (s *session) awaitWithin(d time.Duration, ready func() bool) (late string) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		s.mu.Lock()
		ok, readErr, changed := ready(), s.readErr, s.changed
		s.mu.Unlock()
		switch {
		case ok:
			return ""
		case errors.Is(readErr, io.EOF) && !errors.Is(readErr, io.ErrUnexpectedEOF):
			return "the cartridge's output ended before it came"
		case readErr != nil:
			return "the cartridge's output cannot be read any more: " + readErr.Error()
		}
		select {
		case <-changed:
		case <-timer.C:
			return inVain + d.String()
		case <-s.t.ctx.Done():
			return "the run was stopped: " + s.t.ctx.Err().Error()
		}
	}
}

// awaitFrame waits for a frame of the cartridge's that matches, counted from the beginning.
func (s *session) awaitFrame(what string, match func(frame) bool) (found frame) {
	next := 0
	s.await(what, func() bool {
		for ; next < len(s.events) && found == nil; next++ {
			if e := s.events[next]; !e.fromHost && e.frame != nil && match(e.frame) {
				found = e.frame
			}
		}
		return found != nil
	})
	return found
}

// frames are those of the cartridge so far.
func (s *session) frames() (all []frame) {
	for _, e := range s.recorded() {
		if !e.fromHost && e.frame != nil {
			all = append(all, e.frame)
		}
	}
	return all
}

// recorded is everything that went over the link so far.
func (s *session) recorded() []event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]event(nil), s.events...)
}

// said is what the cartridge has written to its standard error so far, or the end of it.
func (s *session) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.stderr)
}

// wholeStderr waits for the end of standard error, which comes with that of the process.
func (s *session) wholeStderr() string {
	select {
	case <-s.drained:
	case <-time.After(s.patience):
	}
	return s.said()
}

func (s *session) shown() (frames []string, stderr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events[max(0, len(s.events)-framesShown):] {
		frames = append(frames, e.String())
	}
	tail := s.stderr[max(0, len(s.stderr)-stderrShown):]
	return frames, string(tail)
}

// awaitOutputEnd waits for the end of the cartridge's output, which must be between two frames.
func (s *session) awaitOutputEnd() {
	s.await("the cartridge closes its output between two frames", func() bool {
		return s.readErr != nil && errors.Is(s.readErr, io.EOF) && !errors.Is(s.readErr, io.ErrUnexpectedEOF)
	})
}

// awaitExit waits for the process to end by itself.
func (s *session) awaitExit() *os.ProcessState {
	timer := time.NewTimer(s.patience)
	defer timer.Stop()
	select {
	case <-s.child.Done():
	case <-timer.C:
		s.t.fail("the process ends", inVain+"%v", s.patience)
	case <-s.t.ctx.Done():
		s.t.fail("the process ends", "the run was stopped")
	}
	state, err := s.child.Wait()
	if err != nil {
		s.t.fail("the process's end can be collected", "%v", err)
	}
	return state
}

// finish ends the input, reads everything that still comes and waits for status 0. Nothing can come afterwards.
func (s *session) finish() {
	s.closeInput()
	s.awaitOutputEnd()
	if state := s.awaitExit(); state.ExitCode() != 0 {
		s.t.fail("exit status 0 after the end of the input", "%v", state)
	}
}

// wantRefusal waits for the process to end by itself, with whole frames, a status that is not 0 and a word on standard error.
func (s *session) wantRefusal() {
	s.awaitOutputEnd()
	state := s.awaitExit()
	if code := state.ExitCode(); code <= 0 {
		s.t.fail("the process ends with a status of its own that is not 0", "%v", state)
	}
	if s.wholeStderr() == "" {
		s.t.fail("the reason on standard error", "nothing is there")
	}
}
