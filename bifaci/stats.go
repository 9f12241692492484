package bifaci

import (
	"encoding/json"

	"github.com/pipe-cartridge/pipe/bifaci/stats"
	"github.com/pipe-cartridge/pipe/stages"
)

// Stats describes the cartridge at this moment: the link that is being served, or the one that was. Before there is one, and
// in command-line mode, it is empty. It takes the locks of the link for a moment each and never makes it wait.
func (c *Cartridge) Stats() stats.Snapshot {
	l := c.link.Load()
	if l == nil {
		return stats.Snapshot{}
	}
	return l.stats()
}

func (l *link) stats() stats.Snapshot {
	s := stats.Snapshot{Drops: l.drops.Snapshot(), Stragglers: l.stragglers.Snapshot(), OverrunsTotal: l.overruns.Total(),
		Frames: l.ledger.Snapshot()}
	l.mu.Lock()
	states := l.pools.Snapshot()
	requests := make([]*wireRequest, 0, len(l.requests))
	for _, w := range l.requests {
		switch {
		case w.ended.Load():
			continue
		case w.waiting:
			s.Requests.Waiting++
		case w.stopped.Load():
			s.Requests.Stopping++
		case w.bodyEnd.Load():
			s.Requests.BodyComplete++
		default:
			s.Requests.Running++
		}
		requests = append(requests, w)
	}
	l.mu.Unlock()
	pools, err := states.Encode()
	if err != nil {
		l.c.opts.log.Error("the pool map could not be encoded", "error", err)
	} else {
		s.Pools = pools
	}
	for _, w := range requests {
		s.Streams = streamsOf(s.Streams, w.flow.ID().String(), &w.recv, &w.sender)
		for _, c := range w.openCalls() {
			if !c.over.Load() {
				s.Streams = streamsOf(s.Streams, c.ID().String(), &c.recv, senders(c.openArgs())...)
			}
		}
	}
	return s
}

// streamsOf appends what the streams of one request have carried, those that came in first.
func streamsOf(to []stats.StreamCounts, request string, in *stages.Receiver, out ...*stages.Sender) []stats.StreamCounts {
	first := len(to)
	to = in.Counts(to)
	for _, s := range out {
		if n, started := s.Counts(); started {
			to = append(to, n)
		}
	}
	for i := range to[first:] {
		to[first+i].Request = request
	}
	return to
}

func senders(args []*callArg) []*stages.Sender {
	all := make([]*stages.Sender, len(args))
	for i, a := range args {
		all[i] = &a.sender
	}
	return all
}

// statsVar is the cartridge's statistics as an expvar.Var.
type statsVar struct{ c *Cartridge }

// String is the snapshot of this moment as JSON.
func (v statsVar) String() string {
	text, err := json.Marshal(v.c.Stats())
	if err != nil {
		return "null" // a snapshot has nothing that JSON cannot say
	}
	return string(text)
}
