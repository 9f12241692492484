package pools_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/pipe-cartridge/pipe/pools"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rig drives a table with requests that have names, and writes down who was admitted, in order.
type rig struct {
	t        *testing.T
	table    *pools.Table
	requests map[string]*pools.Waiter
	started  []string // since the last look
}

func newRig(t *testing.T, patterns []string, d pools.Declarations) *rig {
	t.Helper()
	table, err := pools.NewTable(patterns, d)
	require.NoError(t, err)
	return &rig{t: t, table: table, requests: map[string]*pools.Waiter{}}
}

// fetch does what a runtime does after each change.
func (r *rig) fetch() {
	for w, ok := r.table.NextUp(); ok; w, ok = r.table.NextUp() {
		r.started = append(r.started, w.Owner.(string))
	}
}

func (r *rig) arrive(pattern, name string) pools.Arrival {
	r.t.Helper()
	i, ok := r.table.Index(pattern)
	require.True(r.t, ok, "pattern %s", pattern)
	r.requests[name] = &pools.Waiter{Owner: name}
	a, err := r.table.Arrive(i, r.requests[name])
	require.NoError(r.t, err)
	r.fetch()
	if a.Admitted {
		r.started = append(r.started, name)
	}
	return a
}

func (r *rig) finish(name string) {
	r.t.Helper()
	require.True(r.t, r.table.Finish(r.requests[name]), "%s holds no slot", name)
	r.fetch()
}

func (r *rig) configure(d pools.Desired) {
	r.t.Helper()
	require.NoError(r.t, r.table.ApplyDesired(d))
	r.fetch()
}

func (r *rig) available(name string, n uint64) {
	r.t.Helper()
	require.NoError(r.t, r.table.SetAvailable(name, n))
	r.fetch()
}

// wantStarted compares who was admitted since the last look.
func (r *rig) wantStarted(names ...string) {
	r.t.Helper()
	assert.Equal(r.t, names, r.started, "admitted, in order")
	r.started = nil
}

func (r *rig) wantActive(want map[string]uint64) {
	r.t.Helper()
	got := map[string]uint64{}
	for name, s := range r.table.Snapshot() {
		if s.Active > 0 {
			got[name] = s.Active
		}
	}
	assert.Equal(r.t, want, got, "active")
}

var twoCaps = []string{"cap:b", "cap:a"}

// gpu is a shared pool of both caps with one slot.
func gpu() pools.Declarations {
	return pools.Declarations{
		Pools:      map[string][]string{"gpu": {"cap:b", "cap:a"}},
		Capacities: map[string]uint64{"gpu": 1, pools.All: 8},
	}
}

func TestPoolsOfATable(t *testing.T) {
	t.Run("R-5.1 a singleton per pattern, the declared pools, all", func(t *testing.T) {
		names := slices.Sorted(maps.Keys(newRig(t, twoCaps, gpu()).table.Snapshot()))
		assert.Equal(t, []string{"all", "cap:a", "cap:b", "gpu"}, names)
	})
	t.Run("R-5.2 configured starts as declared and available is absent", func(t *testing.T) {
		s := newRig(t, twoCaps, gpu()).table.Snapshot()["gpu"]
		assert.Equal(t, pools.State{Declared: 1, Configured: 1, Caps: []string{"cap:b", "cap:a"}}, s)
	})
	t.Run("R-5.5 chain is singleton, declared pools by name, all", func(t *testing.T) {
		d := pools.Declarations{Pools: map[string][]string{
			"z": {"cap:a"}, "m": {"cap:b", "cap:a"}, "b": {"cap:a"}, "other": {"cap:b"},
		}}
		assert.Equal(t, []string{"cap:a", "b", "m", "z", "all"}, d.Chain("cap:a"))
		// The table follows the same order: the first pool without room is the one that is named.
		r := newRig(t, twoCaps, d)
		r.configure(pools.Desired{"all": 1, "z": 1, "m": 1, "b": 1, "cap:a": 1})
		r.arrive("cap:a", "holder")
		for i, name := range d.Chain("cap:a") {
			assert.Equal(t, name, r.arrive("cap:a", fmt.Sprint(i)).Blocking)
			r.configure(pools.Desired{name: 0})
		}
	})
}

