package host_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/host"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// virtual runs a sub-test with virtual time.
func virtual(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// theatre is where the programs of a host are played: in the test's own process, over pipes in memory, each link watched by the
// checker of frame orders.
type theatre struct {
	t *testing.T

	mu    sync.Mutex
	plays map[string]play
	runs  []*run
}

// play is a program: it gets its three pipes and gives its exit status. It has to end when its input does, or ctx.
type play func(ctx context.Context, r *run) int

// run is one run of a program.
type run struct {
	path         string
	n            int // of the runs of this path, from 1
	in, out, err *memoryPipe
	check        *cartridgetest.Check
	ctx          context.Context
	done         chan struct{}
	status       exit
	kill         func()
	excused      bool // its frames are not to be judged
	stray        bool // somebody else holds its output open
}

// exit is how a run has ended.
type exit struct {
	status int
	killed bool
}

func (e exit) Success() bool { return e.status == 0 && !e.killed }
func (e exit) String() string {
	if e.killed {
		return "signal: killed"
	}
	return fmt.Sprintf("exit status %d", e.status)
}

func newTheatre(t *testing.T) *theatre { return &theatre{t: t, plays: map[string]play{}} }

// on puts a program onto the stage under a path.
func (th *theatre) on(path string, p play) string {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.plays[path] = p
	return path
}

// serve is a program that serves a cartridge; make is called for every run.
func serve(build func() *bifaci.Cartridge) play {
	return func(ctx context.Context, r *run) int {
		if err := build().Serve(ctx, r.in, r.stdout()); err != nil {
			fmt.Fprintln(r.err, err)
			return 1
		}
		return 0
	}
}

// capability is one cap of a cartridge under test.
type capability struct {
	urn     string
	handler bifaci.Handler
	change  func(*manifest.Cap)
}

// testCartridge makes a cartridge of some caps.
func testCartridge(name string, caps []capability, opts ...bifaci.Option) *bifaci.Cartridge {
	c := bifaci.Must(bifaci.New(manifest.New(name, "1.0.0", "a cartridge of a test", manifest.DefaultGroup(capsOf(caps)...)), opts...))
	for _, k := range caps {
		c.HandleFunc(k.urn, k.handler)
	}
	return c
}

func capsOf(caps []capability) []manifest.Cap {
	all := []manifest.Cap{manifest.IdentityCap()}
	for _, k := range caps {
		slug := strings.NewReplacer("=", "-", "?", "x").Replace(k.urn[strings.LastIndex(k.urn, ";")+1:])
		in := urn.MustCap(k.urn).In().String()
		def := manifest.NewCap(k.urn, slug, slug).WithArgs(manifest.NewArg(in, true, manifest.Stdin(in)).Streaming(true)).
			WithOutput(manifest.NewOutput("media:", slug).Streaming(true))
		if k.change != nil {
			k.change(&def)
		}
		all = append(all, def)
	}
	return all
}

// cartridge puts a cartridge of some caps onto the stage and gives its spec, with the caps known.
func (th *theatre) cartridge(path string, caps ...capability) host.Spec {
	th.on(path, serve(func() *bifaci.Cartridge { return testCartridge(path, caps) }))
	return host.Spec{Path: path, Groups: []manifest.Group{manifest.DefaultGroup(capsOf(caps)...)}}
}

func named(slug string) string { return `cap:in="media:";out="media:";` + slug }

// stdout is the program's output, watched by the checker.
func (r *run) stdout() io.Writer { return r.check.Tap(cartridgetest.ToHost, r.out) }

// launch starts a program for a host.
func (th *theatre) launch(path string) (host.StandIn, error) {
	th.mu.Lock()
	defer th.mu.Unlock()
	p := th.plays[path]
	if p == nil {
		return host.StandIn{}, &fs.PathError{Op: "spawn", Path: path, Err: fs.ErrNotExist}
	}
	r := &run{path: path, n: 1, check: cartridgetest.NewCheck(), done: make(chan struct{})}
	r.in, r.out, r.err = newMemoryPipe(r.check.Tap(cartridgetest.ToCartridge, nil)), newMemoryPipe(nil), newMemoryPipe(nil)
	for _, o := range th.runs {
		if o.path == path {
			r.n++
		}
	}
	th.runs = append(th.runs, r)
	ctx, cancel := context.WithCancel(context.Background())
	r.ctx = ctx
	var once sync.Once
	end := func(e exit) {
		once.Do(func() {
			r.status = e
			if r.stray {
				r.out.cut()
			} else {
				_ = r.out.Close()
			}
			r.in.breakRead() // behind its output: a program that was killed says nothing about it
			_ = r.err.Close()
			cancel() // what it does now nobody sees
			close(r.done)
		})
	}
	r.kill = func() { end(exit{killed: true}) }
	go func() { end(exit{status: p(ctx, r)}) }() // ends with the program
	return host.StandIn{In: r.in, Out: r.out, Err: r.err, PID: 1000 + len(th.runs), Done: r.done, Kill: func() error { r.kill(); return nil },
		Wait: func() (interface {
			Success() bool
			String() string
		}, error) {
			<-r.done
			return r.status, nil
		}}, nil
}

// count is how many programs were started from a path.
func (th *theatre) count(path string) (n int) {
	th.mu.Lock()
	defer th.mu.Unlock()
	for _, r := range th.runs {
		if r.path == path {
			n++
		}
	}
	return n
}

// latest is the last run of a path.
func (th *theatre) latest(path string) (found *run) {
	th.mu.Lock()
	defer th.mu.Unlock()
	for _, r := range th.runs {
		if r.path == path {
			found = r
		}
	}
	require.NotNil(th.t, found, "nothing of %s was started", path)
	return found
}

// host makes a host whose programs play here. At the end of the test it is shut down, all programs must have ended, and the frames of
// all links must have been in order.
func (th *theatre) host(opts ...host.Option) *host.Host {
	th.t.Helper()
	h := host.New(append([]host.Option{host.WithStandIns(th.launch)}, opts...)...)
	th.t.Cleanup(func() {
		_ = h.Shutdown(context.Background())
		th.mu.Lock()
		defer th.mu.Unlock()
		for _, r := range th.runs {
			select {
			case <-r.done:
			default:
				th.t.Errorf("run %d of %s was left behind", r.n, r.path)
			}
			if r.excused {
				continue
			}
			for _, b := range r.check.Breaches() {
				th.t.Errorf("run %d of %s: %s\n%s", r.n, r.path, b, strings.Join(r.check.Trace(), "\n"))
			}
		}
	})
	return h
}

// memoryPipe is a pipe in memory with room for what a test writes, and an end that can be interrupted. It waits on a condition, which
// counts as waiting in a bubble of virtual time.
type memoryPipe struct {
	tap io.Writer

	mu      sync.Mutex
	changed sync.Cond
	buf     []byte
	limit   int  // bytes in buf
	ended   bool // by the writer
	broken  bool // by the reader
	stopped bool // interrupted
	held    bool // nothing can be read
	mute    bool // nothing can be written, and nobody is told
}

const memoryPipeBytes = 64 << 10

func newMemoryPipe(tap io.Writer) *memoryPipe {
	p := &memoryPipe{tap: tap, limit: memoryPipeBytes}
	p.changed.L = &p.mu
	return p
}

var errMemoryPipe = errors.New("the pipe is broken")

func (p *memoryPipe) Write(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tap != nil && !p.ended && !p.broken && !p.stopped {
		if _, err := p.tap.Write(b); err != nil {
			return 0, err
		}
	}
	for {
		switch room := min(len(b)-n, p.limit-len(p.buf)); {
		case p.ended || p.broken || p.stopped || p.mute:
			return n, errMemoryPipe
		case room > 0 || n == len(b):
			p.buf = append(p.buf, b[n:n+room]...)
			n += room
			p.changed.Broadcast()
			if n == len(b) {
				return n, nil
			}
		default:
			p.changed.Wait()
		}
	}
}

func (p *memoryPipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.stopped || p.broken:
			return 0, errMemoryPipe
		case p.held:
		case len(p.buf) > 0:
			n := copy(b, p.buf)
			p.buf = p.buf[n:]
			p.changed.Broadcast()
			return n, nil
		case p.ended:
			return 0, io.EOF
		}
		p.changed.Wait()
	}
}

