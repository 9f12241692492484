package audio

import (
	"bytes"
	"encoding/binary"
)

// tail judges the bytes of a data chunk whose end is not certain: they are samples until a chain of chunks starts
// that ends with the input. See [WAV] for the rules.
type tail struct {
	mode  tailMode
	limit int // bytes of held
	pad   bool
	riff  uint64 // bytes that the RIFF header leaves for chunks from the end of the data on; 0 when it is no use
	odd   bool   // the number of bytes since the data began is odd

	held    []byte // bytes not yet passed on: the start of a name, or a suspect
	certain bool   // the suspect starts with a known name
	walked  int    // where in held the next chunk header must stand
	zeros   int    // up to where in held there are only zeros from walked on
}

type tailMode uint8

const (
	atExpectedEnd tailMode = iota // the data should end here
	scanning                      // samples, on the look-out for a name
	suspecting                    // held starts with what looks like a chunk
	finished                      // the rest is chunks
)

// reset starts anew, in front of the samples. frameBytes is the size of a frame: where it is odd, a pad byte may
// stand between samples and chunk.
func (t *tail) reset(frameBytes, limit int) {
	*t = tail{limit: limit, pad: frameBytes%2 == 1, held: t.held[:0]}
}

// scan says that nothing is known about where the samples end.
func (t *tail) scan() { t.mode = scanning }

// expected says that size bytes of samples come first, which this tail will not see, behind start bytes of header.
func (t *tail) expected(size, start, riffSize uint64) {
	t.odd = size%2 == 1
	if end := riffSize + chunkHeaderBytes; riffSize < 1<<62 && end > start+size {
		t.riff = end - (start + size)
	}
}

// feed takes bytes behind the believed data.
func (t *tail) feed(p []byte, emit func([]byte) error) error {
	for len(p) > 0 {
		switch t.mode {
		case finished:
			return nil
		case scanning:
			if len(t.held) == 0 {
				n := t.find(p)
				if n > 0 {
					t.odd = t.odd != (n%2 == 1)
					if err := emit(p[:n]); err != nil {
						return err
					}
				}
				if p = p[n:]; len(p) == 0 {
					return nil
				}
			}
			fallthrough
		default:
			// One byte at a time up to the next decision, then as many as the chunk has.
			n := min(len(p), t.wanted())
			t.held = append(t.held, p[:n]...)
			p = p[n:]
			if err := t.judge(emit); err != nil {
				return err
			}
		}
	}
	return nil
}

// find returns where in p a chunk may start, or len(p).
func (t *tail) find(p []byte) int {
	for i, b := range p {
		if len(chunksWith[b]) > 0 && mayBeKnown(p[i:]) {
			return i
		}
		if b == 0 && t.pad && t.odd != (i%2 == 1) && mayBeKnown(p[i+1:]) {
			return i
		}
	}
	return len(p)
}

// wanted is how many bytes more bring the next decision.
func (t *tail) wanted() int {
	if t.mode == suspecting && t.walked > len(t.held) {
		return min(t.walked-len(t.held), t.limit)
	}
	return 1
}

// judge looks at held again.
func (t *tail) judge(emit func([]byte) error) error {
	switch t.mode {
	case atExpectedEnd:
		return t.judgeEnd(emit)
	case scanning:
		return t.judgeName(emit)
	case suspecting:
		return t.judgeChain(emit)
	}
	return nil
}

// judgeEnd decides what stands where the data should have ended.
func (t *tail) judgeEnd(emit func([]byte) error) error {
	at := 0
	if t.odd && len(t.held) > 0 && !mayBeKnown(t.held) {
		at = 1 // the pad byte
	}
	name := t.held[at:]
	if len(name) < chunkHeaderBytes {
		if printable(name) {
			return nil // not enough to tell
		}
		t.mode = scanning
		return t.again(emit)
	}
	size := uint64(binary.LittleEndian.Uint32(name[4:]))
	end := uint64(at) + chunkHeaderBytes + size
	switch {
	case knownChunk(name):
		t.mode, t.held = finished, nil
		return nil
	case !printable(name):
	case end <= uint64(t.limit):
		t.mode, t.certain, t.walked, t.zeros = suspecting, false, int(end), 0
		return nil
	case end+size%2 == t.riff || end+chunkHeaderBytes <= t.riff:
		t.mode, t.held = finished, nil
		return nil
	}
	t.mode = scanning
	return t.again(emit)
}

// judgeName decides whether held, which starts like a known name, is one.
func (t *tail) judgeName(emit func([]byte) error) error {
	at := 0
	if t.held[0] == 0 && t.pad {
		at = 1
	}
	name := t.held[at:]
	switch {
	case !mayBeKnown(name):
		return t.refute(emit)
	case len(name) < chunkHeaderBytes:
		return nil
	}
	end := uint64(at) + chunkHeaderBytes + uint64(binary.LittleEndian.Uint32(name[4:]))
	if end > uint64(t.limit) {
		return t.refute(emit)
	}
	t.mode, t.certain, t.walked, t.zeros = suspecting, true, int(end), 0
	return t.judgeChain(emit)
}