func TestEffective(t *testing.T) {
	t.Run("R-5.3 smaller of the two, 0 and absent as infinity", func(t *testing.T) {
		for _, c := range []struct {
			configured, available uint64
			present               bool
			want                  uint64
		}{
			{0, 0, false, 0}, {4, 0, false, 4}, {4, 0, true, 4}, {0, 2, true, 2}, {4, 1, true, 1}, {1, 4, true, 1}, {0, 0, true, 0},
		} {
			assert.Equal(t, c.want, pools.Effective(c.configured, c.available, c.present), "%+v", c)
			s := pools.State{Configured: c.configured}
			if c.present {
				s.Available = &c.available
			}
			assert.Equal(t, c.want, s.Effective(), "state of %+v", c)
		}
	})
	t.Run("R-5.4 room when unlimited or active below effective", func(t *testing.T) {
		r := newRig(t, []string{"cap:a"}, pools.Declarations{Capacities: map[string]uint64{"cap:a": 2}})
		assert.True(t, r.arrive("cap:a", "1").Admitted)
		assert.True(t, r.arrive("cap:a", "2").Admitted)
		assert.False(t, r.arrive("cap:a", "3").Admitted)
		r.configure(pools.Desired{"cap:a": pools.Unlimited})
		r.wantStarted("1", "2", "3")
		assert.True(t, r.arrive("cap:a", "4").Admitted)
	})
}

func TestAdmission(t *testing.T) {
	t.Run("R-5.10 every pool of the chain or none", func(t *testing.T) {
		r := newRig(t, twoCaps, gpu())
		r.arrive("cap:a", "1")
		r.wantActive(map[string]uint64{"cap:a": 1, "gpu": 1, "all": 1})
		r.arrive("cap:b", "2") // its singleton and all have room, gpu has not
		r.wantActive(map[string]uint64{"cap:a": 1, "gpu": 1, "all": 1})
	})
	t.Run("R-5.11 one line in arrival order over all caps", func(t *testing.T) {
		r := newRig(t, twoCaps, gpu())
		for i, pattern := range []string{"cap:a", "cap:b", "cap:b", "cap:a", "cap:b", "cap:a"} {
			r.arrive(pattern, fmt.Sprint(i))
		}
		for i := range 5 {
			r.finish(fmt.Sprint(i))
		}
		r.wantStarted("0", "1", "2", "3", "4", "5")
	})
	t.Run("R-5.12 whoever can go goes, the earliest first", func(t *testing.T) {
		r := newRig(t, twoCaps, pools.Declarations{Capacities: map[string]uint64{"all": 1, "cap:a": 2}})
		r.arrive("cap:a", "a1")
		for _, name := range []string{"a2", "a3", "b1", "a4", "b2"} {
			r.arrive("cap:"+name[:1], name)
		}
		r.configure(pools.Desired{"all": 0})
		r.wantStarted("a1", "a2", "b1", "b2")
		r.finish("a2")
		r.wantStarted("a3")
	})
	t.Run("R-5.13 an arrival does not overtake whom a report has made free", func(t *testing.T) {
		r := newRig(t, []string{"cap:a"}, pools.Declarations{Capacities: map[string]uint64{"cap:a": 1}})
		r.arrive("cap:a", "1")
		r.arrive("cap:a", "2")
		require.NoError(t, r.table.ApplyDesired(pools.Desired{"cap:a": 2})) // and nobody has fetched yet
		assert.False(t, r.arrive("cap:a", "3").Admitted)
		r.wantStarted("1", "2")
	})
	t.Run("R-5.14 a later request of a cap with room starts while an earlier one waits", func(t *testing.T) {
		r := newRig(t, twoCaps, pools.Declarations{Capacities: map[string]uint64{"cap:a": 1}})
		r.arrive("cap:a", "a1")
		r.arrive("cap:a", "a2")
		assert.True(t, r.arrive("cap:b", "b1").Admitted)
	})
	t.Run("R-5.15 one release per admission", func(t *testing.T) {
		r := newRig(t, twoCaps, gpu())
		r.arrive("cap:a", "1")
		r.arrive("cap:a", "2")
		assert.False(t, r.table.Finish(r.requests["2"]), "a waiting request holds nothing")
		r.finish("1")
		assert.False(t, r.table.Finish(r.requests["1"]), "released already")
		assert.False(t, r.table.Finish(&pools.Waiter{}), "never arrived")
		r.wantActive(map[string]uint64{"cap:a": 1, "gpu": 1, "all": 1})
		r.finish("2")
		r.wantActive(map[string]uint64{})
	})
	t.Run("R-5.15 an admission that nobody fetched can be released", func(t *testing.T) {
		r := newRig(t, twoCaps, gpu())
		r.arrive("cap:a", "1")
		r.arrive("cap:a", "2")
		r.arrive("cap:a", "3")
		require.True(t, r.table.Finish(r.requests["1"]))
		require.True(t, r.requests["2"].Admitted())
		require.True(t, r.table.Finish(r.requests["2"]))
		r.fetch()
		r.wantStarted("1", "3")
	})
	t.Run("R-5.16 raising admits at once, lowering interrupts nobody", func(t *testing.T) {
		r := newRig(t, []string{"cap:a"}, pools.Declarations{Capacities: map[string]uint64{"cap:a": 1}})
		r.arrive("cap:a", "1")
		r.arrive("cap:a", "2")
		r.arrive("cap:a", "3")
		r.configure(pools.Desired{"cap:a": 3})
		r.wantStarted("1", "2", "3")
		r.configure(pools.Desired{"cap:a": 1})
		r.wantActive(map[string]uint64{"cap:a": 3, "all": 3})
		r.arrive("cap:a", "4")
		r.finish("1")
		r.finish("2")
		r.wantStarted()
		r.finish("3")
		r.wantStarted("4")
	})
	t.Run("R-5.30 position among the same cap and the first full pool", func(t *testing.T) {
		r := newRig(t, twoCaps, gpu())
		r.arrive("cap:a", "a1")
		assert.Equal(t, pools.Arrival{Position: 1, Blocking: "gpu"}, r.arrive("cap:a", "a2"))
		assert.Equal(t, pools.Arrival{Position: 1, Blocking: "gpu"}, r.arrive("cap:b", "b1"))
		assert.Equal(t, pools.Arrival{Position: 2, Blocking: "gpu"}, r.arrive("cap:a", "a3"))
		r.configure(pools.Desired{"cap:a": 1})
		assert.Equal(t, pools.Arrival{Position: 3, Blocking: "cap:a"}, r.arrive("cap:a", "a4"))
	})
}

