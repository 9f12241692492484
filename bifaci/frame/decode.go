package frame

import (
	"encoding/binary"
	"math/bits"
)

// Decode reads one frame body, the bytes behind the length prefix, into f, which is overwritten as a whole. It is
// strict as spec/wire.md 2.2 tells: every byte is accounted for, keys are checked for type and duplicates, meta is
// checked throughout but stays raw in f.Meta. Fields of f alias body; a string that comes in segments is joined in
// memory of its own. The error is a [*SyntaxError] that names the key and the offset in body; a fault of the layer
// "cbor" is reported in preference to one of the layer "frame". After an error f is of no use. Decode allocates nothing
// for frames that a well-behaved peer sends.
func Decode(body []byte, f *Frame) error {
	*f = Frame{}
	if len(body) == 0 {
		return syntaxf(TokenEmptyFrame, Nowhere, "a frame body of no bytes")
	}
	h, i := readHead(body, 0)
	if i < 0 || h.major != majorMap || h.info != infoIndef && h.arg > uint64(len(body)-i)/2 {
		return refuse(body, nil)
	}
	indefinite := h.info == infoIndef
	var (
		seen    Keys
		unknown = uint64(KeyUnbounded) // the last key beyond those of version 6
		recheck bool                   // such keys out of order: duplicates must be looked for
		v       uint64
	)
	for left := h.arg; left > 0 || indefinite; left-- {
		if indefinite && i < len(body) && body[i] == byteBreak {
			i++
			break
		}
		var k uint64
		at := i
		if k, i = uintAt(body, i); i < 0 {
			return refuse(body, nil)
		}
		if k > uint64(KeyUnbounded) {
			recheck = recheck || k <= unknown
			unknown = k
			c := checker{b: body, maxDepth: maxFrameDepth, unique: true}
			next, err := c.item(i, 2)
			if err != nil {
				return refuse(body, err)
			}
			i = next
			continue
		}
		key := Key(k)
		if seen.Has(key) {
			return refuse(body, duplicate(mapKey{class: uintKey, num: k}, at))
		}
		seen = seen.With(key)
		at = i
		switch key {
		case KeyVersion:
			if v, i = uintAt(body, i); i >= 0 && v != Version {
				return refuse(body, keyError(TokenBadVersion, key, at, "version %d, this end speaks %d only", v, Version))
			}
		case KeyType:
			if v, i = uintAt(body, i); i >= 0 && !validType(v) {
				return refuse(body, keyError(TokenBadType, key, at, "type %d, want 0, 1 or 3 to %d", v, TypeCount-1))
			}
			f.Type = Type(v)
		case KeyID:
			f.ID, i = idAt(body, i)
		case KeyRoutingID:
			f.Routing, i = idAt(body, i)
		case KeySeq:
			f.Seq, i = uintAt(body, i)
		case KeyLen:
			f.Len, i = uintAt(body, i)
		case KeyOffset:
			f.Offset, i = uintAt(body, i)
		case KeyChunkIndex:
			f.ChunkIndex, i = uintAt(body, i)
		case KeyChunkCount:
			f.ChunkCount, i = uintAt(body, i)
		case KeyChecksum:
			f.Checksum, i = uintAt(body, i)
		case KeyCredit:
			f.Credit, i = uintAt(body, i)
		case KeyPayload:
			f.Payload, i = strAt(body, i, majorBytes)
		case KeyContentType:
			f.ContentType, i = textAt(body, i)
		case KeyCap:
			f.Cap, i = textAt(body, i)
		case KeyStreamID:
			f.StreamID, i = textAt(body, i)
		case KeyMediaURN:
			f.MediaURN, i = textAt(body, i)
		case KeyEOF:
			f.EOF, i = boolAt(body, i)
		case KeyIsSequence:
			f.IsSequence, i = boolAt(body, i)
		case KeyForceKill:
			f.ForceKill, i = boolAt(body, i)
		case KeyUnbounded:
			f.Unbounded, i = boolAt(body, i)
		case KeyMeta:
			f.Meta, i = metaAt(body, i)
		}
		if i < 0 {
			return refuse(body, wrongType(body, key, at))
		}
	}
	if i != len(body) || recheck {
		if err := checkBody(body); err != nil {
			return err
		}
	}
	f.Has = seen &^ impliedKeys
	if required := requiredKeys(f.Type); seen&required != required {
		return missingField(required &^ seen)
	}
	return nil
}

