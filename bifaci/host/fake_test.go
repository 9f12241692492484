package host_test

import (
	"context"
	"encoding/binary"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/host"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

// Frame is a frame as a general CBOR library sees it.
type Frame = cartridgetest.Frame

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// anyCap is a cap of tests in which the cartridge is a fake that looks at no URN.
const anyCap = `cap:in="media:";out="media:";work`

// fake is a cartridge whose frames the test writes itself: a CBOR library of general use makes them, not the codec under test.
type fake struct {
	t       *testing.T
	hostIn  *io.PipeReader // what Connect reads
	hostOut io.Writer      // what Connect writes
	out     *io.PipeWriter // the fake's own ends
	in      *io.PipeReader
	check   *cartridgetest.Check
	got     chan Frame // closed when the host has ended the input
	seq     map[frame.ID]uint64
	deaf    chan struct{} // has something when the fake shall read no more
	over    chan struct{} // closed at the end of the test
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, got: make(chan Frame, 8192), seq: map[frame.ID]uint64{}, check: cartridgetest.NewCheck(),
		deaf: make(chan struct{}, 1), over: make(chan struct{})}
	f.hostIn, f.out = io.Pipe()
	var hostOut *io.PipeWriter
	f.in, hostOut = io.Pipe()
	f.hostOut = judged{hostOut, f.check.Tap(cartridgetest.ToCartridge, hostOut)}
	f.check.ExcuseCartridge()
	var reading sync.WaitGroup
	reading.Go(f.read)
	t.Cleanup(func() {
		close(f.over)
		_ = f.out.Close()
		_ = f.in.Close() // a host that still writes sees a broken pipe
		reading.Wait()
		for _, b := range f.check.Breaches() {
			t.Errorf("the host's frames: %s", b)
		}
	})
	return f
}

// judged is the host's output, whose frames are judged on their way.
type judged struct {
	io.Closer
	io.Writer
}

// read takes everything that the host writes.
func (f *fake) read() {
	defer close(f.got)
	for {
		select {
		case <-f.deaf:
			<-f.over
		default:
		}
		var prefix [4]byte
		if _, err := io.ReadFull(f.in, prefix[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(prefix[:]))
		if _, err := io.ReadFull(f.in, body); err != nil {
			select {
			case <-f.over: // cut by the end of the test
			default:
				f.t.Errorf("the host's output ends inside a frame: %v", err)
			}
			return
		}
		var got map[frame.Key]any
		if err := modes.dec.Unmarshal(body, &got); err != nil {
			f.t.Errorf("the host wrote %x: %v", body, err)
			return
		}
		f.got <- got
	}
}

// modes decode maps with text keys, as meta has them.
var modes = struct{ dec cbor.DecMode }{func() cbor.DecMode {
	dec, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, DefaultMapType: metaType}.DecMode()
	if err != nil {
		panic(err) // the options are constants
	}
	return dec
}()}

// stopReading makes the fake read one frame more at most.
func (f *fake) stopReading() { f.deaf <- struct{}{} }

// next waits for the host's next frame.
func (f *fake) next() Frame {
	f.t.Helper()
	select {
	case got, ok := <-f.got:
		if !ok {
			f.t.Fatal("the host has ended the cartridge's input, want a frame")
		}
		return got
	case <-time.After(patience):
		f.t.Fatal("the host sends no frame")
	}
	return nil
}

// want waits for the host's next frame and makes sure of its type.
func (f *fake) want(t frame.Type) Frame {
	f.t.Helper()
	got := f.next()
	if got.Type() != t {
		f.t.Fatalf("the host sent %s, want a %s", got, t)
	}
	return got
}

// wantEnd makes sure that the host sends nothing more.
func (f *fake) wantEnd() {
	f.t.Helper()
	select {
	case got, ok := <-f.got:
		if ok {
			f.t.Fatalf("the host sent %s, want the end of its output", got)
		}
	case <-time.After(patience):
		f.t.Fatal("the host does not end its output")
	}
}

// send sends frames as they are, but for an absent id and seq.
func (f *fake) send(frames ...Frame) {
	f.t.Helper()
	for _, g := range frames {
		if !g.Has(frame.KeyID) {
			g = g.With(frame.KeyID, uint64(0))
		}
		if !g.Has(frame.KeySeq) {
			g = g.With(frame.KeySeq, uint64(0))
		}
		f.sendBytes(f.wire(g))
	}
}

