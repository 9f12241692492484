package pools

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Errors of [Table.Arrive]. Both are mistakes of the caller, and neither changes anything.
var (
	ErrNoPattern = errors.New("no pattern has this index")
	ErrInUse     = errors.New("the waiter is in the table already")
)

// Table is the admission model of one runtime: its pools, who holds slots in them, and the line. It is not safe for
// concurrent use: its holder puts one lock around it. No method blocks, and each decision depends on the state only.
//
// Whatever gives room — an end, a raised limit — admits those who can go before the method returns, the earliest first
// so that between two calls nobody in line has room in its whole chain. The holder fetches the admitted
// with [Table.NextUp] until there is none, in the same critical section, and starts them in that order.
type Table struct {
	patterns []*pattern       // in order of registration
	pools    []*pool          // in ascending order of name
	byName   map[string]*pool // the same pools
	all      *pool            // the one that holds every pattern
	index    map[string]int   // of patterns
	line     line
	admitted list // admitted from the line, not yet handed out
}

// pattern is a registered cap URN with the line of its requests.
type pattern struct {
	chain   []*pool // singleton, declared pools in order of name, all
	waiting list
}

// hasRoom reports whether one more request fits into every pool of the chain.
func (p *pattern) hasRoom() bool { return p.blocking() == nil }

// blocking is the first pool of the chain without room, or nil.
func (p *pattern) blocking() *pool {
	for _, l := range p.chain {
		if !l.hasRoom() {
			return l
		}
	}
	return nil
}

// pool has the three numbers of and the count of those who hold a slot.
type pool struct {
	name         string
	declared     uint64
	configured   uint64
	available    uint64
	hasAvailable bool
	limit        uint64 // effective; refreshed with each of the above
	active       uint64
	members      []*pattern
	caps         []string // names of members in the order that is reported; nil for singletons
}

func (p *pool) hasRoom() bool { return p.limit == Unlimited || p.active < p.limit }

func (p *pool) refresh() { p.limit = Effective(p.configured, p.available, p.hasAvailable) }

// NewTable makes the pools of for the patterns, which are canonical URNs in order of registration, each of them once.
// The declarations have to pass [Declarations.Validate].
func NewTable(patterns []string, d Declarations) (*Table, error) {
	if err := d.Validate(patterns); err != nil {
		return nil, err
	}
	t := &Table{
		byName: make(map[string]*pool, len(patterns)+len(d.Pools)+1),
		index:  make(map[string]int, len(patterns)),
	}
	for i, name := range patterns {
		if _, twice := t.index[name]; twice || name == All {
			return nil, fmt.Errorf("pattern %q: a pattern is registered once and is not called %q", name, All)
		}
		t.index[name] = i
		t.patterns = append(t.patterns, &pattern{})
		t.addPool(name, []string{name}, d)
		t.byName[name].caps = nil
	}
	for _, name := range slices.Sorted(maps.Keys(d.Pools)) {
		t.addPool(name, slices.Clone(d.Pools[name]), d)
	}
	t.addPool(All, slices.Sorted(slices.Values(patterns)), d)
	t.all = t.byName[All]
	slices.SortFunc(t.pools, func(a, b *pool) int {
		if a.name < b.name {
			return -1
		}
		return 1 // names differ
	})
	return t, nil
}

// addPool makes a pool and puts it at the end of its members' chains.
func (t *Table) addPool(name string, members []string, d Declarations) {
	p := &pool{name: name, declared: d.Capacities[name], configured: d.Capacities[name], caps: members}
	p.refresh()
	for _, m := range members {
		member := t.patterns[t.index[m]]
		member.chain = append(member.chain, p)
		p.members = append(p.members, member)
	}
	t.pools = append(t.pools, p)
	t.byName[name] = p
}

// Index returns the index of a pattern in the order of registration, for [Table.Arrive].
func (t *Table) Index(pattern string) (int, bool) {
	i, ok := t.index[pattern]
	return i, ok
}

// Waiting is the number of requests in line.
func (t *Table) Waiting() uint64 { return t.line.n }

// Arrival is what became of an arriving request.
type Arrival struct {
	Admitted bool
	// Position is the 1-based place among the waiting requests of the same pattern, and Blocking the first pool of the
	// chain without room; both are zero when the request was admitted.
	Position uint64
	Blocking string
}

