package frame

import "math"

// Role is an end of a link.
type Role uint8

// The two ends: the host starts processes and sends requests, the cartridge serves them.
const (
	RoleHost Role = iota
	RoleCartridge
)

// String is "host" or "cartridge".
func (r Role) String() string {
	if r == RoleHost {
		return "host"
	}
	return "cartridge"
}

// Hello is the content of a HELLO (spec/wire.md 6.1).
type Hello struct {
	Version     uint64 // of the meta; 6 in every Hello that was accepted
	Limits      Limits // the sender's proposals, or what it took from ours
	Manifest    []byte // JSON, cartridge only
	Pools       []byte // JSON, cartridge only
	HasManifest bool
	HasPools    bool
}

// Hello reads the meta of a HELLO that sender sent and judges it by the refusals of spec/wire.md 6.1, except for what
// takes two proposals ([Negotiate]: a limit of zero passes here) or knowledge of manifests. Version first: what else a
// peer of another version says cannot be judged. Manifest and Pools alias f.Meta; what a host says there is ignored.
// The error is a [*SyntaxError], bad-hello or version-mismatch.
func (f *Frame) Hello(sender Role) (Hello, error) {
	var version, frame, chunk, reorder, credit, manifest, pools metaValue
	w := walkMeta(f)
	for key, v, ok := w.next(); ok; key, v, ok = w.next() {
		switch string(key) {
		case "version":
			version = v
		case "max_frame":
			frame = v
		case "max_chunk":
			chunk = v
		case "max_reorder_buffer":
			reorder = v
		case "initial_credit":
			credit = v
		case "manifest":
			manifest = v
		case "pools":
			pools = v
		}
	}
	if w.broken {
		return Hello{}, meaningf(TokenBadHello, "meta cannot be read")
	}
	var (
		h   Hello
		err error
	)
	if h.Version, err = helloNumber("version", version); err != nil {
		return Hello{}, err
	}
	if h.Version != Version {
		return Hello{}, meaningf(TokenVersionMismatch, "the peer speaks version %d, this end version %d only", h.Version, Version)
	}
	for _, limit := range []struct {
		name  string
		value metaValue
		to    *uint64
	}{
		{"max_frame", frame, &h.Limits.MaxFrame}, {"max_chunk", chunk, &h.Limits.MaxChunk},
		{"max_reorder_buffer", reorder, &h.Limits.MaxReorderBuffer}, {"initial_credit", credit, &h.Limits.InitialCredit},
	} {
		if *limit.to, err = helloNumber(limit.name, limit.value); err != nil {
			return Hello{}, err
		}
	}
	if sender == RoleHost {
		return h, nil
	}
	if h.Manifest, h.HasManifest = manifest.bytes(); !h.HasManifest {
		return Hello{}, meaningf(TokenBadHello, "manifest is missing or no byte string")
	}
	if h.Pools, h.HasPools = pools.bytes(); !h.HasPools {
		return Hello{}, meaningf(TokenBadHello, "pools is missing or no byte string")
	}
	if err := checkPools(h.Pools); err != nil {
		return Hello{}, meaningf(TokenBadHello, "%v", err)
	}
	return h, nil
}

func helloNumber(name string, v metaValue) (uint64, error) {
	n, ok := v.uint()
	switch {
	case ok:
		return n, nil
	case !v.present():
		return 0, meaningf(TokenBadHello, "%s is missing, want an unsigned integer", name)
	}
	return 0, meaningf(TokenBadHello, "%s is %s, want an unsigned integer", name, describe(v, 0))
}

// AppendHelloMeta appends the meta of a HELLO that says h: version and limits, and manifest and pools when h has them.
func AppendHelloMeta(dst []byte, h Hello) []byte {
	dst = mapHead(dst, true, true, true, true, true, h.HasManifest, h.HasPools)
	dst = putUint(dst, "initial_credit", h.Limits.InitialCredit)
	if h.HasManifest {
		dst = putBytes(dst, "manifest", h.Manifest)
	}
	dst = putUint(dst, "max_chunk", h.Limits.MaxChunk)
	dst = putUint(dst, "max_frame", h.Limits.MaxFrame)
	dst = putUint(dst, "max_reorder_buffer", h.Limits.MaxReorderBuffer)
	if h.HasPools {
		dst = putBytes(dst, "pools", h.Pools)
	}
	return putUint(dst, "version", h.Version)
}

// Negotiate is the smaller of both proposals for each limit. One that comes out as 0 is refused, with both proposals in
// the text; zero never means "unlimited" here (spec/wire.md 6.1). The error is a [*SyntaxError] with the token
// zero-limit.
func Negotiate(ours, theirs Limits) (Limits, error) {
	agreed := ours.Min(theirs)
	for _, limit := range []struct {
		name                 string
		agreed, ours, theirs uint64
	}{
		{"initial_credit", agreed.InitialCredit, ours.InitialCredit, theirs.InitialCredit},
		{"max_frame", agreed.MaxFrame, ours.MaxFrame, theirs.MaxFrame},
		{"max_chunk", agreed.MaxChunk, ours.MaxChunk, theirs.MaxChunk},
		{"max_reorder_buffer", agreed.MaxReorderBuffer, ours.MaxReorderBuffer, theirs.MaxReorderBuffer},
	} {
		if limit.agreed == 0 {
			return Limits{}, meaningf(TokenZeroLimit, "%s negotiates to 0: we propose %d, the peer %d; want at least 1 on both sides",
				limit.name, limit.ours, limit.theirs)
		}
	}
	return agreed, nil
}

// ChunkRoom is the largest number of payload bytes a CHUNK may be cut to on a link with these limits, for a stream id and
// an encoded meta of the given sizes: at most MaxChunk, and small enough that the frame stays within MaxFrame; at least
// 1 (spec/wire.md 8.4).
func (l Limits) ChunkRoom(streamIDLen, metaLen int) int {
	const overhead = 256 // everything beside payload, stream id and meta, with room to spare
	room := min(l.MaxFrame, MaxBody)
	taken := overhead + uint64(streamIDLen) + uint64(metaLen)
	if room <= taken {
		return 1
	}
	return int(max(1, min(room-taken, l.MaxChunk, math.MaxInt32)))
}
