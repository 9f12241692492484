package pools_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/pipe-cartridge/pipe/pools"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is the page in its plainest form: limits, held slots, and one line that is searched from the front.
type model struct {
	chains     map[string][]string
	configured map[string]uint64
	available  map[string]uint64 // absent key: no report
	held       map[string]uint64
	line       []request
	running    []request
}

type request struct {
	id      int
	pattern string
}

func (m *model) limit(pool string) uint64 {
	limit := m.configured[pool]
	if a, ok := m.available[pool]; ok && a != 0 && (limit == 0 || a < limit) {
		limit = a
	}
	return limit
}

func (m *model) full(pool string) bool { return m.limit(pool) != 0 && m.held[pool] >= m.limit(pool) }

func (m *model) room(pattern string) bool {
	return !slices.ContainsFunc(m.chains[pattern], m.full)
}

// nextUp is for one request: the first in line with room.
func (m *model) nextUp() (request, bool) {
	i := slices.IndexFunc(m.line, func(r request) bool { return m.room(r.pattern) })
	if i < 0 {
		return request{}, false
	}
	r := m.line[i]
	m.line = slices.Delete(m.line, i, i+1)
	m.admit(r)
	return r, true
}

func (m *model) admit(r request) {
	for _, pool := range m.chains[r.pattern] {
		m.held[pool]++
	}
	m.running = append(m.running, r)
}

func (m *model) finish(r request) {
	for _, pool := range m.chains[r.pattern] {
		m.held[pool]--
	}
	m.running = slices.DeleteFunc(m.running, func(o request) bool { return o == r })
}

// pair is the table and the model side by side. Each step does the same to both and compares everything.
type pair struct {
	table    *pools.Table
	model    model
	patterns []string
	waiters  map[int]*pools.Waiter
	nextID   int
}

func newPair(t *rapid.T) *pair {
	d := pools.Declarations{Pools: map[string][]string{}, Capacities: map[string]uint64{}}
	p := &pair{waiters: map[int]*pools.Waiter{}}
	for i := range rapid.IntRange(1, 5).Draw(t, "patterns") {
		p.patterns = append(p.patterns, fmt.Sprintf("cap:%c", 'e'-i))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "shared pools") {
		members := rapid.SliceOfNDistinct(rapid.SampledFrom(p.patterns), 1, len(p.patterns), rapid.ID[string]).Draw(t, "members")
		d.Pools[fmt.Sprintf("pool%d", i)] = members
	}
	names := append(append(slices.Sorted(maps.Keys(d.Pools)), p.patterns...), pools.All)
	for _, name := range names {
		if n := rapid.Uint64Range(0, 4).Draw(t, "capacity of "+name); n > 0 {
			d.Capacities[name] = n
		}
	}
	var err error
	p.table, err = pools.NewTable(p.patterns, d)
	require.NoError(t, err)
	p.model = model{
		chains: map[string][]string{}, configured: maps.Clone(d.Capacities),
		available: map[string]uint64{}, held: map[string]uint64{},
	}
	for _, name := range p.patterns {
		p.model.chains[name] = d.Chain(name)
	}
	return p
}

// settle runs on both sides: the same requests in the same order, and each of them the first in the model's line
// with room.
func (p *pair) settle(t *rapid.T) {
	for {
		want, wantOK := p.model.nextUp()
		got, gotOK := p.table.NextUp()
		require.Equal(t, wantOK, gotOK, "somebody can go")
		if !wantOK {
			return
		}
		require.Equal(t, want.id, got.Owner, "admitted next")
	}
}

func (p *pair) arrive(t *rapid.T) {
	index := rapid.IntRange(0, len(p.patterns)-1).Draw(t, "pattern")
	r := request{p.nextID, p.patterns[index]}
	p.nextID++
	p.waiters[r.id] = &pools.Waiter{Owner: r.id}
	room := p.model.room(r.pattern)
	others := slices.ContainsFunc(p.model.line, func(o request) bool { return p.model.room(o.pattern) })
	got, err := p.table.Arrive(index, p.waiters[r.id])
	require.NoError(t, err)
	require.Equal(t, room && !others, got.Admitted, "R-5.54")
	if got.Admitted {
		p.model.admit(r)
		return
	}
	p.model.line = append(p.model.line, r)
	position := 0
	for _, o := range p.model.line {
		if o.pattern == r.pattern {
			position++
		}
	}
	chain := p.model.chains[r.pattern]
	blocking := chain[slices.IndexFunc(chain, p.model.full)]
	require.Equal(t, pools.Arrival{Position: uint64(position), Blocking: blocking}, got)
}

func (p *pair) finish(t *rapid.T) {
	if len(p.model.running) == 0 {
		t.Skip("nobody runs")
	}
	r := rapid.SampledFrom(p.model.running).Draw(t, "who")
	p.model.finish(r)
	require.True(t, p.table.Finish(p.waiters[r.id]))
	require.False(t, p.table.Finish(p.waiters[r.id]), "released twice")
}

func (p *pair) cancel(t *rapid.T) {
	if len(p.model.line) == 0 {
		t.Skip("nobody waits")
	}
	i := rapid.IntRange(0, len(p.model.line)-1).Draw(t, "who")
	r := p.model.line[i]
	p.model.line = slices.Delete(p.model.line, i, i+1)
	require.True(t, p.table.CancelWaiting(p.waiters[r.id]))
}

