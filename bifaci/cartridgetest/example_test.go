package cartridgetest_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/host"
)

// shout is the handler that the examples test.
func shout(ctx context.Context, req *bifaci.Request) error {
	in, err := req.Input(ctx, text)
	if err != nil {
		return err
	}
	for item, err := range in.Items(ctx) {
		if err != nil {
			return err
		}
		if err := req.Output().EmitItem(ctx, bytes.ToUpper(item.Bytes), nil); err != nil {
			return err
		}
	}
	return nil
}

// A test as a dialogue. The function run stands for go test.
func Example() {
	failures := run(func(t testing.TB) {
		h := cartridgetest.Start(t, cartridgetest.Serving(t, capRun, shout))
		req := h.Request(capRun)
		req.Chunk("a").WantItems("A") // it answers before its input has ended
		req.Chunk("b").End()
		req.WantItems("B")
		req.WantEnd()

		req = h.Request(capRun)
		req.Chunk("c").WantItems("C")
		req.Cancel(failure.UserCancel())
		req.WantErr(failure.Cancelled, failure.User)
		h.WantIdle()
	})
	fmt.Println(len(failures), "failures")
	// Output: 0 failures
}

// A failed expectation names what came instead.
func ExampleRequest_WantItems() {
	failures := run(func(t testing.TB) {
		h := cartridgetest.Start(t, cartridgetest.Serving(t, capRun, shout))
		req := h.Request(capRun, cartridgetest.WithID(frame.UintID(1)))
		req.Chunk("a").End()
		req.WantItems("B")
	})
	fmt.Println(failures[0])
	// Output: cartridgetest: item 1 of request 1 is "A", want "B"
}

// Answers without frames.
func ExampleConnect() {
	failures := run(func(t testing.TB) {
		c := cartridgetest.Connect(t, cartridgetest.Serving(t, capRun, shout))
		got, err := c.Call(t.Context(), capRun, host.Argument{MediaURN: text, Value: []byte("quiet")})
		if err != nil || string(got) != "QUIET" {
			t.Fatalf("got %q, %v", got, err)
		}
	})
	fmt.Println(len(failures), "failures")
	// Output: 0 failures
}
