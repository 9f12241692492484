package audio

import (
	"encoding/binary"
)

// Defaults of [Limits].
const (
	defaultHeaderBytes = 16 << 20
	defaultTailBytes   = 1 << 20
)

// placeholderLength is the smallest length that is no length but a writer's way of saying that it did not know:
// 7ffff000 (sox, espeak-ng), 7fffffff, 80000000, ffffffff (ffmpeg) and their neighbours. Lengths of real files in this
// range are read the same way and come out right.
const placeholderLength = 0x7fff_0000

// riffHeaderBytes and chunkHeaderBytes are the sizes of what stands before a form and before a chunk.
const (
	riffHeaderBytes  = 12
	chunkHeaderBytes = 8
	ds64Bytes        = 24 // of the ds64 chunk, as far as it is read
)

// Limits bounds what a [WAV] puts up with. A zero field takes its default.
type Limits struct {
	HeaderBytes int64 // of everything in front of the samples, nearly all of it skipped unseen; default 16 MiB
	TailBytes   int   // kept back while it looks like chunks behind the samples; default 1 MiB, at least 16
}

// WAV is the stage that finds the samples in a WAV stream (RIFF, or RF64 and BW64 for the long ones). It never seeks
// and never waits for a length: what a chunk length says about the samples is taken as a hint.
//
// Where the samples end. A data length that is 0 or a placeholder, and one that turns out to be wrong, lead to the
// real end of the input. A believable length n is right when nothing follows the n bytes, or what follows are chunks.
// Chunks are told from samples by their names: a known name (LIST, id3, bext, …) exactly behind the n bytes decides
// at once. Everywhere behind them, and anywhere in data without a believable length, a known name with a length in
// reason is a suspect: it is kept back, up to Limits.TailBytes, and dropped when a chain of chunks from there ends with
// the input, otherwise passed on as the samples it was. So a length that is two bytes short in front of a LIST chunk
// loses nothing: the two bytes are samples, the chunk is not. Names that are not known count exactly behind the n
// bytes only, and must pass the same test, or fit the length in the RIFF header when they are too long to keep.
type WAV struct {
	limits Limits
	state  wavState
	err    error // sticky

	gathered []byte // bytes of the piece that state waits for
	need     int    // how many bytes that piece has; at most extensibleFmtBytes
	skip     uint64 // bytes of the current chunk still to be thrown away
	odd      bool   // a pad byte may stand in front of the next chunk
	header   uint64 // bytes in front of the samples so far

	format   Format
	riffSize uint64 // what the RIFF header says, 0 when that is no use
	longData uint64 // the data length of ds64, 0 without
	ds64     bool

	left uint64 // bytes of data still believed in
	tail tail
}

type wavState uint8

const (
	inRIFF wavState = iota
	inChunkHeader
	inFmt
	inDS64
	inSkipped
	inData
	inTail
)

// NewWAV makes the stage for one stream.
func NewWAV(limits Limits) *WAV {
	if limits.HeaderBytes <= 0 {
		limits.HeaderBytes = defaultHeaderBytes
	}
	if limits.TailBytes <= 0 {
		limits.TailBytes = defaultTailBytes
	}
	limits.TailBytes = max(limits.TailBytes, 2*chunkHeaderBytes)
	return &WAV{limits: limits, need: riffHeaderBytes}
}

// Format is the format of the samples. ok is false until the fmt chunk has been read, which is before the first emit.
func (w *WAV) Format() (f Format, ok bool) { return w.format, w.format.Rate != 0 }

// Feed takes the next bytes of the stream and emits bytes of samples, cut anywhere. p is not kept. A failure of
// class input, or the error of emit, ends the stage: every later call returns it again.
func (w *WAV) Feed(p []byte, emit func(raw []byte) error) error {
	for len(p) > 0 && w.err == nil {
		p = w.step(p, emit)
	}
	return w.err
}

// Close says that the input has ended: it emits what was kept back, and reports a stream that ended before its samples.
func (w *WAV) Close(emit func(raw []byte) error) error {
	if w.err != nil {
		return w.err
	}
	switch w.state {
	case inData:
	case inTail:
		w.err = w.tail.close(emit)
	case inRIFF:
		if len(w.gathered) == 0 {
			w.err = bad("the input is empty: a WAV stream has a header even when it holds no samples")
		} else {
			w.err = notWAV(w.gathered)
		}
	default:
		w.err = bad("the WAV stream ends in its header, after %d bytes: fmt and data chunks must follow", w.header+uint64(len(w.gathered)))
	}
	return w.err
}

// Discontinuity says that bytes were lost in front of the next ones, which start a frame. It emits what was kept
// back. No length can be believed from here on.
func (w *WAV) Discontinuity(emit func(raw []byte) error) error {
	if w.err == nil && (w.state == inData || w.state == inTail && w.tail.mode != finished) {
		if w.state == inTail {
			w.err = w.tail.close(emit)
		}
		w.state = inTail
		w.tail.reset(w.format.FrameBytes(), w.limits.TailBytes)
		w.tail.scan()
	}
	return w.err
}

