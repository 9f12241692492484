package stats

import (
	"encoding/json"
	"log/slog"
)

// Snapshot describes a running cartridge at one moment. The runtime fills it; the parts are read one after the
// other without stopping the link, so they may differ by what happened in between.
type Snapshot struct {
	Drops         DropSnapshot      `json:"drops"`
	Stragglers    StragglerSnapshot `json:"stragglers"`
	OverrunsTotal uint64            `json:"overruns_total"` // items, all feeds together
	Frames        LedgerSnapshot    `json:"frames"`         // what became of the frames that came in

	// Pools is the pool map as a heartbeat reply carries it: pool name to state.
	Pools json.RawMessage `json:"pools,omitempty"`

	Requests RequestCounts  `json:"requests"`
	Streams  []StreamCounts `json:"streams,omitempty"` // of the requests above, ended requests left out
}

// LogValue is the snapshot in one line of a log: its sums, without pools and streams.
func (s Snapshot) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Uint64("drops", s.Drops.Total), slog.Uint64("stragglers", s.Stragglers.Total), slog.Uint64("overruns", s.OverrunsTotal),
		slog.Uint64("frames_received", s.Frames.Received), slog.Uint64("frames_delivered", s.Frames.Delivered),
		slog.Uint64("requests", s.Requests.Waiting+s.Requests.Running+s.Requests.BodyComplete+s.Requests.Stopping))
}

// RequestCounts is the number of incoming requests in each state of spec/runtime.md section 3.
type RequestCounts struct {
	Waiting      uint64 `json:"waiting"`       // Q: in line for a pool
	Running      uint64 `json:"running"`       // R: handler running, body open
	BodyComplete uint64 `json:"body_complete"` // E: handler running, body END received
	Stopping     uint64 `json:"stopping"`      // X: cancelled or poisoned, handler not yet back
}

// StreamCounts is what one stream has carried. Bytes are payload bytes.
type StreamCounts struct {
	Request string `json:"rid"`
	Stream  string `json:"stream_id"`

	FramesIn  uint64 `json:"frames_in"`
	FramesOut uint64 `json:"frames_out"`
	BytesIn   uint64 `json:"bytes_in"`
	BytesOut  uint64 `json:"bytes_out"`
	ChunksIn  uint64 `json:"chunks_in"`
	ChunksOut uint64 `json:"chunks_out"`

	// CreditOutstanding is the rest of the window, in chunks. It is negative only after a credit violation.
	CreditOutstanding int64 `json:"credit_outstanding"`
	Unbounded         bool  `json:"unbounded"`
	Ended             bool  `json:"ended"`
}
