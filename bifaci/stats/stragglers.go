package stats

import (
	"encoding/json"
	"sync/atomic"
)

// Stragglers counts, per frame type, the frames that legally crossed their request's end: they arrived for an id that
// ended here recently, or were held back by the writer's terminal gate. They are never drops. The zero value
// is ready. Safe for concurrent use; no method blocks.
type Stragglers struct {
	cells [frameTypeCells]atomic.Uint64
}

// Add counts n stragglers of one wire type.
func (s *Stragglers) Add(frameType uint8, n uint64) {
	s.cells[frameTypeCell(frameType)].Add(n)
}

// Total is the number of stragglers so far.
func (s *Stragglers) Total() uint64 {
	var total uint64
	for cell := range s.cells {
		total += s.cells[cell].Load()
	}
	return total
}

// Snapshot reads every counter; the total is the sum of what it read.
func (s *Stragglers) Snapshot() StragglerSnapshot {
	byType, total := snapshotCells(&s.cells)
	return StragglerSnapshot{Total: total, ByFrameType: byType}
}

// StragglerSnapshot is a copy of [Stragglers] at one moment, types without stragglers left out. The caller
// owns the map.
type StragglerSnapshot struct {
	Total       uint64            `json:"total"`
	ByFrameType map[string]uint64 `json:"by_frame_type"`
}

// MarshalJSON writes both members, an empty object for a nil map.
func (s StragglerSnapshot) MarshalJSON() ([]byte, error) {
	if s.ByFrameType == nil {
		s.ByFrameType = map[string]uint64{}
	}
	type members StragglerSnapshot // without this method
	return json.Marshal(members(s))
}
