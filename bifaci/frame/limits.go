package frame

// Limits are the four negotiated numbers of a link (spec/wire.md 6.1, section 16).
type Limits struct {
	MaxFrame         uint64 // largest frame body, bytes
	MaxChunk         uint64 // split size for data, bytes
	MaxReorderBuffer uint64 // frames held per flow by a reorder stage
	InitialCredit    uint64 // window of every stream, CHUNK frames
}

// DefaultLimits is what both sides propose unless told otherwise.
func DefaultLimits() Limits {
	return Limits{MaxFrame: 3_670_016, MaxChunk: 262_144, MaxReorderBuffer: 64, InitialCredit: 32}
}

// Min is the negotiation: for each limit the smaller of the two proposals.
func (l Limits) Min(o Limits) Limits {
	return Limits{
		MaxFrame:         min(l.MaxFrame, o.MaxFrame),
		MaxChunk:         min(l.MaxChunk, o.MaxChunk),
		MaxReorderBuffer: min(l.MaxReorderBuffer, o.MaxReorderBuffer),
		InitialCredit:    min(l.InitialCredit, o.InitialCredit),
	}
}
