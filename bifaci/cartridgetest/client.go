package cartridgetest

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/host"
)

// Client drives a cartridge through package host, over pipes in memory: for tests that care about answers and not about
// frames. The frames are judged all the same when the test ends.
type Client struct {
	t       testing.TB
	conn    *host.Conn
	check   *Check
	in, out *pipe // of the cartridge
	cancel  context.CancelCauseFunc
	served  chan struct{}
	err     error // set before served is closed
}

// Connect serves c to a real host: handshake, identity check, policy.
func Connect(t testing.TB, c *bifaci.Cartridge, opts ...host.Option) *Client {
	t.Helper()
	cl := &Client{t: t, check: NewCheck(), served: make(chan struct{})}
	cl.in, cl.out = newPipe(outputPipeBytes, 0, cl.check.Tap(ToCartridge, nil)), newPipe(outputPipeBytes, 0, cl.check.Tap(ToHost, nil))
	// The test's context ends before its cleanups do, which may want a clean end.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
	cl.cancel = cancel
	go func() { // ends with Serve; end waits for it
		defer close(cl.served)
		cl.err = c.Serve(ctx, cl.in, cl.out)
		cl.out.closeWrite(io.EOF)
	}()
	t.Cleanup(cl.end)
	conn, err := host.Connect(ctx, cl.out, hostEnd{cl.in}, opts...)
	if err != nil {
		t.Fatalf("cartridgetest: connecting to the cartridge: %v", err)
	}
	cl.conn = conn
	return cl
}

// hostEnd is the writing end of the cartridge's input: closing it ends the input cleanly.
type hostEnd struct{ p *pipe }

func (e hostEnd) Write(b []byte) (int, error) { return e.p.Write(b) }

func (e hostEnd) Close() error {
	e.p.closeWrite(io.EOF)
	return nil
}

// Call calls capURN with one argument stream each and returns the bytes of the answer. Arguments are sent while the answer is
// read. A failure of the handler is a [*failure.Remote].
//
// [*failure.Remote]: https://pkg.go.dev/github.com/pipe-cartridge/pipe/bifaci/failure#Remote
func (cl *Client) Call(ctx context.Context, capURN string, args ...host.Argument) ([]byte, error) {
	return cl.conn.CallBytes(ctx, capURN, args...)
}

// Conn is the link, for everything else that a host can do.
func (cl *Client) Conn() *host.Conn { return cl.conn }

// Wait ends the cartridge's input and returns the error of Serve.
func (cl *Client) Wait() error {
	cl.t.Helper()
	cl.conn.CloseInput()
	select {
	case <-cl.served:
	case <-time.After(defaultPatience):
		cl.t.Fatalf("cartridgetest: Serve has not returned %v after the end of its input", defaultPatience)
	}
	return cl.err
}

// end ends the link when the test is over, and judges it.
func (cl *Client) end() {
	cl.t.Helper()
	if cl.conn != nil {
		cl.conn.Close()
	}
	cl.out.set(func() { cl.out.writeErr = errPipeBroken })
	cl.cancel(errors.New("the test is over"))
	select {
	case <-cl.served:
	case <-time.After(defaultPatience):
		cl.t.Errorf("cartridgetest: Serve does not end when its context does")
		return
	}
	for _, b := range cl.check.Breaches() {
		cl.t.Errorf("cartridgetest: %s", b)
	}
}
