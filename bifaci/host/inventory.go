package host

import (
	"slices"

	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/pools"
)

// Record is what a host knows of one cartridge. The JSON is that of the inventory.
type Record struct {
	Cartridge ID `json:"cartridge"`
	Identity
	Path            string           `json:"path,omitempty"`
	SHA256          string           `json:"sha256"`
	Groups          []manifest.Group `json:"cap_groups"`
	AttachmentError *AttachmentError `json:"attachment_error"`
	Lifecycle       State            `json:"lifecycle"`
	Stats           RuntimeStats     `json:"runtime_stats"`
}

// RuntimeStats are the moving parts of a [Record]. What a cartridge reports is that of its latest heartbeat reply, the pools at first
// of its HELLO; it stays after the cartridge has ended.
type RuntimeStats struct {
	Running            bool         `json:"running"`
	Pools              pools.States `json:"pools"`
	PID                int          `json:"pid"`                  // 0 for an attached link, and when nothing runs
	ActiveRequests     int          `json:"active_request_count"` // that it serves
	PeerRequests       int          `json:"peer_request_count"`   // that it makes
	MemoryFootprintMB  uint64       `json:"memory_footprint_mb"`
	MemoryRSSMB        uint64       `json:"memory_rss_mb"`
	LastHeartbeatUnix  int64        `json:"last_heartbeat_unix_seconds"` // 0 before the first reply
	Restarts           uint64       `json:"restart_count"`
	ProtocolDrops      uint64       `json:"protocol_drops_total"`
	ProtocolStragglers uint64       `json:"protocol_stragglers_total"`
	ProtocolOverruns   uint64       `json:"protocol_overruns_total"`
}

// Cartridges is the inventory, in order of registration. It does not wait.
func (h *Host) Cartridges() []Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]Record, len(h.members))
	for i, m := range h.members {
		all[i] = m.record()
	}
	return all
}

func (m *member) record() Record {
	r := Record{Cartridge: m.id, Identity: m.spec.Identity, Path: m.spec.Path, SHA256: m.spec.SHA256, Groups: slices.Clone(m.groups),
		AttachmentError: m.trouble, Lifecycle: m.state}
	s := &r.Stats
	s.Restarts = m.starts
	s.Pools = m.last.pools
	s.MemoryFootprintMB, s.MemoryRSSMB = m.last.reply.FootprintMB, m.last.reply.RSSMB
	s.ProtocolDrops, s.ProtocolStragglers, s.ProtocolOverruns = m.last.reply.DropsTotal, m.last.reply.StragglersTotal, m.last.reply.OverrunsTotal
	if !m.last.at.IsZero() {
		s.LastHeartbeatUnix = m.last.at.Unix()
	}
	if l := m.life; l != nil {
		s.Running = m.state == Live || m.state == Draining
		s.PeerRequests, s.ActiveRequests = l.calls, l.busy-l.calls
		if l.proc != nil {
			s.PID = l.proc.PID()
		}
		if s.Running {
			s.Pools = l.conn.Pools()
		}
	}
	return r
}
