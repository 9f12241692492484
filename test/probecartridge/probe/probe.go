// Package probe has the capabilities that drivers, tests and the conformance tool exercise a cartridge with. It is written like any
// author's cartridge, with the exported API only. [New] makes the cartridge; command probecartridge is its Main.
package probe

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/pools"
)

// text is the media of most arguments and answers.
const text = "media:enc=utf-8"

// probe is one capability: its slug, its media, and its handler.
type probe struct {
	slug, in, out string
	handler       bifaci.Handler
}

func (p probe) urn() string { return fmt.Sprintf(`cap:in=%q;out=%q;%s`, p.in, p.out, p.slug) }

// streams reports whether the probe reads its input as it comes; the others need it whole.
func (p probe) streams() bool {
	switch p.slug {
	case "echo", "sink", "stall":
		return true
	}
	return false
}

func probes() []probe {
	return []probe{
		{"echo", "media:", "media:", echo},
		{"sink", "media:", text, sink},
		{"source", text, "media:", source},
		{"items", text, "media:", items},
		{"tokens", text, text, tokens},
		{"spin", text, text, spin},
		{"hold", text, text, hold},
		{"hold2", text, text, hold},
		{"stall", text, text, stall},
		{"panic", text, text, panics},
		{"fail", text, text, fail},
		{"peer", text, text, peer},
		{"reach", text, text, reach},
		{"available", text, text, nil},
		{"print", text, text, prints},
		{"feed", "media:feed-frames", "media:feed-frames", feed},
	}
}

// New is the cartridge. It starts nothing.
func New() *bifaci.Cartridge {
	caps := []manifest.Cap{manifest.IdentityCap()}
	byName := map[string]string{}
	for _, p := range probes() {
		arg := manifest.NewArg(p.in, true, manifest.Stdin(p.in)).Streaming(p.streams())
		if p.slug == "feed" {
			arg = manifest.NewArg("media:live;synthetic", true, manifest.Stdin(p.in)).Streaming(true).Sequence(true)
		}
		c := manifest.NewCap(p.urn(), "Probe "+p.slug, p.slug).WithArgs(arg).
			WithOutput(manifest.NewOutput(p.out, "what "+p.slug+" answers").Streaming(true).Sequence(p.slug == "items" || p.slug == "feed"))
		caps = append(caps, c)
		byName[p.slug] = p.urn()
	}
	m := manifest.New("probecartridge", "1.0.0", "exercises a host", manifest.DefaultGroup(caps...)).
		WithPools(pools.Declarations{
			Pools:      map[string][]string{"duo": {byName["hold"], byName["hold2"]}},
			Capacities: map[string]uint64{"duo": 2},
		})
	c := bifaci.Must(bifaci.New(m))
	for _, p := range probes() {
		if p.slug == "available" {
			p.handler = available(c)
		}
		c.HandleFunc(p.urn(), p.handler)
	}
	return c
}