func (p *memoryPipe) set(change func()) {
	p.mu.Lock()
	change()
	p.changed.Broadcast()
	p.mu.Unlock()
}

// Close ends the pipe for its reader.
func (p *memoryPipe) Close() error { p.set(func() { p.ended = true }); return nil }

// Interrupt ends it for the host's side, whichever that is.
func (p *memoryPipe) Interrupt() { p.set(func() { p.stopped = true }) }

func (p *memoryPipe) hold(on bool) { p.set(func() { p.held = on }) }

// cut ends the writer and not the pipe: somebody else could still write.
func (p *memoryPipe) cut() { p.set(func() { p.mute = true }) }

func (p *memoryPipe) breakRead() { p.set(func() { p.broken = true }) }

// answerWith is a handler that writes a text.
func answerWith(text string) bifaci.Handler {
	return func(_ context.Context, r *bifaci.Request) error {
		_, err := r.Output().Write([]byte(text))
		return err
	}
}

// hold is a handler that answers when the gate opens, or ends with its context.
func hold(gate <-chan struct{}, text string) bifaci.Handler {
	return func(ctx context.Context, r *bifaci.Request) error {
		select {
		case <-gate:
			_, err := r.Output().Write([]byte(text))
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// register makes a spec known.
func register(t *testing.T, h *host.Host, spec host.Spec) host.ID {
	t.Helper()
	id, err := h.Register(spec)
	require.NoError(t, err)
	return id
}

// wantAnswer calls a cap with no argument and looks at the answer.
func wantAnswer(t *testing.T, h *host.Host, capURN, want string) {
	t.Helper()
	got, err := h.CallBytes(t.Context(), capURN)
	require.NoError(t, err)
	assert.Equal(t, want, string(got))
}

// record is the inventory's record of a cartridge.
func record(t *testing.T, h *host.Host, id host.ID) host.Record {
	t.Helper()
	for _, r := range h.Cartridges() {
		if r.Cartridge == id {
			return r
		}
	}
	t.Fatalf("cartridge %s is not in the inventory", id)
	return host.Record{}
}

// encodeFrame is a frame's bytes, made by a CBOR library of general use.
func encodeFrame(g Frame) []byte {
	for _, key := range []frame.Key{frame.KeyID, frame.KeySeq} {
		if !g.Has(key) {
			g = g.With(key, uint64(0))
		}
	}
	body, err := cbor.Marshal(g)
	if err != nil {
		panic(err) // tests encode what can be encoded
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}