// Arrive admits a request for the pattern with this index, or puts it last in line. It is admitted exactly when its chain
// has room and nobody in line could go; nobody can, because all who could have been admitted already; whom
// NextUp still holds was admitted before. An arrival admits nobody else. It allocates nothing.
func (t *Table) Arrive(index int, w *Waiter) (Arrival, error) {
	if index < 0 || index >= len(t.patterns) {
		return Arrival{}, fmt.Errorf("arrival for pattern %d of %d: %w", index, len(t.patterns), ErrNoPattern)
	}
	if w.place != outside {
		return Arrival{}, fmt.Errorf("arrival for pattern %d: %w", index, ErrInUse)
	}
	p := t.patterns[index]
	w.pattern = p
	if full := p.blocking(); full != nil {
		t.line.push(w)
		return Arrival{Position: p.waiting.n, Blocking: full.name}, nil
	}
	hold(w, running)
	return Arrival{Admitted: true}, nil
}

// NextUp hands out the next request that was admitted from the line, in order of admission; nil and false when there is
// none. It holds its slots already.
func (t *Table) NextUp() (*Waiter, bool) {
	w := t.admitted.first
	if w == nil {
		return nil, false
	}
	t.admitted.remove(w)
	w.place = running
	return w, true
}

// Finish gives the slots of an admitted request back and admits who can go now. It reports false, and does nothing, for a
// waiter that holds none: one admission is released once.
func (t *Table) Finish(w *Waiter) bool {
	switch w.place {
	case running:
	case admitted:
		t.admitted.remove(w)
	default:
		return false
	}
	for _, p := range w.pattern.chain {
		p.active--
	}
	w.place, w.pattern = outside, nil
	t.admit()
	return true
}

// CancelWaiting takes a request out of the line. It reports false, and does nothing, when the request is not in line; then
// it was admitted, and its end is told to [Table.Finish]. The time it takes does not depend on the length of the line.
func (t *Table) CancelWaiting(w *Waiter) bool {
	if w.place != waiting {
		return false
	}
	t.line.remove(w) // gives nobody room
	w.place, w.pattern = outside, nil
	return true
}

// ApplyDesired sets the configured capacities of all named pools, or of none when one of the names is unknown; then the
// error is an [*UnknownPoolError] with the first such name in ascending order. A limit below active interrupts
// nobody.
func (t *Table) ApplyDesired(d Desired) error {
	names := slices.Sorted(maps.Keys(d))
	for _, name := range names {
		if t.byName[name] == nil {
			return &UnknownPoolError{name}
		}
	}
	for _, name := range names {
		p := t.byName[name]
		p.configured = d[name]
		p.refresh()
	}
	t.admit()
	return nil
}

// SetAvailable sets what the cartridge says it can serve in the named pool, and nothing else. 0 is no bound. An
// unknown name is an [*UnknownPoolError].
func (t *Table) SetAvailable(name string, n uint64) error { return t.report(name, n, true) }

// ClearAvailable takes the self-report of the named pool back: it is absent again. An unknown name is an
// [*UnknownPoolError].
func (t *Table) ClearAvailable(name string) error { return t.report(name, 0, false) }

func (t *Table) report(name string, n uint64, present bool) error {
	p := t.byName[name]
	if p == nil {
		return &UnknownPoolError{name}
	}
	p.available, p.hasAvailable = n, present
	p.refresh()
	t.admit()
	return nil
}

// Snapshot returns the states of all pools. The caller may keep it; its Caps slices are shared and must not be changed.
func (t *Table) Snapshot() States {
	states := make(States, len(t.pools))
	for _, p := range t.pools {
		s := State{Declared: p.declared, Configured: p.configured, Active: p.active, Queued: p.queued(), Caps: p.caps}
		if p.hasAvailable {
			n := p.available
			s.Available = &n
		}
		states[p.name] = s
	}
	return states
}

// queued counts who waits because of this pool: a singleton everybody in its line, another pool its members'
// waiters while it is full.
func (p *pool) queued() uint64 {
	if p.caps != nil && p.hasRoom() {
		return 0
	}
	var n uint64
	for _, m := range p.members {
		n += m.waiting.n
	}
	return n
}

// admit lets go who can, the earliest first. Looking again from the front after each of them would find the same ones:
// an admission only takes room away, so whoever was passed over still cannot go. That makes one walk over the first
// waiters of the patterns enough.
func (t *Table) admit() {
	for i := 0; i < len(t.line.fronts) && t.all.hasRoom(); {
		t.line.looks++
		p := t.line.fronts[i]
		if !p.hasRoom() {
			i++
			continue
		}
		w := p.waiting.first
		t.line.remove(w) // moves p behind, or out: another pattern is at i now, or p again with its next waiter
		hold(w, admitted)
		t.admitted.push(w)
	}
}

// hold takes one slot in every pool of the chain, which the caller has found to have room.
func hold(w *Waiter, how place) {
	for _, p := range w.pattern.chain {
		p.active++
	}
	w.place = how
}