// judgeChain follows the chain of chunks as far as held goes.
func (t *tail) judgeChain(emit func([]byte) error) error {
	for t.walked < len(t.held) {
		t.zeros = max(t.zeros, t.walked)
		for t.zeros < len(t.held) && t.held[t.zeros] == 0 {
			t.zeros++
		}
		if t.zeros == len(t.held) {
			break // a pad byte, or a file that is filled up
		}
		p := t.held[t.zeros:]
		if t.zeros > t.walked+1 || !printable(p) {
			return t.refute(emit)
		}
		if len(p) < chunkHeaderBytes {
			break
		}
		next := uint64(t.zeros) + chunkHeaderBytes + uint64(binary.LittleEndian.Uint32(p[4:]))
		if next > uint64(t.limit) {
			return t.overflow(emit)
		}
		t.walked = int(next)
	}
	if len(t.held) >= t.limit {
		return t.overflow(emit)
	}
	return nil
}

// overflow ends a suspicion that would hold too much: a chain of at least one known chunk is believed.
func (t *tail) overflow(emit func([]byte) error) error {
	if t.certain {
		t.mode, t.held = finished, nil
		return nil
	}
	return t.refute(emit)
}

// refute says that held did not start a chain of chunks: its first byte is a sample, and what follows is looked at
// once more. A chain that began with a known name is not searched again, so that nobody can make this slow.
func (t *tail) refute(emit func([]byte) error) error {
	n := 1
	if t.mode == suspecting && t.certain {
		n = min(t.walked, len(t.held))
	}
	t.mode = scanning
	held := t.held
	t.held = nil
	t.odd = t.odd != (n%2 == 1)
	if err := emit(held[:n]); err != nil {
		return err
	}
	return t.feed(held[n:], emit)
}

// again sends held through once more in the new mode.
func (t *tail) again(emit func([]byte) error) error {
	held := t.held
	t.held = nil
	return t.feed(held, emit)
}

// close decides about what is held when the input ends.
func (t *tail) close(emit func([]byte) error) error {
	for len(t.held) > 0 && t.mode != finished {
		switch t.mode {
		case atExpectedEnd:
			if t.odd && len(t.held) == 1 {
				return nil // the pad byte
			}
			t.mode = scanning
			if err := t.again(emit); err != nil {
				return err
			}
			continue
		case scanning:
			// A known name that is cut short is a chunk all the same.
			name := t.held
			if name[0] == 0 && t.pad {
				name = name[1:]
			}
			if len(name) >= 4 && knownChunk(name) {
				return nil
			}
		case suspecting:
			// The chain ends with the input, give or take a pad byte or filling, or its known chunk is cut short.
			complete := t.walked <= len(t.held) && allZero(t.held[t.walked:])
			if complete || t.certain {
				return nil
			}
		}
		if err := t.refute(emit); err != nil {
			return err
		}
	}
	return nil
}

// chunkNames are the chunks that stand in front of and behind the samples of real files.
var chunkNames = [...]string{
	"LIST", "id3 ", "ID3 ", "fact", "PEAK", "cue ", "smpl", "inst", "plst", "labl", "note", "ltxt", "bext", "iXML", "axml",
	"chna", "cart", "umid", "levl", "link", "JUNK", "junk", "FLLR", "PAD ", "acid", "strc", "afsp", "DISP", "_PMX", "wamd",
	"guan", "minf", "elm1", "regn", "AFAn", "ResU", "LGWV", "MD5 ", "Fake",
}

// chunksWith has the chunkNames with each first letter.
var chunksWith = func() (table [256][]string) {
	for _, name := range chunkNames {
		table[name[0]] = append(table[name[0]], name)
	}
	return table
}()

// knownChunk reports whether p starts with the name of a chunk that is known, those of the header included.
func knownChunk(p []byte) bool {
	if len(p) < 4 {
		return false
	}
	switch string(p[:4]) {
	case "fmt ", "data", "ds64":
		return true
	}
	return mayBeKnown(p)
}

// mayBeKnown reports whether p starts with one of chunkNames, or is the start of one. Nothing is the start of all.
func mayBeKnown(p []byte) bool {
	if len(p) == 0 {
		return true
	}
	p = p[:min(len(p), 4)]
	for _, name := range chunksWith[p[0]] {
		if string(p) == name[:len(p)] {
			return true
		}
	}
	return false
}

// printable reports whether the first bytes of p, at most four, could be of a chunk's name.
func printable(p []byte) bool {
	for _, b := range p[:min(len(p), 4)] {
		if b < ' ' || b > '~' {
			return false
		}
	}
	return true
}

func allZero(p []byte) bool { return len(bytes.TrimLeft(p, "\x00")) == 0 }
