package peer

import (
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// recorder is a testing.TB that keeps what fails it.
type recorder struct {
	testing.TB
	mu    sync.Mutex
	texts []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	r.texts = append(r.texts, fmt.Sprintf(format, args...))
	r.mu.Unlock()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// failing runs f, which is expected to fail its test, and returns the texts.
func (r *recorder) failing(f func()) []string {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
	return r.texts
}

// fake is a link to a cartridge that the test plays.
type fake struct {
	*Link
	rec *recorder
	in  io.Reader
	out io.WriteCloser
}

func newFake(t *testing.T, opts ...Option) *fake {
	t.Helper()
	in, toCartridge := io.Pipe()
	toHost, out := io.Pipe()
	rec := &recorder{TB: t}
	f := &fake{newLink(rec, toCartridge, toHost, opts), rec, in, out}
	f.run()
	t.Cleanup(func() {
		f.CloseInput()
		if _, err := io.Copy(io.Discard, in); err != nil {
			t.Error(err)
		}
		if err := out.Close(); err != nil {
			t.Error(err)
		}
		<-f.readDone
		<-f.writeDone
	})
	return f
}

func (f *fake) hears(t *testing.T) Frame {
	t.Helper()
	got, _, err := ReadFrame(f.in)
	require.NoError(t, err)
	return got
}

func (f *fake) says(t *testing.T, frames ...Frame) {
	t.Helper()
	for _, g := range frames {
		_, err := f.out.Write(g.Encode())
		require.NoError(t, err)
	}
}

func TestAFailureSaysWhatWasAwaitedAndWhatCame(t *testing.T) {
	f := newFake(t, WithPatience(50*time.Millisecond))
	req := f.Request("cap:echo", WithID(uint64(7)))
	f.hears(t)
	f.says(t, NewFrame(TypeLog, uint64(7)).With(KeyMeta, map[string]any{"message": "still here"}))
	req.await("the log", func() bool { return len(req.frames) == 1 })
	texts := f.rec.failing(func() { req.WantEnd() })
	require.Len(t, texts, 1)
	for _, part := range []string{"END or ERR (request #7)", "within 50ms", "h2c req id=#7", "c2h log id=#7", "still here"} {
		assert.Contains(t, texts[0], part)
	}
}

func TestTheEndOfTheOutputEndsEveryWait(t *testing.T) {
	f := newFake(t)
	req := f.Request("cap:echo")
	f.hears(t)
	require.NoError(t, f.out.Close())
	texts := f.rec.failing(func() { req.WantErr("A", "internal") })
	require.Len(t, texts, 1)
	assert.Contains(t, texts[0], "the cartridge's output has ended: EOF")
}

func TestAStreamKeepsToItsWindow(t *testing.T) {
	f := newFake(t, WithWindow(2))
	req := f.Request("cap:echo", WithID(uint64(7)), WithRouting(nil))
	s := req.Open("a", "media:")
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for range 3 {
			s.Payload(Value([]byte("x")))
		}
	}()
	for _, want := range []Type{TypeReq, TypeStreamStart, TypeChunk, TypeChunk} {
		assert.Equal(t, want, f.hears(t).Type())
	}
	select {
	case <-sent:
		t.Fatal("three chunks were sent with a window of two")
	default:
	}
	f.says(t, CreditFrame("request", "a", 1).With(KeyID, uint64(7)))
	third := f.hears(t)
	<-sent
	assert.Equal(t, uint64(2), third.Uint(KeyChunkIndex))
	assert.Equal(t, uint64(4), third.Uint(KeySeq))
	assert.Equal(t, uint64(1), s.Granted())
}

func TestAnswersAreGrantedBackByHalfWindows(t *testing.T) {
	f := newFake(t, WithWindow(4))
	f.Request("cap:echo", WithID(uint64(7)), WithRouting(uint64(1)))
	f.hears(t)
	of := func(g Frame, seq uint64) Frame {
		return g.With(KeyID, uint64(7)).With(KeyRoutingID, uint64(1)).With(KeySeq, seq)
	}
	f.says(t, of(StartFrame("r", "media:"), 0))
	for i := range uint64(3) {
		f.says(t, of(ChunkFrame("r", i, Value([]byte("x"))), i+1))
	}
	grant := f.hears(t)
	assert.Equal(t, TypeCredit, grant.Type())
	assert.Equal(t, uint64(2), grant.Uint(KeyCredit))
	assert.Equal(t, "r", grant.Stream())
	assert.Equal(t, uint64(1), grant[KeyRoutingID])
	assert.Equal(t, "response", grant.MetaText("credit_dir"))
}

func TestTheJudgeSeesBothDirections(t *testing.T) {
	f := newFake(t)
	f.Request("cap:echo", WithID(uint64(7)), WithRouting(nil))
	f.hears(t)
	f.says(t, NewFrame(TypeEnd, uint64(7)).With(KeySeq, uint64(3)))
	f.await("the terminal", func() bool { return f.requests["#7"].terminal != nil })
	var texts []string
	for _, b := range f.check.Breaches() {
		texts = append(texts, b.String())
	}
	assert.Contains(t, fmt.Sprint(texts), "host→cartridge: HELLO comes first")
	assert.Contains(t, fmt.Sprint(texts), "cartridge→host: seq counts each flow")
}
