package bifaci_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
	"github.com/pipe-cartridge/pipe/pools"
)

// poolNamed is a cap URN as its pool is named.
func poolNamed(capURN string) string { return urn.MustCap(capURN).String() }

// pooled declares shared pools by the names of their caps, and capacities.
func pooled(shared map[string][]string, capacities map[string]uint64) func(*manifest.Manifest) {
	d := pools.Declarations{Pools: map[string][]string{}, Capacities: capacities}
	for pool, names := range shared {
		for _, n := range names {
			d.Pools[pool] = append(d.Pools[pool], capNamed(n))
		}
	}
	return func(m *manifest.Manifest) { m.Pools = d }
}

// running lists, in order of arrival, which of the requests have started their output, when everybody waits.
func running(requests ...*cartridgetest.Request) (started []bool) {
	synctest.Wait()
	for _, r := range requests {
		started = append(started, strings.Contains(types(r), "stream_start"))
	}
	return started
}

// starter starts its output and then waits to be released, or for its context.
type starter struct{ release chan struct{} }

func newStarter() *starter { return &starter{make(chan struct{})} }

func (s *starter) handle(ctx context.Context, r *bifaci.Request) error {
	if err := r.Output().Start(); err != nil {
		return err
	}
	select {
	case <-s.release:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// one lets one handler return.
func (s *starter) one() { s.release <- struct{}{} }

func TestPoolsOfACartridge(t *testing.T) {
	const one, two = "one", "two"
	virtual(t, "R-5.1 R-5.40 R-5.43 every pattern, every declared pool, and all", func(t *testing.T) {
		s := newStarter()
		declare := pooled(map[string][]string{"gpu": {two, one}}, map[string]uint64{"gpu": 2, capNamed(one): 1})
		h := cartridgetest.Start(t, cartridgeOf(t, declare, nil, served{one, s.handle}, served{two, s.handle}))
		raw, ok := h.Hello().Meta()["pools"].([]byte)
		require.True(t, ok, "JSON bytes in a CBOR byte string")
		standard := []string{"cap:effect=none", "cap:out=media:void", `cap:in="media:";out="media:adapter-selection;fmt=json;record"`}
		single, all := map[string]bool{}, []string{}
		for _, c := range append(standard, capNamed(one), capNamed(two)) {
			single[poolNamed(c)] = true
			all = append(all, poolNamed(c))
		}
		slices.Sort(all)
		var states map[string]map[string]any
		require.NoError(t, json.Unmarshal(raw, &states))
		require.Len(t, states, len(single)+2)
		for name, state := range states {
			for _, member := range []string{"declared", "configured", "active", "queued"} {
				assert.Contains(t, state, member, "of %s", name)
			}
			assert.NotContains(t, state, "available", "of %s", name)
			if single[name] {
				assert.NotContains(t, state, "caps", "of the singleton %s", name)
			}
		}
		assert.EqualValues(t, 1, states[poolNamed(capNamed(one))]["declared"])
		assert.EqualValues(t, 2, states["gpu"]["declared"])
		assert.EqualValues(t, 0, states["all"]["declared"])
		assert.Equal(t, []any{poolNamed(capNamed(two)), poolNamed(capNamed(one))}, states["gpu"]["caps"], "in the order of the declaration")
		assert.EqualValues(t, all, textList(states["all"]["caps"]), "sorted")
		assert.True(t, slices.IsSorted(keysInOrder(t, raw)), "keys are sorted: %s", raw)

		first, second := h.Request(capNamed(one)), h.Request(capNamed(one))
		require.Equal(t, []bool{true, false}, running(first, second))
		p := h.Probe().Pools
		assert.EqualValues(t, 1, p["gpu"].Active)
		assert.EqualValues(t, 1, p["all"].Active)
		assert.EqualValues(t, 1, p[poolNamed(capNamed(one))].Active)
		s.one()
		s.one()
		first.WantEnd()
		second.WantEnd()
	})
	virtual(t, "R-5.42 who counts whom as waiting", func(t *testing.T) {
		s := newStarter()
		declare := pooled(map[string][]string{"gpu": {one, two}, "wide": {one, two}}, map[string]uint64{"gpu": 1, "wide": 9})
		h := cartridgetest.Start(t, cartridgeOf(t, declare, nil, served{one, s.handle}, served{two, s.handle}))
		for _, name := range []string{one, one, two, two} {
			h.Request(capNamed(name))
		}
		p := h.Probe().Pools
		assert.EqualValues(t, 1, p[poolNamed(capNamed(one))].Queued, "its own pattern's")
		assert.EqualValues(t, 2, p[poolNamed(capNamed(two))].Queued)
		assert.EqualValues(t, 3, p["gpu"].Queued, "a full pool counts everybody who needs it")
		assert.EqualValues(t, 0, p["wide"].Queued, "a pool with room counts nobody")
		assert.EqualValues(t, 0, p["all"].Queued)
		for range 4 {
			s.one()
			synctest.Wait()
		}
		h.WantIdle()
	})
	virtual(t, "R-5.41 available 0 is not the same as none", func(t *testing.T) {
		c := cartridgeOf(t, nil, nil, served{one, newStarter().handle})
		h := cartridgetest.Start(t, c)
		require.Nil(t, h.Probe().Pools["all"].Available)
		require.NoError(t, c.PoolHandle("all").Set(0))
		require.NotNil(t, h.Probe().Pools["all"].Available)
		assert.Zero(t, *h.Probe().Pools["all"].Available)
		require.NoError(t, c.PoolHandle("all").Clear())
		require.Nil(t, h.Probe().Pools["all"].Available)
	})
}

func textList(v any) (s []string) {
	list, _ := v.([]any)
	for _, e := range list {
		s = append(s, fmt.Sprint(e))
	}
	return s
}

// keysInOrder are the keys of a JSON object as they stand there.
func keysInOrder(t *testing.T, raw []byte) (keys []string) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	_, err := dec.Token()
	require.NoError(t, err)
	for dec.More() {
		key, err := dec.Token()
		require.NoError(t, err)
		keys = append(keys, key.(string))
		var value any
		require.NoError(t, dec.Decode(&value))
	}
	return keys
}

func TestQueueNotices(t *testing.T) {
	const one, two = "one", "two"
	virtual(t, "R-5.30 R-5.31 queued names the position within the cap and the first full pool of the chain", func(t *testing.T) {
		s := newStarter()
		declare := pooled(map[string][]string{"gpu": {one, two}}, map[string]uint64{"gpu": 2, capNamed(one): 1})
		h := cartridgetest.Start(t, cartridgeOf(t, declare, nil, served{one, s.handle}, served{two, s.handle}))
		direct := []*cartridgetest.Request{h.Request(capNamed(one)), h.Request(capNamed(two))}
		synctest.Wait()
		for _, want := range []struct {
			name     string
			position uint64
			pool     string
		}{{one, 1, poolNamed(capNamed(one))}, {two, 1, "gpu"}, {one, 2, poolNamed(capNamed(one))}, {two, 2, "gpu"}} {
			m := h.Request(capNamed(want.name)).WantLog("queued")
			assert.Equal(t, "internal", m["attribution_class"])
			assert.Equal(t, want.position, m["queue_position"])
			assert.Equal(t, want.pool, m["blocking_pool"])
			assert.Contains(t, m["message"], fmt.Sprintf("position %d", want.position))
			assert.Contains(t, m["message"], want.pool)
		}
		for _, r := range direct {
			assert.NotContains(t, settled(r), "log", "R-5.32 who is admitted at once gets no notice")
		}
		for range 6 {
			s.one()
			synctest.Wait()
		}
		h.WantIdle()
	})
	virtual(t, "R-5.32 dequeued goes before every other frame of the handler's", func(t *testing.T) {
		s := newStarter()
		h := cartridgetest.Start(t, cartridgeOf(t, bounded(map[string]uint64{"all": 1}), nil, served{one, s.handle}))
		h.Request(capNamed(one))
		waiting := h.Request(capNamed(one))
		require.Equal(t, "log", settled(waiting))
		s.one()
		require.Equal(t, "log log stream_start", settled(waiting))
		waiting.WantLog("queued")
		m := waiting.WantLog("dequeued")
		assert.Equal(t, "internal", m["attribution_class"])
		s.one()
		waiting.WantEnd()
	})
}

func TestSlotsAreFreed(t *testing.T) {
	for name, c := range map[string]struct {
		handle bifaci.Handler
		end    func(*cartridgetest.Request)
		err    bool
	}{
		"success":  {handle: func(context.Context, *bifaci.Request) error { return nil }},
		"an error": {handle: func(context.Context, *bifaci.Request) error { return errors.New("no") }, err: true},
		"a panic":  {handle: func(context.Context, *bifaci.Request) error { panic("no") }, err: true},
		"a cancel": {handle: waits, end: func(r *cartridgetest.Request) { r.Cancel(failure.UserCancel()) }, err: true},
		"a violation": {handle: waits, end: func(r *cartridgetest.Request) {
			r.Send(cartridgetest.ChunkFrame("never started", 0, cartridgetest.Bytes("x")))
		}, err: true},
	} {
		virtual(t, "R-5.15 after "+name+" the slot is free once, behind the terminal", func(t *testing.T) {
			hold, s := make(chan struct{}), newStarter()
			first := true
			h := cartridgetest.Start(t, cartridgeOf(t, bounded(map[string]uint64{"all": 1}), nil, served{"one", func(ctx context.Context, r *bifaci.Request) error {
				if !first {
					return s.handle(ctx, r)
				}
				first = false
				if c.end == nil {
					<-hold
				}
				return c.handle(ctx, r)
			}}))
			front := h.Request(capNamed("one"))
			synctest.Wait()
			next, last := h.Request(capNamed("one")), h.Request(capNamed("one"))
			require.Equal(t, []bool{false, false}, running(next, last))
			if c.end != nil {
				c.end(front)
			}
			close(hold)
			require.Equal(t, []bool{true, false}, running(next, last), "one slot, one request")
			require.NotNil(t, front.Terminal())
			assert.Equal(t, c.err, front.Terminal().Type() == frame.TypeErr)
			trace := h.Check().Trace()
			terminal := slices.IndexFunc(trace, func(l string) bool {
				return strings.Contains(l, "→host end ") || strings.Contains(l, "→host err ")
			})
			admitted := slices.IndexFunc(trace, func(l string) bool { return strings.Contains(l, "dequeued") })
			require.True(t, terminal >= 0 && terminal < admitted, "terminal at %d, dequeued at %d of\n%s", terminal, admitted, strings.Join(trace, "\n"))
			s.one()
			s.one()
			h.WantIdle()
		})
	}
}

// waits waits for the end of its context.
func waits(ctx context.Context, _ *bifaci.Request) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestCapacityChanges(t *testing.T) {
	virtual(t, "R-5.16 R-5.20 a raise admits at once, a lower limit interrupts nobody", func(t *testing.T) {
		s := newStarter()
		h := cartridgetest.Start(t, cartridgeOf(t, bounded(map[string]uint64{"all": 1}), nil, served{"one", s.handle}))
		var r []*cartridgetest.Request
		for range 4 {
			r = append(r, h.Request(capNamed("one")))
		}
		require.Equal(t, []bool{true, false, false, false}, running(r...))
		h.SetCapacities(map[string]uint64{"all": 3})
		require.Equal(t, []bool{true, true, true, false}, running(r...))
		h.SetCapacities(map[string]uint64{"all": 1})
		require.Equal(t, []bool{true, true, true, false}, running(r...))
		s.one()
		s.one()
		require.Equal(t, []bool{true, true, true, false}, running(r...), "still at the limit")
		s.one()
		require.Equal(t, []bool{true, true, true, true}, running(r...))
		s.one()
		h.WantIdle()
	})
	virtual(t, "R-5.21 R-5.23 a report of more room starts who waits, without a frame of the host's", func(t *testing.T) {
		s := newStarter()
		c := cartridgeOf(t, nil, nil, served{"one", s.handle})
		handle := c.PoolHandle("all") // made before the start
		h := cartridgetest.Start(t, c)
		require.NoError(t, handle.Set(1))
		first, second := h.Request(capNamed("one")), h.Request(capNamed("one"))
		require.Equal(t, []bool{true, false}, running(first, second))
		sent := h.Unread()
		require.NoError(t, handle.Set(2))
		require.Equal(t, []bool{true, true}, running(first, second))
		assert.Equal(t, sent, h.Unread())
		p := h.Probe().Pools["all"]
		assert.EqualValues(t, 0, p.Declared, "Set writes available only")
		assert.EqualValues(t, 0, p.Configured)
		assert.EqualValues(t, 2, *p.Available)
		s.one()
		s.one()
		h.WantIdle()
	})
	virtual(t, "R-5.25 0 is no bound, and Clear takes a report back", func(t *testing.T) {
		s := newStarter()
		c := cartridgeOf(t, nil, nil, served{"one", s.handle})
		h := cartridgetest.Start(t, c)
		handle := c.PoolHandle("all")
		for name, lift := range map[string]func() error{"Set(0)": func() error { return handle.Set(0) }, "Clear": handle.Clear} {
			require.NoError(t, handle.Set(1))
			first, second := h.Request(capNamed("one")), h.Request(capNamed("one"))
			require.Equal(t, []bool{true, false}, running(first, second), name)
			require.NoError(t, lift())
			require.Equal(t, []bool{true, true}, running(first, second), name)
			s.one()
			s.one()
		}
		h.WantIdle()
	})
	virtual(t, "R-5.22 what Set refuses", func(t *testing.T) {
		c := cartridgeOf(t, nil, nil, served{"one", newStarter().handle})
		require.ErrorIs(t, c.PoolHandle("all").Set(1), bifaci.ErrNotRunning)
		require.ErrorIs(t, c.PoolHandle("all").Clear(), bifaci.ErrNotRunning)
		h := cartridgetest.Start(t, c)
		for _, name := range []string{"gpu", capNamed("two"), ""} {
			var unknown *pools.UnknownPoolError
			require.ErrorAs(t, c.PoolHandle(name).Set(1), &unknown)
			assert.Equal(t, poolNameOf(name), unknown.Name)
		}
		require.NoError(t, c.PoolHandle(`cap:one;out="media:";in="media:"`).Set(3), "any spelling of a cap URN")
		assert.EqualValues(t, 3, *h.Probe().Pools[poolNamed(capNamed("one"))].Available)
		h.CloseInput()
		require.NoError(t, h.Wait())
		require.ErrorIs(t, c.PoolHandle("all").Set(1), bifaci.ErrNotRunning)
	})
	virtual(t, "R-5.24 Set waits for nothing, from any number of goroutines, while the host reads nothing", func(t *testing.T) {
		var c *bifaci.Cartridge
		c = cartridgeOf(t, nil, nil, served{"one", func(ctx context.Context, r *bifaci.Request) error {
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					for k := range 500 {
						if err := c.PoolHandle("all").Set(uint64(1 + (i+k)%5)); err != nil {
							panic(err)
						}
					}
				})
			}
			all.Wait()
			return nil
		}})
		h := cartridgetest.Start(t, c)
		h.HoldOutput(true)
		var r []*cartridgetest.Request
		for range 6 {
			r = append(r, h.Request(capNamed("one")))
		}
		synctest.Wait()
		require.NoError(t, c.PoolHandle("all").Clear())
		synctest.Wait()
		h.HoldOutput(false)
		for _, one := range r {
			one.WantEnd()
		}
		h.WantIdle()
	})
}

// poolNameOf is the canonical form of a name that is a cap URN, and the name otherwise.
func poolNameOf(name string) string {
	if c, err := urn.ParseCap(name); err == nil {
		return c.String()
	}
	return name
}
