package sphinx

import (
	"encoding/binary"
	"io"
	"time"

	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
)

const (
	// cutSilence is added to end an utterance: the child needs half a second (-vad_postspeech), and looks at its voice
	// detection only after each childRead.
	cutSilence = engine.SampleRate * 8 / 10

	// childRead is how many samples the child reads at a time. Added silence is filled up to the end of a read, so that
	// the child acts on it now and not with the next audio.
	childRead = 2048

	feedBytes = 8 << 10
)

// feeder turns blocks into the child's input: 16 kHz mono, signed 16 bit, little endian, with silence where an
// utterance has to end. It is a synchronous stage; its writer is where it waits.
type feeder struct {
	out   io.Writer
	clock *clock
	ends  *endpointer
	buf   []byte

	fed    int64         // samples given to the child
	taken  int64         // samples taken from blocks
	gaps   time.Duration // the gaps between them
	cutAt  int64         // fed at the end of the last added silence
	power  float64       // sum of squares of the frame that is being filled
	filled int           // samples in it
}

func newFeeder(out io.Writer, clock *clock, ends *endpointer) *feeder {
	return &feeder{out: out, clock: clock, ends: ends, buf: make([]byte, 0, feedBytes)}
}

// block feeds one block. It does not keep the block's samples.
func (f *feeder) block(b engine.Block) error {
	if b.Gap > 0 {
		if err := f.cut(); err != nil {
			return err
		}
		f.gaps += b.Gap
		f.clock.mark(f.now(), false)
	}
	for _, sample := range b.Samples {
		value := toS16(sample)
		if err := f.put(value); err != nil {
			return err
		}
		f.taken++
		x := float64(value) / fullScale
		f.power += x * x
		if f.filled++; f.filled < frameSamples {
			continue
		}
		ends := f.ends.frame(f.power / frameSamples)
		f.power, f.filled = 0, 0
		if ends {
			if err := f.cut(); err != nil {
				return err
			}
		}
	}
	return f.flush()
}

// now is the time of the audio after the samples taken so far.
func (f *feeder) now() time.Duration { return f.gaps + time.Duration(f.taken)*samplePeriod }

// cut ends the utterance by silence that takes no time. Twice in the same place is once.
func (f *feeder) cut() error {
	f.ends.reset()
	f.power, f.filled = 0, 0
	if f.fed == f.cutAt {
		return nil
	}
	if err := f.flush(); err != nil {
		return err
	}
	f.clock.mark(f.now(), true)
	n := cutSilence
	if over := (f.fed + cutSilence) % childRead; over > 0 {
		n += int(childRead - over)
	}
	for range n {
		if err := f.put(0); err != nil {
			return err
		}
	}
	if err := f.flush(); err != nil {
		return err
	}
	f.cutAt = f.fed
	f.clock.mark(f.now(), false)
	return nil
}

func (f *feeder) put(sample int16) error {
	f.buf = binary.LittleEndian.AppendUint16(f.buf, uint16(sample))
	f.fed++
	if len(f.buf) < feedBytes {
		return nil
	}
	return f.flush()
}

func (f *feeder) flush() error {
	if len(f.buf) == 0 {
		return nil
	}
	f.clock.advance(len(f.buf) / 2) // first: the child may answer before Write returns
	_, err := f.out.Write(f.buf)
	f.buf = f.buf[:0]
	return err
}
