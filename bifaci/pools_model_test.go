package bifaci_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/pools"
)

// gatedOps makes handlers that note the order in which they were made and then wait until the test lets them go.
type gatedOps struct {
	mu    sync.Mutex
	made  int
	place map[frame.ID]int // by request: the number of its handler in the order in which handlers were made
	gates map[frame.ID]chan struct{}
}

func (g *gatedOps) factory() bifaci.Op {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.made++
	return gatedOp{g, g.made}
}

// gate is what a request's handler waits for.
func (g *gatedOps) gate(id frame.ID) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gates[id] == nil {
		g.gates[id] = make(chan struct{})
	}
	return g.gates[id]
}

// order lists the requests whose handlers have been called, in the order in which the handlers were made.
func (g *gatedOps) order() (ids []frame.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ids = slices.Collect(maps.Keys(g.place))
	slices.SortFunc(ids, func(a, b frame.ID) int { return g.place[a] - g.place[b] })
	return ids
}

type gatedOp struct {
	g      *gatedOps
	number int
}

func (o gatedOp) Metadata() bifaci.OpMetadata { return bifaci.OpMetadata{Name: "gated"} }

func (o gatedOp) Perform(ctx context.Context, _ *bifaci.DryContext, wet *bifaci.WetContext) error {
	r, err := bifaci.WetGet[*bifaci.Request](wet, bifaci.WetKeyRequest)
	if err != nil {
		return err
	}
	o.g.mu.Lock()
	o.g.place[r.ID()] = o.number
	o.g.mu.Unlock()
	select {
	case <-o.g.gate(r.ID()):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// admission is the runtime and the model side by side: each step does the same to both and compares everything that can be seen.
type admission struct {
	c     *bifaci.Cartridge
	h     *cartridgetest.Host
	ops   *gatedOps
	names []string // of the caps
	pools []string // names of all pools

	table   *pools.Table
	running []*modelled
	line    []*modelled
	order   []frame.ID // admissions so far
}

// modelled is one request.
type modelled struct {
	req    *cartridgetest.Request
	waiter pools.Waiter
}

func newAdmission(t *testing.T, rt *rapid.T) *admission {
	a := &admission{ops: &gatedOps{place: map[frame.ID]int{}, gates: map[frame.ID]chan struct{}{}}, names: []string{"one", "two", "three"}}
	d := pools.Declarations{Pools: map[string][]string{}, Capacities: map[string]uint64{}}
	for i := range rapid.IntRange(0, 2).Draw(rt, "shared pools") {
		for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom(a.names), 1, len(a.names), rapid.ID[string]).Draw(rt, "members") {
			d.Pools[fmt.Sprintf("pool%d", i)] = append(d.Pools[fmt.Sprintf("pool%d", i)], poolNamed(capNamed(n)))
		}
	}
	a.pools = append(slices.Sorted(maps.Keys(d.Pools)), pools.All)
	for _, n := range a.names {
		a.pools = append(a.pools, poolNamed(capNamed(n)))
	}
	for _, p := range a.pools {
		if n := rapid.Uint64Range(0, 3).Draw(rt, "capacity of "+p); n > 0 {
			d.Capacities[p] = n
		}
	}
	a.c = cartridgeOf(t, func(m *manifest.Manifest) { m.Pools = d }, nil, served{"one", waits}, served{"two", waits}, served{"three", waits})
	for _, n := range a.names {
		require.NoError(rt, a.c.Register(capNamed(n), a.ops.factory))
	}
	a.h = cartridgetest.Start(t, a.c)
	var err error
	a.table, err = pools.NewTable(a.h.Probe().Pools[pools.All].Caps, d)
	require.NoError(rt, err)
	return a
}

// settle takes over who the model admits.
func (a *admission) settle() {
	for {
		w, ok := a.table.NextUp()
		if !ok {
			return
		}
		m := w.Owner.(*modelled)
		a.line = slices.DeleteFunc(a.line, func(o *modelled) bool { return o == m })
		a.running = append(a.running, m)
		a.order = append(a.order, m.req.ID())
	}
}

func (a *admission) arrive(rt *rapid.T) {
	name := rapid.SampledFrom(a.names).Draw(rt, "cap")
	m := &modelled{req: a.h.Request(capNamed(name)).End()}
	m.waiter.Owner = m
	index, ok := a.table.Index(poolNamed(capNamed(name)))
	require.True(rt, ok)
	got, err := a.table.Arrive(index, &m.waiter)
	require.NoError(rt, err)
	if got.Admitted {
		a.running = append(a.running, m)
		a.order = append(a.order, m.req.ID())
		return
	}
	a.line = append(a.line, m)
	notice := m.req.WantLog("queued")
	require.Equal(rt, got.Position, notice["queue_position"])
	require.Equal(rt, got.Blocking, notice["blocking_pool"])
}

// pick takes one of the requests out.
func pick(rt *rapid.T, from *[]*modelled) *modelled {
	if len(*from) == 0 {
		rt.Skip("there is none")
	}
	i := rapid.IntRange(0, len(*from)-1).Draw(rt, "which")
	m := (*from)[i]
	*from = slices.Delete(*from, i, i+1)
	return m
}

func (a *admission) finish(rt *rapid.T) {
	m := pick(rt, &a.running)
	close(a.ops.gate(m.req.ID()))
	m.req.WantEnd()
	a.ended(rt, m)
}

func (a *admission) cancelRunning(rt *rapid.T) {
	m := pick(rt, &a.running)
	m.req.Cancel(failure.UserCancel()).WantErr(failure.Cancelled, failure.User)
	a.ended(rt, m)
}

func (a *admission) ended(rt *rapid.T, m *modelled) {
	require.True(rt, a.table.Finish(&m.waiter))
	a.settle()
}

func (a *admission) cancelWaiting(rt *rapid.T) {
	m := pick(rt, &a.line)
	m.req.Cancel(failure.UserCancel()).WantErr(failure.Cancelled, failure.User)
	require.True(rt, a.table.CancelWaiting(&m.waiter))
	a.settle()
}

func (a *admission) configure(rt *rapid.T) {
	desired := rapid.MapOfN(rapid.SampledFrom(a.pools), rapid.Uint64Range(0, 3), 1, len(a.pools)).Draw(rt, "desired")
	a.h.SetCapacities(desired)
	require.NoError(rt, a.table.ApplyDesired(desired))
	a.settle()
}

func (a *admission) report(rt *rapid.T) {
	pool := rapid.SampledFrom(a.pools).Draw(rt, "pool")
	n := rapid.Uint64Range(0, 3).Draw(rt, "available")
	require.NoError(rt, a.c.PoolHandle(pool).Set(n))
	require.NoError(rt, a.table.SetAvailable(pool, n))
	a.settle()
}

func (a *admission) clear(rt *rapid.T) {
	pool := rapid.SampledFrom(a.pools).Draw(rt, "pool")
	require.NoError(rt, a.c.PoolHandle(pool).Clear())
	require.NoError(rt, a.table.ClearAvailable(pool))
	a.settle()
}

// compare holds the runtime against the model: the same admissions in the same order, the same numbers in every pool.
func (a *admission) compare(rt *rapid.T) {
	synctest.Wait()
	require.Equal(rt, a.order, a.ops.order(), "admissions in order")
	want := a.table.Snapshot()
	got := a.h.Probe().Pools
	require.Equal(rt, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	for name, w := range want {
		g := got[name]
		require.Equal(rt, []uint64{w.Declared, w.Configured, w.Active, w.Queued}, []uint64{g.Declared, g.Configured, g.Active, g.Queued},
			"declared, configured, active, queued of %s", name)
		require.Equal(rt, w.Available, g.Available, "available of %s", name)
	}
	for _, m := range a.line {
		require.NotContains(rt, types(m.req), "log log", "who is in line was not told to go")
	}
}

// end lets everybody go and ends the link.
func (a *admission) end(rt *rapid.T) {
	for len(a.running)+len(a.line) > 0 {
		require.NotEmpty(rt, a.running, "somebody waits and nobody runs")
		m := a.running[0]
		a.running = a.running[1:]
		close(a.ops.gate(m.req.ID()))
		m.req.WantEnd()
		a.ended(rt, m)
	}
	a.h.WantIdle()
	a.h.CloseInput()
	require.NoError(rt, a.h.Wait())
}

func TestAdmissionsMatchTheModel(t *testing.T) {
	t.Run("R-5.55 R-5.17 the same operations give the same admissions in the same order", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			var failed any
			synctest.Test(t, func(t *testing.T) { // rapid cannot live in the bubble, so its way to fail is handed out
				defer func() { failed = recover() }()
				a := newAdmission(t, rt)
				rt.Repeat(map[string]func(*rapid.T){
					"arrive":         a.arrive,
					"arrive again":   a.arrive,
					"finish":         a.finish,
					"cancel running": a.cancelRunning,
					"cancel waiting": a.cancelWaiting,
					"configure":      a.configure,
					"report":         a.report,
					"clear":          a.clear,
					"":               a.compare,
				})
				a.end(rt)
			})
			if failed != nil {
				panic(failed)
			}
		})
	})
}