// wire is a frame in bytes.
func (f *fake) wire(g Frame) []byte {
	f.t.Helper()
	body, err := cbor.Marshal(g)
	require.NoError(f.t, err)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// sendBytes sends what may be no frame. A host that reads no more is no concern of the test's.
func (f *fake) sendBytes(b []byte) { _, _ = f.check.Tap(cartridgetest.ToHost, f.out).Write(b) }

// answer sends frames of the answer to a REQ, with its ids and the next seq.
func (f *fake) answer(req Frame, frames ...Frame) {
	f.t.Helper()
	for _, g := range frames {
		g = g.With(frame.KeyID, req[frame.KeyID])
		if req.Has(frame.KeyRoutingID) && !g.Has(frame.KeyRoutingID) {
			g = g.With(frame.KeyRoutingID, req[frame.KeyRoutingID])
		}
		if g.Type().IsFlow() {
			g = g.With(frame.KeySeq, f.seq[req.ID()])
			f.seq[req.ID()]++
		}
		f.send(g)
	}
}

// answerBytes is the answer of one scalar stream and a successful END.
func answerBytes(pieces ...string) []Frame {
	frames := []Frame{cartridgetest.StartFrame("answer", "media:")}
	for i, p := range pieces {
		frames = append(frames, cartridgetest.ChunkFrame("answer", uint64(i), cartridgetest.Bytes(p)))
	}
	return append(frames, cartridgetest.StreamEndFrame("answer", uint64(len(pieces))), cartridgetest.EndFrame(true))
}

// noPools is the JSON of a pool map.
const noPools = `{"all":{"active":0,"caps":[],"configured":0,"declared":0,"queued":0}}`

// manifestJSON is the smallest manifest that a host takes, with caps beside identity.
func manifestJSON(t *testing.T, caps ...manifest.Cap) []byte {
	t.Helper()
	m := manifest.New("fake", "1.0.0", "a cartridge of a test", manifest.DefaultGroup(append([]manifest.Cap{manifest.IdentityCap()}, caps...)...))
	b, err := m.JSON()
	require.NoError(t, err)
	return b
}

// hello is a cartridge's HELLO with the default limits.
func hello(t *testing.T) Frame {
	t.Helper()
	return helloWith(t, nil)
}

// helloWith changes the meta of a cartridge's HELLO.
func helloWith(t *testing.T, change func(meta map[string]any)) Frame {
	t.Helper()
	f := cartridgetest.HelloFrame(frame.DefaultLimits())
	meta := f.Meta()
	meta["manifest"], meta["pools"] = manifestJSON(t), []byte(noPools)
	if change != nil {
		change(meta)
	}
	return f
}

// takeIdentity reads the five frames of the identity check and returns its REQ.
func (f *fake) takeIdentity() (req Frame) {
	f.t.Helper()
	req = f.want(frame.TypeReq)
	for _, t := range []frame.Type{frame.TypeStreamStart, frame.TypeChunk, frame.TypeStreamEnd, frame.TypeEnd} {
		f.want(t)
	}
	return req
}

// connected is how a Connect on another goroutine has ended.
type connected struct {
	conn *host.Conn
	err  error
}

// connect lets a host connect to the fake.
func (f *fake) connect(ctx context.Context, opts ...host.Option) <-chan connected {
	done := make(chan connected, 1)
	go func() { // ends with the handshake, at the latest when the fake's pipes are closed
		conn, err := host.Connect(ctx, f.hostIn, f.hostOut, opts...)
		done <- connected{conn, err}
	}()
	return done
}

// live is a link to a fake that has answered HELLO and identity, and has got its policy if opts do not hold it back.
func live(t *testing.T, withPolicy bool, opts ...host.Option) (*fake, *host.Conn) {
	t.Helper()
	f := newFake(t)
	return f, f.live(withPolicy, opts...)
}

func (f *fake) live(withPolicy bool, opts ...host.Option) *host.Conn {
	t := f.t
	t.Helper()
	if !withPolicy {
		opts = append(opts, host.WithoutPolicy())
	}
	done := f.connect(t.Context(), opts...)
	f.want(frame.TypeHello)
	f.send(hello(t))
	f.answer(f.takeIdentity(), answerBytes("\x66bifaci")...)
	got := wait(t, done, "the link to be live")
	require.NoError(t, got.err)
	t.Cleanup(got.conn.Close)
	if withPolicy {
		f.want(frame.TypePolicy)
	}
	return got.conn
}

// call makes a call of the host's and returns its REQ as well.
func (f *fake) call(conn *host.Conn, opts ...host.CallOption) (*host.Call, Frame) {
	f.t.Helper()
	call, err := conn.Call(f.t.Context(), anyCap, opts...)
	require.NoError(f.t, err)
	return call, f.want(frame.TypeReq)
}

// wantAlive makes sure that the link still works: a probe goes out, behind nothing, and its reply comes back.
func (f *fake) wantAlive(conn *host.Conn) {
	f.t.Helper()
	done := inBackground(func() error {
		_, err := conn.Probe(f.t.Context(), nil)
		return err
	})
	f.send(pulse(f.want(frame.TypeHeartbeat), noPools, nil))
	require.NoError(f.t, wait(f.t, done, "the reply to a probe"))
}

// wait waits for what another goroutine brings.
func wait[T any](t *testing.T, from <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
	}
	return v
}

// inBackground runs f and gives its result.
func inBackground[T any](f func() T) <-chan T {
	done := make(chan T, 1)
	go func() { done <- f() }()
	return done
}
