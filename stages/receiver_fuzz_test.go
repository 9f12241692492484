package stages

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

// FuzzReceiver reads bytes as a little program of frames of two streams and of reads, and compares with the naive model.
func FuzzReceiver(f *testing.F) {
	f.Add([]byte{0, 10, 2, 1, 2, 40, 50, 30, 40, 20})
	f.Add([]byte{1, 10, 1, 0x42, 11, 1, 9, 10, 1, 8, 40, 10, 1, 7, 40, 40, 20, 21, 30})
	f.Add([]byte{3, 10, 3, 0x82, 1, 0x41, 10, 0, 10, 1, 5, 40, 40, 60, 10, 1, 1, 40})
	f.Add([]byte{5, 12, 1, 1, 70, 40, 12, 1, 2})
	f.Add([]byte{2, 13, 1, 1})
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) == 0 {
			return
		}
		how := program[0]
		program = program[1:]
		windows := []int{1, 2, 3, 32}
		window := windows[how>>3&3]
		l := newTestLink(withCredit(uint64(window)))
		p := l.receive()
		if how&4 != 0 {
			p.Merge()
		}
		var in [2]*Inbox
		var model [2]*naive
		read, over := [2]int{}, [2]bool{}
		for s := range in {
			model[s] = &naive{window: window, sequence: how&(1<<s) != 0}
			in[s] = p.start(t, fmt.Sprint(s), model[s].sequence)
		}
		granted := func(s int) uint64 {
			return credits(decodeWire(t, l.Lanes.ctl.buf))[fmt.Sprint(s)] + in[s].granter.merged
		}
		discarded := false
		for len(program) > 0 {
			op, arg := program[0], program[1:]
			program = program[1:]
			s := int(op & 1)
			switch op / 10 {
			case 1: // a chunk, 2: with a wrong index, 3: with a wrong checksum
				if len(arg) == 0 {
					return
				}
				n := min(int(arg[0]&31), len(arg)-1)
				payload := append([]byte{}, arg[1:1+n]...)
				program = arg[1+n:]
				index := len(model[s].sent)
				chunk := chunkFrame(fmt.Sprint(s), index, payload)
				wrong := op%10 >= 8
				if op%10 == 8 {
					chunk.ChunkIndex++
				} else if op%10 == 9 {
					chunk.Checksum++
				}
				free := uint64(index) < uint64(window)+granted(s)
				want := ""
				switch {
				case over[s], op%10 == 8:
					want = failure.ProtocolError
				case !free:
					want = failure.CreditViolation
				case wrong:
					want = failure.CorruptedData
				case !fits(model[s], payload):
					want = failure.DecodeError
				}
				fault := p.Chunk(chunk, nil)
				if want == "" {
					require.Nil(t, fault)
					model[s].take(payload, nil)
					continue
				}
				if fault == nil && want == failure.DecodeError && model[s].sequence {
					// A head that is cut is judged when the rest of it has come, at the end of the stream at the latest.
					fault = p.StreamEnd(streamEndFrame(fmt.Sprint(s), index+1))
				}
				require.NotNil(t, fault, "want %s", want)
				require.Equal(t, want, fault.Code)
				return
			case 2: // a stream ends
				fault := p.StreamEnd(streamEndFrame(fmt.Sprint(s), len(model[s].sent)))
				switch {
				case over[s]:
					require.Equal(t, failure.ProtocolError, fault.Code)
					return
				case len(model[s].bytes) > 0:
					require.Equal(t, failure.DecodeError, fault.Code)
					require.ErrorContains(t, fault, fmt.Sprintf("%d bytes", len(model[s].bytes)))
					return
				}
				require.Nil(t, fault)
				over[s] = true
			case 3: // the body ends
				fault := p.End()
				if !over[0] || !over[1] {
					require.Equal(t, failure.ProtocolError, fault.Code)
				} else {
					require.Nil(t, fault)
				}
				return
			case 4: // an item is read
				if how&4 != 0 || discarded {
					continue
				}
				item, err := in[s].Next(ended())
				if read[s] < len(model[s].items) {
					want := model[s].items[read[s]].enc
					if !clean(want) {
						require.Error(t, err)
						return
					}
					require.NoError(t, err)
					require.Equal(t, want, item.Enc)
					read[s]++
					continue
				}
				require.Error(t, err)
				require.Equal(t, over[s], errors.Is(err, io.EOF))
			case 5: // what was read is granted
				p.Flush()
			case 6: // the consumer goes away
				p.Discard()
				discarded = true
			}
			for s := range in {
				got := granted(s)
				switch {
				case over[s]:
				case discarded:
					require.Equal(t, uint64(len(model[s].sent)), got, "all that was discarded is granted")
				case how&4 == 0:
					least, most := model[s].credited(read[s])
					require.LessOrEqual(t, got, most)
					require.Greater(t, got+max(1, uint64(window)/2), least)
				}
				require.LessOrEqual(t, got, uint64(len(model[s].sent)), "more granted than arrived")
			}
		}
	})
}

// fits tells whether a payload may come now: one CBOR value on a scalar stream, what can go on as CBOR on a sequence.
func fits(n *naive, payload []byte) bool {
	if !n.sequence {
		size, err := firstItem(payload)
		return err == nil && size == len(payload) && clean(payload)
	}
	all := append(append([]byte{}, n.bytes...), payload...)
	for len(all) > 0 {
		size, err := firstItem(all)
		var many *cbor.MaxArrayElementsError
		var pairs *cbor.MaxMapPairsError
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &many) || errors.As(err, &pairs) {
			return true // a promise of any number of elements may still be kept
		}
		if err != nil {
			return false
		}
		all = all[size:]
	}
	return true
}

// lenient is a decoder that only asks whether something is CBOR, as deep as the protocol allows.
func lenient() cbor.DecMode {
	mode, err := cbor.DecOptions{MaxNestedLevels: 256, MaxArrayElements: math.MaxInt32, MaxMapPairs: math.MaxInt32,
		DupMapKey: cbor.DupMapKeyEnforcedAPF}.DecMode()
	if err != nil {
		panic(err)
	}
	return mode
}

// firstItem is the size of the item at the beginning of b; io.EOF or io.ErrUnexpectedEOF when it is not whole.
func firstItem(b []byte) (size int, err error) {
	d := lenient().NewDecoder(bytes.NewReader(b))
	err = d.Skip()
	return d.NumBytesRead(), err
}

// clean tells what CBOR demands of a value beside being well formed: UTF-8, and no key twice.
func clean(b []byte) bool {
	var v any
	err := lenient().Unmarshal(b, &v)
	var bad *cbor.SemanticError
	var dup *cbor.DupMapKeyError
	return !errors.As(err, &bad) && !errors.As(err, &dup)
}