// echo sends each piece back as it comes, with the same item borders and meta.
func echo(ctx context.Context, r *bifaci.Request) error {
	input, err := r.TakeInput()
	if err != nil {
		return err
	}
	out := r.Output()
	for s, err := range input.All(ctx) {
		if err != nil {
			return err
		}
		if err := start(out, s); err != nil {
			return err
		}
		for p, err := range s.Pieces(ctx) {
			if err != nil {
				return err
			}
			if err := out.Forward(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// start gives the output the shape of the first input.
func start(out *bifaci.OutputStream, s *bifaci.InputStream) error {
	opts := []bifaci.StartOption{bifaci.WithMeta(s.Meta())}
	if s.IsSequence() {
		opts = append(opts, bifaci.Sequence)
	}
	if s.IsUnbounded() {
		return out.StartUnbounded(opts...)
	}
	return out.Start(opts...)
}

// feed gives every item of a live feed back, with its meta.
func feed(ctx context.Context, r *bifaci.Request) error {
	in, err := r.Input(ctx, "media:feed-frames")
	if err != nil {
		return err
	}
	out, err := r.StartUnbounded(bifaci.Sequence)
	if err != nil {
		return err
	}
	for it, err := range in.Items(ctx) {
		if err != nil {
			return err
		}
		if err := out.EmitItem(ctx, it.Bytes, it.Meta); err != nil {
			return err
		}
	}
	return nil
}

// sink counts the bytes it reads.
func sink(ctx context.Context, r *bifaci.Request) error {
	input, err := r.TakeInput()
	if err != nil {
		return err
	}
	var n int64
	for s, err := range input.All(ctx) {
		if err != nil {
			return err
		}
		for it, err := range s.Items(ctx) {
			if err != nil {
				return err
			}
			n += int64(len(it.Bytes))
			it.Release()
		}
	}
	_, err = r.Output().Write(strconv.AppendInt(nil, n, 10))
	return err
}

// source writes as many bytes as its argument says.
func source(ctx context.Context, r *bifaci.Request) error {
	n, err := number(ctx, r)
	if err != nil {
		return err
	}
	buf := make([]byte, min(n, 1<<20))
	for i := range buf {
		buf[i] = byte(i)
	}
	for n > 0 {
		k := min(n, len(buf))
		if _, err := r.Output().WriteContext(ctx, buf[:k]); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

// items emits as many items of 64 bytes as its argument says.
func items(ctx context.Context, r *bifaci.Request) error {
	n, err := number(ctx, r)
	if err != nil {
		return err
	}
	out, err := r.Start(bifaci.Sequence)
	if err != nil {
		return err
	}
	item := make([]byte, 64)
	for i := range n {
		item[i%len(item)]++
		if err := out.EmitItem(ctx, item, nil); err != nil {
			return err
		}
	}
	return nil
}

// tokens makes as many writes of 16 bytes as its argument says.
func tokens(ctx context.Context, r *bifaci.Request) error {
	n, err := number(ctx, r)
	if err != nil {
		return err
	}
	token := []byte("0123456789abcdef")
	for range n {
		if _, err := r.Output().WriteContext(ctx, token); err != nil {
			return err
		}
	}
	return nil
}

// spin keeps a processor busy for as many milliseconds as its argument says.
func spin(ctx context.Context, r *bifaci.Request) error {
	n, err := number(ctx, r)
	if err != nil {
		return err
	}
	x := uint64(n)
	for end := time.Now().Add(time.Duration(n) * time.Millisecond); time.Now().Before(end) && ctx.Err() == nil; {
		for range 100_000 {
			x = x*6364136223846793005 + 1442695040888963407
		}
	}
	_, err = r.Output().Write(strconv.AppendUint(nil, x, 10))
	return err
}

// hold says that it has started, reads its input to the end, and gives it back.
func hold(ctx context.Context, r *bifaci.Request) error {
	out := r.Output()
	if _, err := out.Write([]byte("started")); err != nil {
		return err
	}
	if err := out.Flush(ctx); err != nil {
		return err
	}
	b, err := argument(ctx, r)
	if err != nil {
		return err
	}
	_, err = out.Write(b)
	return err
}

// stall never reads and waits for its context.
func stall(ctx context.Context, _ *bifaci.Request) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func panics(context.Context, *bifaci.Request) error { panic("as asked") }

// fail fails as its argument CODE|class|message says.
func fail(ctx context.Context, r *bifaci.Request) error {
	b, err := argument(ctx, r)
	if err != nil {
		return err
	}
	parts := strings.SplitN(string(b), "|", 3)
	if len(parts) < 3 {
		return failure.New("BAD_ARGUMENT", failure.Input, "want CODE|class|message").ForArgument(text)
	}
	return failure.New(parts[0], failure.Class(parts[1]), parts[2])
}

// peer calls the cap that its argument names, with the argument's own text, and gives the answer back.
func peer(ctx context.Context, r *bifaci.Request) error {
	b, err := argument(ctx, r)
	if err != nil {
		return err
	}
	answer, err := bifaci.CallBytes(ctx, r.Peer(), string(b), bifaci.BytesArg{MediaURN: text, Value: b})
	if err != nil {
		return err
	}
	for it, err := range answer.Items(ctx) {
		if err != nil {
			return err
		}
		if it.Data == nil {
			continue
		}
		if _, err := r.Output().WriteContext(ctx, it.Data.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// available reports a capacity: its argument is POOL N, and N is what the pool can serve from now on.
func available(c *bifaci.Cartridge) bifaci.Handler {
	return func(ctx context.Context, r *bifaci.Request) error {
		b, err := argument(ctx, r)
		if err != nil {
			return err
		}
		pool, number, ok := strings.Cut(string(b), " ")
		n, err := strconv.ParseUint(number, 10, 64)
		if !ok || err != nil {
			return failure.Newf("BAD_ARGUMENT", failure.Input, "want POOL N, got %q", b).ForArgument(text)
		}
		return c.PoolHandle(pool).Set(n)
	}
}

// reach asks for the third-party network every 10 ms until it is refused, and fails with that.
func reach(ctx context.Context, r *bifaci.Request) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := r.Network().Allow(bifaci.ReachThirdParty); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// prints prints its argument to standard output, where frames would be broken by it.
func prints(ctx context.Context, r *bifaci.Request) error {
	b, err := argument(ctx, r)
	if err != nil {
		return err
	}
	fmt.Println(string(b))
	_, err = r.Output().Write(b)
	return err
}

func argument(ctx context.Context, r *bifaci.Request) ([]byte, error) {
	input, err := r.TakeInput()
	if err != nil {
		return nil, err
	}
	return input.CollectAllBytes(ctx)
}

func number(ctx context.Context, r *bifaci.Request) (int, error) {
	b, err := argument(ctx, r)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(string(b))
	if err != nil || n < 0 {
		return 0, failure.Newf("BAD_ARGUMENT", failure.Input, "want a number of zero or more, got %q", b).ForArgument(text)
	}
	return n, nil
}