// impliedKeys are the keys that every frame has and Frame.Has does not hold.
const impliedKeys Keys = 1<<KeyVersion | 1<<KeyType | 1<<KeyID | 1<<KeySeq

// requiredKeys are those without which a frame of type t does not decode (spec/wire.md 2.2).
func requiredKeys(t Type) Keys {
	const always = 1<<KeyVersion | 1<<KeyType | 1<<KeyID
	switch t {
	case TypeChunk:
		return always | 1<<KeyChunkIndex | 1<<KeyChecksum
	case TypeCredit:
		return always | 1<<KeyCredit
	}
	return always
}

func validType(v uint64) bool { return v < TypeCount && v != 2 }

// metaAt checks the map at b[i:] in every respect and returns it as it stands.
func metaAt(b []byte, i int) (raw []byte, next int) {
	h, at := readHead(b, i)
	if at < 0 || h.major != majorMap {
		return nil, -1
	}
	c := checker{b: b, maxDepth: maxFrameDepth, unique: true}
	next, err := c.entries(h, at, 2, textKeys)
	if err != nil {
		return nil, -1 // found again, and explained, on the slow path
	}
	return b[i:next:next], next
}

// refuse is the slow path of Decode: a fault of the layer "cbor" anywhere in the body goes before the one found.
func refuse(body []byte, found *SyntaxError) error {
	if err := checkBody(body); err != nil {
		return err
	}
	if found == nil { // unreachable: the fast path refuses nothing that the checker accepts
		return syntaxf(TokenBadCBOR, Nowhere, "not a frame")
	}
	return found
}

func keyError(token string, key Key, at int, format string, args ...any) *SyntaxError {
	err := syntaxf(token, at, format, args...)
	err.Key = int(key)
	return err
}

// wrongType explains why the value at b[at:] does not suit key.
func wrongType(b []byte, key Key, at int) *SyntaxError {
	token, want := TokenWrongType, "an unsigned integer"
	switch key {
	case KeyID, KeyRoutingID:
		token, want = TokenBadID, "16 bytes or an unsigned integer"
	case KeyPayload:
		want = "bytes"
	case KeyContentType, KeyCap, KeyStreamID, KeyMediaURN:
		want = "text"
	case KeyMeta:
		want = "a map"
	case KeyEOF, KeyIsSequence, KeyForceKill, KeyUnbounded:
		want = "true or false"
	}
	return keyError(token, key, at, "%s, want %s", describe(b, at), want)
}

// describe names the kind of the item at b[at:] for error texts.
func describe(b []byte, at int) string {
	h, next := readHead(b, at)
	if next < 0 {
		return "nothing"
	}
	switch h.major {
	case majorUint:
		return "an unsigned integer"
	case majorNeg:
		return "a negative integer"
	case majorBytes:
		return "bytes"
	case majorText:
		return "text"
	case majorArray:
		return "an array"
	case majorMap:
		return "a map"
	case majorTag:
		return "a tag"
	}
	switch b[at] {
	case byteFalse, byteTrue:
		return "a boolean"
	case byteNull:
		return "null"
	}
	if h.info >= infoTwo && h.info <= infoEight {
		return "a float"
	}
	return "a simple value"
}

// missingField names the lowest of the keys that should be there.
func missingField(missing Keys) *SyntaxError {
	return keyError(TokenMissingField, Key(bits.TrailingZeros32(uint32(missing))), Nowhere, "it must be there")
}

// PrefixLen judges the length prefix of a frame: the size of its body in bytes, at most maxFrame and never above
// [MaxBody]. The error is a [*SyntaxError], empty-frame or frame-too-large.
func PrefixLen(p [PrefixSize]byte, maxFrame uint64) (int, error) {
	n := uint64(binary.BigEndian.Uint32(p[:]))
	if limit := min(maxFrame, MaxBody); n > limit {
		return 0, syntaxf(TokenFrameTooLarge, Nowhere, "frame body of %d bytes (prefix %x), at most %d", n, p, limit)
	}
	if n == 0 {
		return 0, syntaxf(TokenEmptyFrame, Nowhere, "length prefix 0")
	}
	return int(n), nil
}