func TestCancelWaiting(t *testing.T) {
	for _, gone := range [][]string{{"2"}, {"3"}, {"5"}, {"2", "3"}, {"4", "2"}, {"2", "3", "4", "5"}} {
		t.Run(fmt.Sprint("those who leave the line are passed over ", gone), func(t *testing.T) {
			r := newRig(t, twoCaps, gpu())
			order := []string{"1", "2", "3", "4", "5"}
			for i, name := range order {
				r.arrive([]string{"cap:a", "cap:b"}[i/2%2], name) // a a b b a
			}
			r.started = nil
			for _, name := range gone {
				assert.True(t, r.table.CancelWaiting(r.requests[name]))
				assert.False(t, r.table.CancelWaiting(r.requests[name]), "twice")
			}
			r.finish("1")
			var want []string
			for _, name := range order[1:] {
				if !slices.Contains(gone, name) {
					want = append(want, name)
					r.finish(name)
				}
			}
			r.wantStarted(want...)
			assert.Zero(t, r.table.Waiting())
			r.wantActive(map[string]uint64{})
		})
	}
	t.Run("an admitted request is not in line", func(t *testing.T) {
		r := newRig(t, twoCaps, gpu())
		r.arrive("cap:a", "1")
		assert.False(t, r.table.CancelWaiting(r.requests["1"]))
		r.wantActive(map[string]uint64{"cap:a": 1, "gpu": 1, "all": 1})
	})
}

func TestArriveRefuses(t *testing.T) {
	r := newRig(t, twoCaps, gpu())
	for _, index := range []int{-1, 2} {
		_, err := r.table.Arrive(index, &pools.Waiter{})
		assert.ErrorIs(t, err, pools.ErrNoPattern)
	}
	r.arrive("cap:a", "runs")
	r.arrive("cap:a", "waits")
	for _, name := range []string{"runs", "waits"} {
		_, err := r.table.Arrive(0, r.requests[name])
		assert.ErrorIs(t, err, pools.ErrInUse, name)
	}
	assert.Equal(t, uint64(1), r.table.Waiting())
	r.finish("runs")
	_, err := r.table.Arrive(0, r.requests["runs"])
	assert.NoError(t, err, "a finished waiter may arrive again")
}

