package stats

// frameTypeNames is, indexed by the type's number on the wire (spec/wire.md section 4). Number 2 is retired; it
// and everything above the table share the last cell, because a lost frame must be counted somewhere even
// though no decoder lets such a type through.
var frameTypeNames = [...]string{"hello", "req", "", "chunk", "end", "log", "err", "heartbeat", "stream_start",
	"stream_end", "relay_notify", "relay_state", "cancel", "credit", "close_stream", "policy", "unknown"}

const (
	frameTypeCells   = len(frameTypeNames)
	frameTypeUnknown = frameTypeCells - 1
)

// frameTypeCell is the cell that counts frames of the given wire type.
func frameTypeCell(frameType uint8) int {
	cell := int(frameType)
	if cell >= frameTypeCells || frameTypeNames[cell] == "" {
		return frameTypeUnknown
	}
	return cell
}
