package bifaci_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/pools"
)

// capNamed is a cap URN of its own for each name; its input and output are plain media.
func capNamed(name string) string { return fmt.Sprintf(`cap:in="media:";out="media:";%s`, name) }

// defined is capNamed as a manifest declares it.
func defined(name string) manifest.Cap {
	return manifest.NewCap(capNamed(name), "Cap "+name, name).
		WithArgs(manifest.NewArg("media:", true, manifest.Stdin("media:")).Streaming(true)).
		WithOutput(manifest.NewOutput("media:", "the answer").Streaming(true))
}

// manifestOf declares identity and the named caps.
func manifestOf(names ...string) *manifest.Manifest {
	caps := []manifest.Cap{manifest.IdentityCap()}
	for _, n := range names {
		caps = append(caps, defined(n))
	}
	return manifest.New("rules", "1.0.0", "a cartridge under test", manifest.DefaultGroup(caps...))
}

// served is a handler under a name.
type served struct {
	name string
	h    bifaci.Handler
}

// cartridgeOf serves capNamed of each handler; declare may change the manifest.
func cartridgeOf(t *testing.T, declare func(*manifest.Manifest), opts []bifaci.Option, handlers ...served) *bifaci.Cartridge {
	t.Helper()
	var names []string
	for _, s := range handlers {
		names = append(names, s.name)
	}
	m := manifestOf(names...)
	if declare != nil {
		declare(m)
	}
	c, err := bifaci.New(m, opts...)
	require.NoError(t, err)
	for _, s := range handlers {
		require.NoError(t, c.RegisterFunc(capNamed(s.name), s.h))
	}
	return c
}

// bounded gives pools capacities.
func bounded(capacities map[string]uint64) func(*manifest.Manifest) {
	return func(m *manifest.Manifest) { m.Pools = pools.Declarations{Capacities: capacities} }
}

// gate is a handler that says that it has started and then waits to be released, whatever happens to its context.
type gate struct {
	started chan *bifaci.Request
	release chan struct{}
}

func newGate() *gate {
	return &gate{make(chan *bifaci.Request, 64), make(chan struct{})}
}

func (g *gate) handle(_ context.Context, r *bifaci.Request) error {
	g.started <- r
	<-g.release
	return nil
}

// open releases every handler, those to come as well.
func (g *gate) open() { close(g.release) }

// transcript reads everything that the input has, waits a second for more, and says what it saw.
func transcript(ctx context.Context, r *bifaci.Request) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	input, err := r.TakeInput()
	if err != nil {
		return "no input: " + err.Error()
	}
	said := ""
	for {
		s, err := input.Next(ctx)
		if err != nil {
			return said + endOf(ctx, err)
		}
		said += "[" + s.MediaURN()
		for {
			it, err := s.Next(ctx)
			if err != nil {
				said += endOf(ctx, err) + "]"
				break
			}
			said += " " + string(it.Bytes)
		}
	}
}

// endOf says how reading ended.
func endOf(ctx context.Context, err error) string {
	switch {
	case errors.Is(err, io.EOF):
		return " eof"
	case ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded):
		return " more"
	}
	return " error " + err.Error()
}

// tells answers with the transcript of its input, after it was released.
func (g *gate) tells(ctx context.Context, r *bifaci.Request) error {
	g.started <- r
	<-g.release
	return r.Output().EmitItem(ctx, transcript(ctx, r), nil)
}

// echoes sends every piece back as it comes.
func echoes(ctx context.Context, r *bifaci.Request) error {
	input, err := r.TakeInput()
	if err != nil {
		return err
	}
	for s, err := range input.All(ctx) {
		if err != nil {
			return err
		}
		for p, err := range s.Pieces(ctx) {
			if err != nil {
				return err
			}
			if err := r.Output().Forward(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// answers answers with its own name.
func answers(name string) served {
	return served{name, func(ctx context.Context, r *bifaci.Request) error { return r.Output().EmitItem(ctx, name, nil) }}
}

// poolOf is one pool of a host's probe.
func poolOf(t *testing.T, h *cartridgetest.Host, name string) cartridgetest.Pool {
	t.Helper()
	p, ok := h.Probe().Pools[name]
	require.True(t, ok, "there is no pool %s", name)
	return p
}