func TestLimits(t *testing.T) {
	t.Run("R-5.20 all names known or nothing is applied", func(t *testing.T) {
		r := newRig(t, twoCaps, gpu())
		err := r.table.ApplyDesired(pools.Desired{"gpu": 5, "tpu": 1, "zpu": 1})
		var unknown *pools.UnknownPoolError
		require.ErrorAs(t, err, &unknown)
		assert.Equal(t, "tpu", unknown.Name)
		assert.EqualError(t, err, "unknown pool 'tpu'")
		assert.Equal(t, uint64(1), r.table.Snapshot()["gpu"].Configured)
		r.configure(pools.Desired{"gpu": 5, "cap:a": 0, pools.All: 8})
		s := r.table.Snapshot()
		assert.Equal(t, uint64(5), s["gpu"].Configured)
		assert.Equal(t, uint64(1), s["gpu"].Declared)
	})
	t.Run("R-5.21 a report writes available only", func(t *testing.T) {
		r := newRig(t, twoCaps, gpu())
		r.available("gpu", 3)
		s := r.table.Snapshot()["gpu"]
		require.NotNil(t, s.Available)
		assert.Equal(t, uint64(3), *s.Available)
		assert.Equal(t, uint64(1), s.Declared)
		assert.Equal(t, uint64(1), s.Configured)
	})
	t.Run("R-5.22 an unknown pool is named", func(t *testing.T) {
		r := newRig(t, twoCaps, gpu())
		for _, err := range []error{r.table.SetAvailable("tpu", 1), r.table.ClearAvailable("tpu")} {
			assert.EqualError(t, err, "unknown pool 'tpu'")
		}
	})
	t.Run("R-5.23 a report that gives room admits", func(t *testing.T) {
		r := newRig(t, []string{"cap:a"}, pools.Declarations{})
		r.available("cap:a", 1)
		r.arrive("cap:a", "1")
		r.arrive("cap:a", "2")
		r.wantStarted("1")
		r.available("cap:a", 2)
		r.wantStarted("2")
	})
	t.Run("R-5.25 0 is unlimited and a cleared report is absent", func(t *testing.T) {
		r := newRig(t, []string{"cap:a"}, pools.Declarations{Capacities: map[string]uint64{"cap:a": 2}})
		r.available("cap:a", 1)
		r.arrive("cap:a", "1")
		r.arrive("cap:a", "2")
		r.available("cap:a", 0)
		r.wantStarted("1", "2")
		r.available("cap:a", 1)
		r.finish("1")
		r.arrive("cap:a", "3")
		r.wantStarted()
		require.NoError(t, r.table.ClearAvailable("cap:a"))
		r.fetch()
		r.wantStarted("3")
		assert.Nil(t, r.table.Snapshot()["cap:a"].Available)
	})
}

func TestQueuedCounts(t *testing.T) {
	t.Run("R-5.42 a singleton its line, another pool whom it blocks", func(t *testing.T) {
		d := gpu()
		d.Pools["cpu"] = []string{"cap:a"}
		r := newRig(t, twoCaps, d)
		queued := func() map[string]uint64 {
			got := map[string]uint64{}
			for name, s := range r.table.Snapshot() {
				got[name] = s.Queued
			}
			return got
		}
		r.arrive("cap:a", "1")
		for i, pattern := range []string{"cap:a", "cap:b", "cap:a"} {
			r.arrive(pattern, fmt.Sprint("w", i))
		}
		assert.Equal(t, map[string]uint64{"cap:a": 2, "cap:b": 1, "gpu": 3, "cpu": 0, "all": 0}, queued(), "gpu is full")
		r.configure(pools.Desired{"all": 1, "gpu": 0})
		assert.Equal(t, map[string]uint64{"cap:a": 2, "cap:b": 1, "gpu": 0, "cpu": 0, "all": 3}, queued(), "all is full")
		r.configure(pools.Desired{"cpu": 1})
		assert.Equal(t, map[string]uint64{"cap:a": 2, "cap:b": 1, "gpu": 0, "cpu": 2, "all": 3}, queued(), "cpu is full too")
	})
}
