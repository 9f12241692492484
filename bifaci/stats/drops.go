package stats

import (
	"encoding/json"
	"sync/atomic"
)

// Drops counts the frames that were lost because something went wrong, by reason and frame type. The zero
// value is ready. Safe for concurrent use; no method blocks.
type Drops struct {
	cells [reasonCount][frameTypeCells]atomic.Uint64
}

// Add counts n lost frames of one wire type. It panics when reason is not one of the constants.
func (d *Drops) Add(reason Reason, frameType uint8, n uint64) {
	d.cells[reason][frameTypeCell(frameType)].Add(n)
}

// Total is the number of drops so far, all reasons and types together.
func (d *Drops) Total() uint64 {
	var total uint64
	for reason := range d.cells {
		for cell := range d.cells[reason] {
			total += d.cells[reason][cell].Load()
		}
	}
	return total
}

// Snapshot reads every counter. Its sums agree with each other; a frame that is counted meanwhile is either in all of
// them or in none.
func (d *Drops) Snapshot() DropSnapshot {
	s := DropSnapshot{ByReason: map[Reason]uint64{}, ByReasonFrameType: map[Reason]map[string]uint64{}}
	for i := range d.cells {
		byType, sum := snapshotCells(&d.cells[i])
		if sum > 0 {
			s.Total += sum
			s.ByReason[Reason(i)] = sum
			s.ByReasonFrameType[Reason(i)] = byType
		}
	}
	return s
}

// DropSnapshot is a copy of [Drops] at one moment. Reasons and types without drops are left out; the frame
// types carry the names of. The caller owns the maps.
type DropSnapshot struct {
	Total             uint64                       `json:"total"`
	ByReason          map[Reason]uint64            `json:"by_reason"`
	ByReasonFrameType map[Reason]map[string]uint64 `json:"by_reason_frame_type"`
}

// MarshalJSON writes all three members, empty objects for nil maps: a strict reader takes no null for a map.
func (s DropSnapshot) MarshalJSON() ([]byte, error) {
	if s.ByReason == nil {
		s.ByReason = map[Reason]uint64{}
	}
	if s.ByReasonFrameType == nil {
		s.ByReasonFrameType = map[Reason]map[string]uint64{}
	}
	type members DropSnapshot // without this method
	return json.Marshal(members(s))
}

// snapshotCells names the counts that are not zero and adds them up.
func snapshotCells(cells *[frameTypeCells]atomic.Uint64) (byType map[string]uint64, sum uint64) {
	byType = map[string]uint64{}
	for cell := range cells {
		if n := cells[cell].Load(); n > 0 {
			byType[frameTypeNames[cell]] = n
			sum += n
		}
	}
	return byType, sum
}
