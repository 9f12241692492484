package hostile

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/test/peer"
)

// hostileCase is bytes that are no frame, and what standard error must say of them.
type hostileCase struct {
	name  string
	wire  string // hexadecimal, with the length prefix
	place string
	rules string
	open  bool // the bytes may be the beginning of a frame, so that only the end of the input makes them wrong
}

// body puts the right length prefix in front of a frame body.
func body(text string) string {
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		panic(err) // the texts below are constants
	}
	return hex.EncodeToString(peer.Prefixed(b))
}

// cases are the list of F13.
func cases() []hostileCase {
	return []hostileCase{
		{name: "length 0", wire: "00000000", place: "length prefix 0", rules: "R-2.31"},
		{name: "length 1 and silence", wire: "00000001", place: "input ended after 0 of the 1 bytes of a frame body", rules: "R-2.31", open: true},
		{name: "length 1 and an empty map", wire: "00000001 a0", place: "key 0 (version)"},
		{name: "length one above max_frame", wire: "00380001", place: "3670017 bytes (prefix 00380001), at most 3670016"},
		{name: "length 7fffffff", wire: "7fffffff", place: "2147483647 bytes (prefix 7fffffff)"},
		{name: "length ffffffff", wire: "ffffffff", place: "4294967295 bytes (prefix ffffffff)"},
		{name: "max_frame promised and silence", wire: "00380000 a9 00 06", place: "input ended after 3 of the 3670016 bytes of a frame body",
			rules: "R-2.31", open: true},
		{name: "array of 2^63 elements", wire: body("a5 00 06 01 07 02 05 03 00 05 a1 61 78 9b 80 00 00 00 00 00 00 00"),
			place: "key 5 (meta), offset 22: array of 9223372036854775808 elements, 0 bytes left"},
		{name: "map of 2^32 entries", wire: body("bb 00 00 00 01 00 00 00 00 00 06 01 07"), place: "map of 4294967296 entries"},
		{name: "byte string of 4 GiB", wire: body("a5 00 06 01 03 02 05 03 00 06 5b 00 00 00 01 00 00 00 00"),
			place: "key 6 (payload), offset 10: string of 4294967296 bytes"},
		{name: "text of 2^64-1 bytes", wire: body("a5 00 06 01 01 02 05 03 00 0a 7b ff ff ff ff ff ff ff ff"), place: "key 10 (cap)"},
		{name: "40 nested arrays", wire: body("a5 00 06 01 07 02 05 03 00 05 a1 61 78" + strings.Repeat("81", 40) + "00"),
			place: "too-deep: key 5 (meta)"},
		{name: "a key twice", wire: body("a2 00 06 00 07"), place: "duplicate-key: offset 3: key 0 stands here for the second time"},
		{name: "a meta key twice", wire: body("a5 00 06 01 07 02 05 03 00 05 a2 61 78 01 61 78 02"), place: "duplicate-key: key 5 (meta)"},
		{name: "NaN as key", wire: body("a1 f9 7e 00 00"), place: "offset 1: first byte 0xf9"},
		{name: "an array as key", wire: body("a1 80 00"), place: "offset 1: first byte 0x80"},
		{name: "a text as key", wire: body("a1 61 30 06"), place: "offset 1: first byte 0x61"},
		{name: "a negative key", wire: body("a1 20 06"), place: "offset 1: first byte 0x20"},
		{name: "a tag in front", wire: body("d9 d9 f7 a4 00 06 01 07 02 05 03 00"), place: "not-a-map: offset 0: first byte 0xd9"},
		{name: "an indefinite length without an end", wire: body("bf 00 06 01 07 02 05 03 00"), place: "bad-cbor"},
		{name: "an indefinite string of integers", wire: body("a5 00 06 01 03 02 05 03 00 06 5f 00 ff"), place: "key 6 (payload)"},
		{name: "a negative index", wire: body("a5 00 06 01 03 02 05 03 00 0e 20"), place: "key 14 (chunk_index)"},
		{name: "a byte too many", wire: body("a4 00 06 01 07 02 05 03 00 00"), place: "trailing-bytes: offset 9: 1 bytes behind the frame map"},
		{name: "text that is no UTF-8", wire: body("a5 00 06 01 09 02 05 03 00 0b 62 c3 28"), place: "invalid-utf8: key 11 (stream_id)"},
		{name: "version 4", wire: body("a4 00 04 01 07 02 05 03 00"), place: "version 4, this end speaks 6 only"},
		{name: "version 262", wire: body("a4 00 19 01 06 01 07 02 05 03 00"), place: "version 262, this end speaks 6 only"},
		{name: "type 2", wire: body("a4 00 06 01 02 02 05 03 00"), place: "bad-type: key 1 (type)"},
		{name: "type 16", wire: body("a4 00 06 01 10 02 05 03 00"), place: "bad-type: key 1 (type)"},
		{name: "an id of 15 bytes", wire: body("a4 00 06 01 07 02 4f" + strings.Repeat("11", 15) + "03 00"), place: "bad-id: key 2 (id)"},
		{name: "a map that ends early", wire: body("a4 00 06 01 07"), place: "bad-cbor"},
	}
}

