package bifaci_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// workCap is the cap of tests that need one handler.
const workCap = `cap:in="media:enc=utf-8";out="media:enc=utf-8";work`

// textMedia is its input and its output.
const textMedia = "media:enc=utf-8"

// virtual is a sub-test with virtual time, where synctest.Wait tells that the link is at rest.
func virtual(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// worker serves one handler with a host that grants nothing by itself and proposes the given window.
func worker(t *testing.T, window uint64, h bifaci.Handler, opts ...bifaci.Option) *cartridgetest.Host {
	t.Helper()
	return cartridgetest.Start(t, cartridgetest.Serving(t, workCap, h, opts...), cartridgetest.WithWindow(window), cartridgetest.WithManualCredit())
}

// generous is worker with a host that grants each answer back as it comes.
func generous(t *testing.T, window uint64, h bifaci.Handler, opts ...bifaci.Option) *cartridgetest.Host {
	t.Helper()
	return cartridgetest.Start(t, cartridgetest.Serving(t, workCap, h, opts...), cartridgetest.WithWindow(window))
}

// limitsWith are the default limits, changed.
func limitsWith(change func(*frame.Limits)) frame.Limits {
	l := frame.DefaultLimits()
	change(&l)
	return l
}

// chunks are the payloads of the CHUNKs that a request has been answered with so far.
func chunks(r *cartridgetest.Request) (payloads [][]byte) {
	for _, f := range r.Frames() {
		if f.Type() == frame.TypeChunk {
			payloads = append(payloads, f.Payload())
		}
	}
	return payloads
}

// types are the types of the frames of an answer so far, joined by spaces.
func types(r *cartridgetest.Request) string {
	var names []string
	for _, f := range r.Frames() {
		names = append(names, f.Type().String())
	}
	return strings.Join(names, " ")
}

// firstStream takes the input and waits for its first stream.
func firstStream(ctx context.Context, r *bifaci.Request) (*bifaci.InputStream, error) {
	input, err := r.TakeInput()
	if err != nil {
		return nil, err
	}
	return input.Next(ctx)
}

// sum adds numbers up.
func sum(numbers []uint64) (total uint64) {
	for _, n := range numbers {
		total += n
	}
	return total
}

// settled waits until everybody waits, and returns what a request has been answered with.
func settled(r *cartridgetest.Request) string {
	synctest.Wait()
	return types(r)
}

// wantStill makes sure that a request has no terminal when everybody waits.
func wantStill(t *testing.T, r *cartridgetest.Request) {
	t.Helper()
	synctest.Wait()
	require.Nil(t, r.Terminal(), "the request has ended")
}
