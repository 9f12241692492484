package sphinx

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
)

var (
	errLeft   = errors.New("transcription has ended")                   // or emit panicked
	errExited = errors.New("the sequence of audio ended its goroutine") // runtime.Goexit
)

// Transcribe implements engine.Engine: one child process serves the call. emit runs on the caller's goroutine, audio
// is pulled on another one, and a panic of either goes on in the caller's when the child is gone.
//
// It fails with class environment when the program or a model is missing ([CodeUnavailable], nothing was started) or
// when the program ends before its input has, by whatever status, or says what is not understood ([CodeFailed], with
// a [*ChildError]); segments that were complete before have been emitted. It fails with class input ([CodeGrammar])
// for a grammar that the program rejects, or accepts only in part; that has several public rules and no TopRule, that
// defines a rule twice, imports, is over 1 MiB or no UTF-8; for a TopRule that the grammar does not have.
// When ctx ends it returns the cause.
func (e *Engine) Transcribe(ctx context.Context, audio iter.Seq2[engine.Block, error], emit func(engine.Segment) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := e.Available(); err != nil {
		return err
	}
	args, remove, err := e.arguments()
	defer remove()
	if err != nil {
		return err
	}
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(errLeft)

	log := &childLog{}
	if e.hasGrammar() {
		log.onGrammarError = func(said string) { cancel(badGrammar("grammar is not accepted: %s", withoutPath(said, args))) }
	}
	command := exec.Command(e.config.Program, args...)
	command.Env = e.env
	c, err := startChild(run, command, log)
	if err != nil {
		return err
	}
	s := &session{
		engine:   e,
		cancel:   cancel,
		child:    c,
		clock:    newClock(),
		emitting: make(chan struct{}, 1),
		fed:      make(chan struct{}),
	}
	defer func() { // in a panic of emit as well
		cancel(errLeft)
		<-s.fed
		c.close()
	}()
	go s.feed(run, audio) // joined through s.fed, here and in the deferred function
	ending := s.relay(run, emit)
	// Not every end of the output is the end of the child. The feeder ends with it, or with the audio.
	<-s.fed
	<-c.settled
	return s.verdict(run, ending)
}

// session is one call of Transcribe.
type session struct {
	engine *Engine
	cancel context.CancelCauseFunc // ends everything; the first cause is the result
	child  *child
	clock  *clock

	emitting chan struct{} // holds a token while emit runs, or the feeder looks whether it does
	fed      chan struct{} // closed by feed when it has ended and closed the child's input

	// Written by feed, read after fed is closed.
	fedAll   bool // the audio ended, and the child was there to see it
	panicked *audioPanic
}

// audioPanic carries a panic of the audio sequence, with its stack, to the caller's goroutine.
type audioPanic struct {
	value any
	stack []byte
}

// feed pulls the audio into the child until either ends.
func (s *session) feed(run context.Context, audio iter.Seq2[engine.Block, error]) {
	defer close(s.fed)
	defer func() { _ = s.child.stdin.Close() }() // it was for the child's eyes; there is nothing to lose in it
	returned := false
	defer func() {
		if returned {
			return
		}
		if value := recover(); value != nil {
			s.panicked = &audioPanic{value, debug.Stack()}
		}
		s.cancel(errExited)
	}()
	f := newFeeder(inlet{s, run}, s.clock, newEndpointer(s.engine.config.MaxUtterance))
	s.fedAll = s.pull(run, f, audio)
	returned = true
}

// pull reports whether the audio came to its end while the child lived.
func (s *session) pull(run context.Context, f *feeder, audio iter.Seq2[engine.Block, error]) bool {
	for block, err := range audio {
		if err != nil {
			s.cancel(err)
			return false
		}
		if err := f.block(block); err != nil {
			if s.gone(run) {
				return false
			}
			s.cancel(failure.Newf(CodeFailed, failure.Environment, "engine pocketsphinx: feed the program: %w", err))
			return false
		}
		// While emit waits, nothing more is pulled: what the child has heard and nobody has taken stays small.
		select {
		case s.emitting <- struct{}{}:
			<-s.emitting
		case <-s.child.died:
		case <-run.Done():
		}
		if s.gone(run) {
			return false
		}
	}
	return !s.gone(run)
}

func (s *session) gone(run context.Context) bool {
	select {
	case <-s.child.died:
		return true
	case <-run.Done():
		return true
	default:
		return false
	}
}

// inlet is the child's input for as long as anybody wants it: a long block ends with the child, not behind it.
type inlet struct {
	session *session
	run     context.Context
}

func (i inlet) Write(p []byte) (int, error) {
	if i.session.gone(i.run) {
		return 0, io.ErrClosedPipe
	}
	return i.session.child.stdin.Write(p)
}

// relay reads the child's output to its end and emits what was heard. It returns what was wrong at the very end of
// the output, which matters only if the child ended well.
func (s *session) relay(run context.Context, emit func(engine.Segment) error) error {
	lines := bufio.NewScanner(s.child.stdout)
	lines.Buffer(nil, maxLineBytes)
	var heard transcript
	for lines.Scan() {
		u, err := heard.line(lines.Text())
		if err != nil {
			s.cancel(notUnderstood(err))
		}
		if run.Err() != nil {
			return nil
		}
		s.emit(u, emit)
	}
	if run.Err() != nil {
		return nil
	}
	if err := lines.Err(); err != nil {
		s.cancel(notUnderstood(err))
		return nil
	}
	u, err := heard.finish()
	s.emit(u, emit)
	if err != nil {
		return notUnderstood(err)
	}
	return nil
}

func (s *session) emit(u *utterance, emit func(engine.Segment) error) {
	if u == nil {
		return
	}
	from, to := s.clock.span(u.start, u.end)
	s.clock.forget(u.end)
	segment := engine.Segment{Start: from, End: to, Text: u.text, Engine: s.engine.Name(), Confidence: u.confidence}
	if s.engine.hasGrammar() {
		segment.Confidence = -1 // the program prints 1 whatever was heard
	}
	s.emitting <- struct{}{} // the feeder holds the token for a moment only
	defer func() { <-s.emitting }()
	if err := emit(segment); err != nil {
		s.cancel(err)
	}
}

// verdict is the result, after the child and the feeder have ended; ending is what was wrong with the last output.
func (s *session) verdict(run context.Context, ending error) error {
	if s.panicked != nil {
		panic(fmt.Sprintf("engine pocketsphinx: audio: %v\n\n%s", s.panicked.value, s.panicked.stack))
	}
	if run.Err() != nil {
		return context.Cause(run)
	}
	if err := s.child.failed(s.fedAll); err != nil {
		return err
	}
	return ending
}

func notUnderstood(err error) error {
	return failure.Newf(CodeFailed, failure.Environment,
		"engine pocketsphinx: the program printed what is not understood: %w; is it the Debian package's pocketsphinx_continuous?", err)
}

// withoutPath takes the name of the temporary grammar out of a message, which would tell the caller nothing.
func withoutPath(said string, args []string) string {
	for _, arg := range args {
		if filepath.Base(arg) == grammarFile {
			said = strings.ReplaceAll(said, arg, "grammar")
		}
	}
	return said
}
