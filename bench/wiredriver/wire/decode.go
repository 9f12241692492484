package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

var (
	errShort = errors.New("wire: truncated CBOR")
	errType  = errors.New("wire: unexpected CBOR type")
)

// head decodes one CBOR item head: major type, argument, whether the length
// is indefinite, and the number of bytes used.
func head(b []byte) (major byte, arg uint64, indef bool, n int, err error) {
	if len(b) == 0 {
		return 0, 0, false, 0, errShort
	}
	major, low := b[0]>>5, b[0]&31
	switch {
	case low < 24:
		return major, uint64(low), false, 1, nil
	case low == 24:
		if len(b) < 2 {
			return 0, 0, false, 0, errShort
		}
		return major, uint64(b[1]), false, 2, nil
	case low == 25:
		if len(b) < 3 {
			return 0, 0, false, 0, errShort
		}
		return major, uint64(binary.BigEndian.Uint16(b[1:])), false, 3, nil
	case low == 26:
		if len(b) < 5 {
			return 0, 0, false, 0, errShort
		}
		return major, uint64(binary.BigEndian.Uint32(b[1:])), false, 5, nil
	case low == 27:
		if len(b) < 9 {
			return 0, 0, false, 0, errShort
		}
		return major, binary.BigEndian.Uint64(b[1:]), false, 9, nil
	case low == 31:
		return major, 0, true, 1, nil
	}
	return 0, 0, false, 0, errors.New("wire: reserved CBOR additional information")
}

// SkipItem returns the length of the CBOR item at the start of b. It returns
// errShort (see IsShort) when b holds only a prefix of an item.
func SkipItem(b []byte) (int, error) { return skip(b, 0) }

// IsShort reports whether err says that more bytes are needed.
func IsShort(err error) bool { return err == errShort }

func skip(b []byte, depth int) (int, error) {
	if depth > 32 {
		return 0, errors.New("wire: CBOR nested too deep")
	}
	major, arg, indef, n, err := head(b)
	if err != nil {
		return 0, err
	}
	switch major {
	case 0, 1, 7:
		if indef {
			return 0, errType
		}
		return n, nil
	case 2, 3:
		if !indef {
			if arg > uint64(len(b)-n) {
				return 0, errShort
			}
			return n + int(arg), nil
		}
		for {
			if n >= len(b) {
				return 0, errShort
			}
			if b[n] == 0xff {
				return n + 1, nil
			}
			k, err := skip(b[n:], depth+1)
			if err != nil {
				return 0, err
			}
			n += k
		}
	case 6:
		k, err := skip(b[n:], depth+1)
		return n + k, err
	}
	// arrays and maps
	per := uint64(1)
	if major == 5 {
		per = 2
	}
	if !indef {
		if arg > math.MaxInt32 {
			return 0, errShort
		}
		for i := uint64(0); i < arg*per; i++ {
			k, err := skip(b[n:], depth+1)
			if err != nil {
				return 0, err
			}
			n += k
		}
		return n, nil
	}
	for {
		if n >= len(b) {
			return 0, errShort
		}
		if b[n] == 0xff {
			return n + 1, nil
		}
		k, err := skip(b[n:], depth+1)
		if err != nil {
			return 0, err
		}
		n += k
	}
}

func getID(b []byte) (ID, int, error) {
	major, arg, indef, n, err := head(b)
	if err != nil {
		return ID{}, 0, err
	}
	switch {
	case major == 0:
		return IntID(arg), n, nil
	case major == 2 && !indef && arg == 16:
		if len(b) < n+16 {
			return ID{}, 0, errShort
		}
		var id ID
		copy(id.UUID[:], b[n:])
		return id, n + 16, nil
	}
	return ID{}, 0, errType
}

// Decode parses the CBOR map in b into f. Byte fields alias b.
func Decode(b []byte, f *Frame) error {
	*f = Frame{}
	major, count, indef, pos, err := head(b)
	if err != nil {
		return err
	}
	if major != 5 {
		return errType
	}
	for i := uint64(0); indef || i < count; i++ {
		if pos >= len(b) {
			return errShort
		}
		if indef && b[pos] == 0xff {
			break
		}
		km, key, _, n, err := head(b[pos:])
		if err != nil {
			return err
		}
		if km != 0 {
			return errType
		}
		pos += n
		v := b[pos:]
		if key == KID || key == KXID {
			id, n, err := getID(v)
			if err != nil {
				return err
			}
			if key == KID {
				f.ID = id
			} else {
				f.XID = id
			}
			f.Has |= 1 << key
			pos += n
			continue
		}
		if key == KMeta || key >= numKeys {
			n, err := skip(v, 0)
			if err != nil {
				return err
			}
			if key == KMeta {
				f.Meta = v[:n]
				f.Has |= 1 << KMeta
			}
			pos += n
			continue
		}
		vm, arg, vind, n, err := head(v)
		if err != nil {
			return err
		}
		if vind {
			return fmt.Errorf("wire: indefinite-length value for key %d", key)
		}
		f.Has |= 1 << key
		switch key {
		case KContentType, KCap, KStreamID, KMediaURN, KPayload:
			want := byte(3)
			if key == KPayload {
				want = 2
			}
			if vm != want {
				return errType
			}
			if arg > uint64(len(v)-n) {
				return errShort
			}
			s := v[n : n+int(arg)]
			n += int(arg)
			switch key {
			case KContentType:
				f.ContentType = s
			case KCap:
				f.Cap = s
			case KStreamID:
				f.StreamID = s
			case KMediaURN:
				f.MediaURN = s
			default:
				f.Payload = s
			}
		case KEOF, KIsSequence, KForceKill, KUnbounded:
			if vm != 7 || (arg != 20 && arg != 21) {
				return errType
			}
			t := arg == 21
			switch key {
			case KEOF:
				f.EOF = t
			case KIsSequence:
				f.IsSequence = t
			case KForceKill:
				f.ForceKill = t
			default:
				f.Unbounded = t
			}
		default:
			if vm != 0 {
				return errType
			}
			switch key {
			case KVersion:
				f.Version = arg
			case KType:
				f.Type = arg
			case KSeq:
				f.Seq = arg
			case KLen:
				f.Len = arg
			case KOffset:
				f.Offset = arg
			case KChunkIndex:
				f.ChunkIndex = arg
			case KChunkCount:
				f.ChunkCount = arg
			case KChecksum:
				f.Checksum = arg
			case KCredit:
				f.Credit = arg
			}
		}
		pos += n
	}
	const need = 1<<KVersion | 1<<KType | 1<<KID
	if f.Has&need != need {
		return errors.New("wire: frame lacks version, type or id")
	}
	return nil
}

// Inner returns the content of a payload that is one CBOR byte or text
// string, without copying. ok is false for any other payload.
func Inner(p []byte) (data []byte, ok bool) {
	major, arg, indef, n, err := head(p)
	if err != nil || indef || (major != 2 && major != 3) || arg != uint64(len(p)-n) {
		return nil, false
	}
	return p[n:], true
}
