package cartridgetest

import (
	"encoding/json"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Pulse is the answer to a heartbeat probe.
type Pulse struct {
	Pools                        map[string]Pool
	Drops, Stragglers, Overruns  uint64
	FootprintMB, ResidentSetSize uint64 // MiB; 0 where the platform cannot tell
}

// Pool is the state of one pool, as the cartridge reports it.
type Pool struct {
	Declared, Configured, Active, Queued uint64
	Available                            *uint64
	Caps                                 []string
}

// Probe sends a heartbeat probe and waits for its answer.
func (h *Host) Probe() Pulse {
	h.t.Helper()
	return h.pulse(h.heartbeat(nil))
}

// SetCapacities is Probe with capacities that the operator wants, pool by pool.
func (h *Host) SetCapacities(desired map[string]uint64) Pulse {
	h.t.Helper()
	b, err := json.Marshal(desired)
	if err != nil {
		h.t.Fatalf("cartridgetest: %v", err)
	}
	return h.pulse(h.heartbeat(b))
}

// WantRefused sends a probe with desired capacities, any bytes, and waits for the ERR in place of the answer. It returns the
// message.
func (h *Host) WantRefused(desired []byte, code string) (message string) {
	h.t.Helper()
	f := h.heartbeat(desired)
	if f.Type() != frame.TypeErr || f.Failure().Code != code {
		h.t.Fatalf("cartridgetest: the answer to capacities %q is %s, want an ERR %s", desired, f, code)
	}
	return f.Failure().Message
}

// heartbeat sends a probe and gives the answer.
func (h *Host) heartbeat(desired []byte) (answer Frame) {
	h.t.Helper()
	h.mu.Lock()
	h.probe++
	id := frame.UintID(1<<40 + h.probe)
	h.mu.Unlock()
	h.send(HeartbeatFrame(desired).With(frame.KeyID, idValue(id)), false)
	return h.Answer(id)
}

// Answer waits for a frame that belongs to no request of the host: an answer to a probe, or an ERR for an id that a test made up.
func (h *Host) Answer(id frame.ID) (answer Frame) {
	h.t.Helper()
	h.await("an answer with id "+id.String(), func() bool {
		if len(h.answers[id]) == 0 {
			return false
		}
		answer, h.answers[id] = h.answers[id][0], h.answers[id][1:]
		return true
	})
	return answer
}

func (h *Host) pulse(f Frame) (p Pulse) {
	h.t.Helper()
	if f.Type() != frame.TypeHeartbeat {
		h.t.Fatalf("cartridgetest: the answer to a probe is %s", f)
	}
	m := f.Meta()
	raw, _ := m["pools"].([]byte)
	if err := json.Unmarshal(raw, &p.Pools); err != nil {
		h.t.Fatalf("cartridgetest: the pools of %s: %v", f, err)
	}
	for key, at := range map[string]*uint64{"drops_total": &p.Drops, "stragglers_total": &p.Stragglers,
		"overruns_total": &p.Overruns, "footprint_mb": &p.FootprintMB, "rss_mb": &p.ResidentSetSize} {
		*at, _ = m[key].(uint64)
	}
	return p
}
