package pools

import "slices"

// Waiter is one request in the model: waiting, admitted, or neither. The zero value is neither; a request embeds one and
// hands its address to [Table.Arrive]. From there until [Table.Finish] or [Table.CancelWaiting] it belongs to the table:
// do not copy it. Afterwards it may arrive again. Only the holder of the table's lock may touch it.
type Waiter struct {
	// Owner is the caller's own value, for the way back from a waiter to its request. The table never looks at it.
	Owner any

	pattern    *pattern
	prev, next *Waiter // neighbours in the pattern's line while waiting, in the table's admitted list before NextUp
	arrival    uint64  // place in the one line of the table; greater is later
	place      place
}

// place says where a waiter is.
type place uint8

const (
	outside  place = iota // not in the table
	waiting               // in its pattern's line
	admitted              // holds its slots, NextUp has not handed it out
	running               // holds its slots, and the caller knows
)

// Waiting reports whether the request stands in line.
func (w *Waiter) Waiting() bool { return w.place == waiting }

// Admitted reports whether the request holds its slots.
func (w *Waiter) Admitted() bool { return w.place == admitted || w.place == running }

// list is a doubly linked list of waiters, oldest first. A waiter is in one list at most.
type list struct {
	first, last *Waiter
	n           uint64
}

func (l *list) push(w *Waiter) {
	w.prev, w.next = l.last, nil
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	l.n++
}

func (l *list) remove(w *Waiter) {
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	l.n--
}

// line is the one line of the table, cut by pattern. All requests of a pattern need the same pools, so when the first of
// them cannot go none of them can, and only first ones are ever looked at.
type line struct {
	fronts []*pattern // the patterns with somebody waiting, in order of their first waiter
	n      uint64     // waiters in total
	next   uint64     // arrival number of the next one
	looks  uint64     // places of fronts that were looked at or moved so far: what the line costs, whoever waits behind
}

// push puts w last.
func (l *line) push(w *Waiter) {
	p := w.pattern
	w.arrival, w.place = l.next, waiting
	l.next++
	l.n++
	p.waiting.push(w)
	if p.waiting.n == 1 {
		l.fronts = append(l.fronts, p) // nobody arrived later than w
	}
}

// remove takes w out, wherever in its pattern's line it stands, and moves the pattern to where its new first waiter
// belongs.
func (l *line) remove(w *Waiter) {
	p := w.pattern
	l.n--
	if p.waiting.first != w {
		p.waiting.remove(w)
		return
	}
	from := l.find(0, w.arrival)
	p.waiting.remove(w)
	if p.waiting.n == 0 {
		l.looks += uint64(len(l.fronts) - from)
		l.fronts = slices.Delete(l.fronts, from, from+1)
		return
	}
	to := l.find(from+1, p.waiting.first.arrival) // p itself is out of order now and not looked at
	l.looks += uint64(to - from)
	copy(l.fronts[from:], l.fronts[from+1:to])
	l.fronts[to-1] = p
}

// find returns the first index from lo on whose pattern's first waiter has the given arrival number or a greater one.
func (l *line) find(lo int, arrival uint64) int {
	hi := len(l.fronts)
	for lo < hi {
		l.looks++
		mid := int(uint(lo+hi) >> 1)
		if l.fronts[mid].waiting.first.arrival < arrival {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
