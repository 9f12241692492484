package wire

import (
	"encoding/binary"
	"math/bits"
)

// AppendHead appends a CBOR head in its shortest form.
func AppendHead(b []byte, major byte, n uint64) []byte {
	m := major << 5
	switch {
	case n < 24:
		return append(b, m|byte(n))
	case n <= 0xff:
		return append(b, m|24, byte(n))
	case n <= 0xffff:
		return append(b, m|25, byte(n>>8), byte(n))
	case n <= 0xffffffff:
		b = append(b, m|26)
		return binary.BigEndian.AppendUint32(b, uint32(n))
	}
	b = append(b, m|27)
	return binary.BigEndian.AppendUint64(b, n)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 0xf5)
	}
	return append(b, 0xf4)
}

func appendID(b []byte, id ID) []byte {
	if id.Int {
		return AppendHead(b, 0, id.Num)
	}
	b = append(b, 0x50)
	return append(b, id.UUID[:]...)
}

const always = 1<<KVersion | 1<<KType | 1<<KID

// Append appends the frame with its length prefix. Keys present are those in
// f.Has plus version, type and id; they are written in ascending order.
func (f *Frame) Append(b []byte) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = f.appendUpToPayload(b)
	if f.HasKey(KPayload) {
		b = AppendHead(b, 2, uint64(len(f.Payload)))
		b = append(b, f.Payload...)
	}
	b = f.appendAfterPayload(b)
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

// Around appends to front all of the prefixed frame that comes before the
// payload bytes and to tail all that comes after them.
func (f *Frame) Around(front, tail []byte) ([]byte, []byte) {
	front = append(front, 0, 0, 0, 0)
	front = f.appendUpToPayload(front)
	front = AppendHead(front, 2, uint64(len(f.Payload)))
	tail = f.appendAfterPayload(tail)
	binary.BigEndian.PutUint32(front, uint32(len(front)-4+len(f.Payload)+len(tail)))
	return front, tail
}

// appendUpToPayload writes the map head and every key below the payload's,
// and the payload's key itself (not its value) when the payload is present.
func (f *Frame) appendUpToPayload(b []byte) []byte {
	has := f.Has | always
	b = AppendHead(b, 5, uint64(bits.OnesCount32(has)))
	b = append(b, KVersion)
	b = AppendHead(b, 0, f.Version)
	b = append(b, KType)
	b = AppendHead(b, 0, f.Type)
	b = append(b, KID)
	b = appendID(b, f.ID)
	if has&(1<<KSeq) != 0 {
		b = append(b, KSeq)
		b = AppendHead(b, 0, f.Seq)
	}
	if has&(1<<KContentType) != 0 {
		b = append(b, KContentType)
		b = AppendHead(b, 3, uint64(len(f.ContentType)))
		b = append(b, f.ContentType...)
	}
	if has&(1<<KMeta) != 0 {
		b = append(b, KMeta)
		b = append(b, f.Meta...)
	}
	if has&(1<<KPayload) != 0 {
		b = append(b, KPayload)
	}
	return b
}

func (f *Frame) appendAfterPayload(b []byte) []byte {
	has := f.Has
	num := func(k byte, v uint64) {
		if has&(1<<k) != 0 {
			b = AppendHead(append(b, k), 0, v)
		}
	}
	text := func(k byte, v []byte) {
		if has&(1<<k) != 0 {
			b = append(AppendHead(append(b, k), 3, uint64(len(v))), v...)
		}
	}
	num(KLen, f.Len)
	num(KOffset, f.Offset)
	if has&(1<<KEOF) != 0 {
		b = appendBool(append(b, KEOF), f.EOF)
	}
	text(KCap, f.Cap)
	text(KStreamID, f.StreamID)
	text(KMediaURN, f.MediaURN)
	if has&(1<<KXID) != 0 {
		b = appendID(append(b, KXID), f.XID)
	}
	num(KChunkIndex, f.ChunkIndex)
	num(KChunkCount, f.ChunkCount)
	num(KChecksum, f.Checksum)
	if has&(1<<KIsSequence) != 0 {
		b = appendBool(append(b, KIsSequence), f.IsSequence)
	}
	if has&(1<<KForceKill) != 0 {
		b = appendBool(append(b, KForceKill), f.ForceKill)
	}
	num(KCredit, f.Credit)
	if has&(1<<KUnbounded) != 0 {
		b = appendBool(append(b, KUnbounded), f.Unbounded)
	}
	return b
}

// CBORBytes wraps data as one CBOR byte string.
func CBORBytes(data []byte) []byte {
	b := AppendHead(make([]byte, 0, len(data)+9), 2, uint64(len(data)))
	return append(b, data...)
}
