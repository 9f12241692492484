package stats

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDrops(t *testing.T) {
	t.Run("R-11.1 the five reasons have their names", func(t *testing.T) {
		for reason, name := range map[Reason]string{NoRoute: "no_route", ChannelClosed: "channel_closed",
			CreditViolation: "credit_violation", Cancelled: "cancelled", MasterDied: "master_died"} {
			assert.Equal(t, name, reason.String())
			var back Reason
			require.NoError(t, back.UnmarshalText([]byte(name)))
			assert.Equal(t, reason, back)
		}
		assert.Equal(t, 5, reasonCount, "the set is closed")
	})

	t.Run("R-11.1 anything else is no reason", func(t *testing.T) {
		_, err := Reason(reasonCount).MarshalText()
		assert.ErrorContains(t, err, "drop reason 5: not one of 0 to 4")
		reason := Cancelled
		assert.ErrorContains(t, reason.UnmarshalText([]byte("tired")), `drop reason "tired": not one of`)
		assert.Equal(t, Cancelled, reason, "a refused text leaves the value alone")
		assert.Equal(t, "reason(5)", Reason(reasonCount).String())
		assert.Panics(t, func() { new(Drops).Add(reasonCount, 3, 1) })
	})

	t.Run("R-11.1 a drop counts once, by reason and type", func(t *testing.T) {
		var d Drops
		d.Add(NoRoute, 3, 1)
		d.Add(NoRoute, 3, 2)
		d.Add(Cancelled, 3, 1)
		d.Add(NoRoute, 13, 1)
		s := d.Snapshot()
		assert.Equal(t, DropSnapshot{
			Total:    5,
			ByReason: map[Reason]uint64{NoRoute: 4, Cancelled: 1},
			ByReasonFrameType: map[Reason]map[string]uint64{
				NoRoute:   {"chunk": 3, "credit": 1},
				Cancelled: {"chunk": 1},
			},
		}, s)
		assert.Equal(t, s.Total, d.Total())
	})

	t.Run("R-11.1 sums agree with a ledger", rapid.MakeCheck(func(t *rapid.T) {
		type key struct {
			reason Reason
			cell   string
		}
		var d Drops
		ledger, total := map[key]uint64{}, uint64(0)
		for range rapid.IntRange(0, 200).Draw(t, "frames") {
			reason := Reason(rapid.IntRange(0, reasonCount-1).Draw(t, "reason"))
			frameType := rapid.Uint8Range(0, 20).Draw(t, "type")
			d.Add(reason, frameType, 1)
			name := "unknown"
			if frameType < 16 && frameType != 2 {
				name = frameTypeNames[frameType]
			}
			ledger[key{reason, name}]++
			total++
		}
		got := map[key]uint64{}
		s := d.Snapshot()
		for reason, byType := range s.ByReasonFrameType {
			var sum uint64
			for name, n := range byType {
				got[key{reason, name}] = n
				sum += n
			}
			assert.Equal(t, s.ByReason[reason], sum)
		}
		assert.Equal(t, ledger, got)
		assert.Equal(t, total, s.Total)
		assert.Equal(t, total, d.Total())
	}))
}

func TestFrameTypeNames(t *testing.T) {
	t.Run("R-11.2 every type counts under its own name", func(t *testing.T) {
		for number, name := range map[uint8]string{0: "hello", 1: "req", 3: "chunk", 4: "end", 5: "log", 6: "err",
			7: "heartbeat", 8: "stream_start", 9: "stream_end", 10: "relay_notify", 11: "relay_state", 12: "cancel",
			13: "credit", 14: "close_stream", 15: "policy"} {
			var s Stragglers
			s.Add(number, 1)
			assert.Equal(t, map[string]uint64{name: 1}, s.Snapshot().ByFrameType, "type %d", number)
		}
	})

	t.Run("R-11.2 a type that does not exist is counted all the same", func(t *testing.T) {
		var s Stragglers
		for _, number := range []uint8{2, 16, 17, 255} {
			s.Add(number, 1)
		}
		assert.Equal(t, map[string]uint64{"unknown": 4}, s.Snapshot().ByFrameType)
	})
}

func TestSnapshotJSON(t *testing.T) {
	t.Run("R-11.3 drops", func(t *testing.T) {
		var d Drops
		d.Add(CreditViolation, 3, 2)
		d.Add(NoRoute, 13, 1)
		d.Add(NoRoute, 4, 0)
		assertJSON(t, `{"total":3,"by_reason":{"credit_violation":2,"no_route":1},`+
			`"by_reason_frame_type":{"credit_violation":{"chunk":2},"no_route":{"credit":1}}}`, d.Snapshot())
	})

	t.Run("R-11.3 stragglers", func(t *testing.T) {
		var s Stragglers
		s.Add(5, 4)
		s.Add(9, 1)
		s.Add(3, 0)
		assertJSON(t, `{"total":5,"by_frame_type":{"log":4,"stream_end":1}}`, s.Snapshot())
	})

	t.Run("R-11.3 nothing lost, and the zero snapshot", func(t *testing.T) {
		for _, s := range []any{new(Drops).Snapshot(), DropSnapshot{}} {
			assertJSON(t, `{"total":0,"by_reason":{},"by_reason_frame_type":{}}`, s)
		}
		for _, s := range []any{new(Stragglers).Snapshot(), StragglerSnapshot{}} {
			assertJSON(t, `{"total":0,"by_frame_type":{}}`, s)
		}
	})

	t.Run("R-11.3 reads back", func(t *testing.T) {
		var d Drops
		d.Add(MasterDied, 1, 7)
		text, err := json.Marshal(d.Snapshot())
		require.NoError(t, err)
		var back DropSnapshot
		require.NoError(t, json.Unmarshal(text, &back))
		assert.Equal(t, d.Snapshot(), back)
	})

	t.Run("R-11.6 the whole cartridge", func(t *testing.T) {
		assertJSON(t, `{"drops":{"total":0,"by_reason":{},"by_reason_frame_type":{}},`+
			`"stragglers":{"total":0,"by_frame_type":{}},"overruns_total":2,"frames":{"received":10,"delivered":4,"consumed":3,"dropped":2,"straggled":1},"pools":{"all":{"active":1}},`+
			`"requests":{"waiting":1,"running":2,"body_complete":3,"stopping":4},`+
			`"streams":[{"rid":"r","stream_id":"s","frames_in":1,"frames_out":2,"bytes_in":3,"bytes_out":4,`+
			`"chunks_in":5,"chunks_out":6,"credit_outstanding":-1,"unbounded":true,"ended":false}]}`,
			Snapshot{
				OverrunsTotal: 2,
				Frames:        LedgerSnapshot{Received: 10, Delivered: 4, Consumed: 3, Dropped: 2, Straggled: 1},
				Pools:         json.RawMessage(`{"all":{"active":1}}`),
				Requests:      RequestCounts{Waiting: 1, Running: 2, BodyComplete: 3, Stopping: 4},
				Streams: []StreamCounts{{Request: "r", Stream: "s", FramesIn: 1, FramesOut: 2, BytesIn: 3, BytesOut: 4,
					ChunksIn: 5, ChunksOut: 6, CreditOutstanding: -1, Unbounded: true}},
			})
	})
}

func assertJSON(t *testing.T, want string, value any) {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	assert.Equal(t, want, string(text))
}