func (p *pair) poolName(t *rapid.T) string {
	return rapid.SampledFrom(slices.Sorted(maps.Keys(p.table.Snapshot()))).Draw(t, "pool")
}

func (p *pair) configure(t *rapid.T) {
	d := pools.Desired{}
	for range rapid.IntRange(1, 3).Draw(t, "how many") {
		d[p.poolName(t)] = rapid.Uint64Range(0, 5).Draw(t, "configured")
	}
	maps.Copy(p.model.configured, d)
	require.NoError(t, p.table.ApplyDesired(d))
}

func (p *pair) report(t *rapid.T) {
	name := p.poolName(t)
	if rapid.Bool().Draw(t, "clear") {
		delete(p.model.available, name)
		require.NoError(t, p.table.ClearAvailable(name))
		return
	}
	n := rapid.Uint64Range(0, 5).Draw(t, "available")
	p.model.available[name] = n
	require.NoError(t, p.table.SetAvailable(name, n))
}

// check compares all numbers and looks at the invariants.
func (p *pair) check(t *rapid.T) {
	require.Equal(t, uint64(len(p.model.line)), p.table.Waiting())
	states := p.table.Snapshot()
	for name, s := range states {
		require.Equal(t, p.model.held[name], s.Active, "active of %s", name)
		require.Equal(t, p.model.limit(name), s.Effective(), "effective of %s", name)
		var queued uint64
		for _, r := range p.model.line {
			singleton := name == r.pattern
			if singleton || slices.Contains(p.model.chains[r.pattern], name) && p.model.full(name) {
				queued++
			}
		}
		require.Equal(t, queued, s.Queued, "queued of %s", name)
	}
	for _, r := range p.model.line {
		require.False(t, p.model.room(r.pattern), "R-5.53: %d waits although its chain has room", r.id)
		require.True(t, p.waiters[r.id].Waiting())
	}
}

// steps are the operations of the laws, each followed by.
func (p *pair) steps() map[string]func(*rapid.T) {
	settled := func(f func(*rapid.T)) func(*rapid.T) {
		return func(t *rapid.T) {
			f(t)
			p.settle(t)
		}
	}
	return map[string]func(*rapid.T){
		"arrive":    settled(p.arrive),
		"arrive2":   settled(p.arrive), // twice as likely, so that lines grow
		"finish":    settled(p.finish),
		"cancel":    settled(p.cancel),
		"configure": settled(p.configure),
		"report":    settled(p.report),
		"":          p.check,
	}
}

func TestLaws(t *testing.T) {
	t.Run("R-5.50 never over limit", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			p := newPair(t)
			before := p.table.Snapshot()
			steps := p.steps()
			compare := steps[""]
			steps[""] = func(t *rapid.T) {
				compare(t)
				after := p.table.Snapshot()
				for name, s := range after {
					if limit := s.Effective(); limit != 0 && s.Active > limit {
						require.LessOrEqual(t, s.Active, before[name].Active, "%s rose above its limit", name)
					}
				}
				before = after
			}
			t.Repeat(steps)
		})
	})
	t.Run("R-5.51 release undoes admission", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			p := newPair(t)
			t.Repeat(p.steps())
			active := func() map[string]uint64 {
				got := map[string]uint64{}
				for name, s := range p.table.Snapshot() {
					got[name] = s.Active
				}
				return got
			}
			before := active()
			w := &pools.Waiter{}
			a, err := p.table.Arrive(0, w)
			require.NoError(t, err)
			if a.Admitted {
				require.True(t, p.table.Finish(w))
			} else {
				require.True(t, p.table.CancelWaiting(w))
			}
			require.Equal(t, before, active(), "arrive and leave")
			for len(p.model.running) > 0 { // whoever waits is admitted in between and ends as well
				r := p.model.running[0]
				p.model.finish(r)
				require.True(t, p.table.Finish(p.waiters[r.id]))
				p.settle(t)
			}
			require.Zero(t, p.table.Waiting(), "nobody waits for an idle table")
			for name, n := range active() {
				require.Zero(t, n, "active of %s", name)
			}
		})
	})
	t.Run("R-5.52 R-5.53 R-5.54 next up is first, admits whenever possible, arrive admits iff", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { t.Repeat(newPair(t).steps()) })
	})
	t.Run("R-5.13 fetching late changes nothing", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			p := newPair(t)
			steps := p.steps()
			// The model settles at once, the table's holder fetches whenever it likes.
			var late []int
			lazily := func(f func(*rapid.T)) func(*rapid.T) {
				return func(t *rapid.T) {
					f(t)
					for r, ok := p.model.nextUp(); ok; r, ok = p.model.nextUp() {
						late = append(late, r.id)
						require.True(t, p.waiters[r.id].Admitted())
					}
				}
			}
			steps["arrive"], steps["arrive2"] = lazily(p.arrive), lazily(p.arrive)
			steps["configure"], steps["report"], steps["cancel"] = lazily(p.configure), lazily(p.report), lazily(p.cancel)
			delete(steps, "finish")
			steps["fetch"] = func(t *rapid.T) {
				for _, id := range late {
					w, ok := p.table.NextUp()
					require.True(t, ok)
					require.Equal(t, id, w.Owner)
				}
				late = nil
				_, ok := p.table.NextUp()
				require.False(t, ok)
			}
			t.Repeat(steps)
		})
	})
}
