package stats

import "sync/atomic"

// Overruns counts live items lost at the capture edge: once for the feed that lost them and once for the whole runtime
// . The zero value is a ready total. Safe for concurrent use; no method blocks.
type Overruns struct {
	n     atomic.Uint64
	whole *Overruns // what this is a part of; nil for a total
}

// Feed returns a counter that starts at zero and whose items also count in o. It may be dropped when the feed has
// ended; o keeps what it counted.
func (o *Overruns) Feed() *Overruns {
	return &Overruns{whole: o}
}

// Add counts n lost items.
func (o *Overruns) Add(n uint64) {
	for ; o != nil; o = o.whole {
		o.n.Add(n)
	}
}

// Total is the number of items lost so far.
func (o *Overruns) Total() uint64 {
	return o.n.Load()
}
