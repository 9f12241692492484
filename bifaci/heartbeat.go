package bifaci

import (
	"errors"
	"sync"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stdio"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
	"github.com/pipe-cartridge/pipe/pools"
)

// memorySampleInterval is how old the memory figures of a reply may be.
const memorySampleInterval = time.Second

// heartbeat answers a probe, on the reader's goroutine and before the frame goes on to route: it applies the whole batch of
// capacities or nothing, then replies with the refreshed pool map; a refused batch is answered with ERR instead. It
// takes the link's short lock and the lanes' and waits for nothing.
func (l *link) heartbeat(f *frame.Frame) {
	raw, present, err := f.DesiredCapacities()
	if err == nil && present {
		err = l.configure(raw)
	}
	var answer frame.Frame
	if err != nil {
		answer.Reset(frame.TypeErr, f.ID)
		l.errFrame(&answer, unknownPool(err))
	} else {
		l.mu.Lock()
		states := l.pools.Snapshot()
		l.mu.Unlock()
		encoded, encErr := states.Encode()
		if encErr != nil {
			l.c.opts.log.Error("the pool map could not be encoded", "error", encErr)
			return
		}
		reply := frame.HeartbeatReply{Pools: encoded, DropsTotal: l.drops.Total(), StragglersTotal: l.stragglers.Total(),
			OverrunsTotal: l.overruns.Total()}
		reply.FootprintMB, reply.RSSMB, reply.HasMemory = l.c.memory.sample()
		answer.Reset(frame.TypeHeartbeat, f.ID)
		answer.Meta = frame.AppendPoolsMeta(nil, reply)
		answer.Has = answer.Has.With(frame.KeyMeta)
	}
	if err := l.lanes.Control(&answer); err != nil {
		l.c.opts.log.Debug("a heartbeat could not be answered", "error", err)
	}
}

// configure applies desired capacities; names that are cap URNs are compared canonically.
func (l *link) configure(raw []byte) error {
	desired, err := pools.DecodeDesired(raw)
	if err != nil {
		return err
	}
	canonical := make(pools.Desired, len(desired))
	for name, n := range desired {
		canonical[canonicalPool(name)] = n
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pools.ApplyDesired(canonical)
}

// canonicalPool is the name under which a pool is kept.
func canonicalPool(name string) string {
	if c, err := urn.ParseCap(name); err == nil {
		return c.String()
	}
	return name
}

func unknownPool(err error) *failure.Failure {
	var unknown *pools.UnknownPoolError
	if errors.As(err, &unknown) {
		return failure.Newf(failure.UnknownPool, failure.Internal, "desired capacities refused: unknown pool '%s'", unknown.Name)
	}
	return failure.Newf(failure.UnknownPool, failure.Internal, "desired capacities refused: %w", err)
}

// memorySampler reads the process's memory at most once a second.
type memorySampler struct {
	mu             sync.Mutex
	at             time.Time
	footprint, rss uint64 // MiB
	known          bool
}

func (m *memorySampler) sample() (footprintMB, rssMB uint64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at.IsZero() || time.Since(m.at) >= memorySampleInterval {
		m.footprint, m.rss, m.known = stdio.Memory()
		m.at = time.Now()
	}
	return m.footprint, m.rss, m.known
}