func TestF13_BytesThatAreNoFrame(t *testing.T) {
	needsProcess(t)
	for _, c := range cases() {
		t.Run("R-2.32 R-3.1 "+c.rules+" live: "+c.name, func(t *testing.T) {
			p := peer.Start(t, probePath(t))
			p.Live()
			running := p.Request(capStall)
			sendBroken(t, p, c)
			running.WantErr("PROTOCOL_ERROR", "internal")
			wantRefusal(t, p, c.place)
		})
		t.Run("R-2.24 R-3.1 instead of HELLO: "+c.name, func(t *testing.T) {
			p := peer.Start(t, probePath(t))
			sendBroken(t, p, c)
			wantRefusal(t, p, c.place)
			assert.Contains(t, p.Stderr(), "handshake failed")
			assert.Empty(t, p.Unclaimed(), "no HELLO is sent")
		})
	}
}

// sendBroken sends the bytes and then says nothing more; the input stays open, unless only its end makes them wrong.
func sendBroken(t *testing.T, p *peer.Process, c hostileCase) {
	t.Helper()
	wire, err := hex.DecodeString(strings.ReplaceAll(c.wire, " ", ""))
	require.NoError(t, err)
	p.SendBroken(wire)
	if c.open {
		p.CloseInput()
	}
}

// The bounds of wire.md 2.2 are no reason to refuse what is unusual and means something.
func TestUnusualFramesAreTaken(t *testing.T) {
	needsProcess(t)
	p := peer.Start(t, probePath(t), peer.Unjudged()) // the judge's decoder is stricter than wire.md
	p.Live()
	for name, text := range map[string]string{
		"R-3.1 an indefinite length with its end": "bf 00 06 01 07 02 18 64 03 00 ff",
		"R-3.1 any order, long heads":             "a4 03 18 00 02 19 00 64 01 18 07 00 1b 00 00 00 00 00 00 00 06",
		"R-3.1 a key that nobody knows":           "a5 00 06 01 07 02 18 64 03 00 18 63 82 01 02",
		"R-3.1 no seq":                            "a3 00 06 01 07 02 18 64",
		"R-3.1 tags and nesting in meta":          "a5 00 06 01 07 02 18 64 03 00 05 a1 61 78 c1" + strings.Repeat("81", 29) + "00",
	} {
		t.Run(name, func(t *testing.T) {
			p.SendHex(body(text))
			got := p.Await("the answer to a heartbeat", func(f peer.Frame) bool { return f.Uint(peer.KeyID) == 100 })
			assert.Equal(t, peer.TypeHeartbeat, got.Type())
		})
	}
	p.Finish()
}