// step makes one move and returns the bytes it left over.
func (w *WAV) step(p []byte, emit func([]byte) error) []byte {
	switch w.state {
	case inSkipped:
		n := int(min(w.skip, uint64(len(p))))
		w.skip -= uint64(n)
		if w.skip == 0 {
			w.expect(inChunkHeader, chunkHeaderBytes)
		}
		return p[n:]
	case inData:
		n := int(min(w.left, uint64(len(p))))
		w.left -= uint64(n)
		if w.left == 0 {
			w.state = inTail
		}
		w.err = emit(p[:n])
		return p[n:]
	case inTail:
		w.err = w.tail.feed(p, emit)
		return nil
	}
	n := min(w.need-len(w.gathered), len(p))
	w.gathered = append(w.gathered, p[:n]...)
	if len(w.gathered) == w.need {
		w.err = w.piece()
	}
	return p[n:]
}

// expect starts to gather the next piece.
func (w *WAV) expect(s wavState, bytes int) {
	w.state, w.need, w.gathered = s, bytes, w.gathered[:0]
}

// piece takes the piece that is complete now.
func (w *WAV) piece() error {
	p := w.gathered
	switch w.state {
	case inRIFF:
		return w.riff(p)
	case inFmt:
		w.header += uint64(len(p))
		if w.format.Rate == 0 { // the first one counts
			f, err := parseFmt(p)
			if err != nil {
				return err
			}
			w.format = f
		}
		w.pass(w.skip)
	case inDS64:
		w.header += uint64(len(p))
		w.riffSize, w.longData = binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])
		w.pass(w.skip)
	case inChunkHeader:
		return w.chunk(p)
	}
	return nil
}

func (w *WAV) riff(p []byte) error {
	switch form := string(p[:4]); {
	case string(p[8:12]) != "WAVE", form != "RIFF" && form != "RF64" && form != "BW64":
		return notWAV(p)
	case form != "RIFF":
		w.ds64 = true
	}
	if size := binary.LittleEndian.Uint32(p[4:]); size < placeholderLength {
		w.riffSize = uint64(size)
	}
	w.header = riffHeaderBytes
	w.expect(inChunkHeader, chunkHeaderBytes)
	return nil
}

// chunk takes a chunk header. Behind a chunk of odd size there is a pad byte, which some writers forget: if the name
// is a known one only when the byte is taken for one, or only when it is not, that decides.
func (w *WAV) chunk(p []byte) error {
	if w.odd && !(knownChunk(p) && !knownChunk(p[1:])) {
		w.odd = false
		w.header++
		w.gathered = append(p[:0], p[1:]...)
		return nil // one byte more is needed
	}
	w.odd = false
	w.header += chunkHeaderBytes
	name, size := string(p[:4]), uint64(binary.LittleEndian.Uint32(p[4:]))
	if name == "data" {
		return w.data(size)
	}
	if !printable(p) {
		return bad("WAV header: %q at byte %d is no name of a chunk", name, w.header-chunkHeaderBytes)
	}
	if w.header+size > uint64(w.limits.HeaderBytes) {
		return bad("WAV header: chunk %q says it has %d bytes, but only %d may stand in front of the samples", name, size, w.limits.HeaderBytes)
	}
	w.odd = size%2 == 1
	gather := 0
	switch {
	case name == "fmt ":
		gather = min(int(size), extensibleFmtBytes)
		if gather < plainFmtBytes {
			return bad("fmt chunk has %d bytes: it takes at least %d", size, plainFmtBytes)
		}
		w.expect(inFmt, gather)
	case name == "ds64" && w.ds64 && size >= ds64Bytes:
		gather = ds64Bytes
		w.expect(inDS64, gather)
	default:
		w.pass(size)
		return nil
	}
	w.skip = size - uint64(gather)
	return nil
}

// pass throws n bytes away and then waits for a chunk.
func (w *WAV) pass(n uint64) {
	w.header += n
	w.expect(inChunkHeader, chunkHeaderBytes)
	if w.skip = n; n > 0 {
		w.state = inSkipped
	}
}

// data starts the samples.
func (w *WAV) data(size uint64) error {
	if w.format.Rate == 0 {
		return bad("WAV header: the data chunk comes before the fmt chunk, so nothing says what the samples are")
	}
	w.gathered = nil
	w.tail.reset(w.format.FrameBytes(), w.limits.TailBytes)
	if w.ds64 && size >= placeholderLength && w.longData > 0 && w.longData < 1<<62 {
		size = w.longData
	} else if size >= placeholderLength {
		w.tail.scan()
		size = 0
	}
	w.tail.expected(size, w.header, w.riffSize)
	w.left = size
	if w.state = inTail; size > 0 {
		w.state = inData
	}
	return nil
}
