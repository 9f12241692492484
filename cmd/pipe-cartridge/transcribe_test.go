package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/audio"
	"github.com/pipe-cartridge/pipe/internal/tonegen"
)

// exact is how far a time may be off.
const exact = 20 // ms

func TestF14SameAudioBehindEveryHeader(t *testing.T) {
	// The message ends with the audio, so that a sample too few or too many, or a chunk that is taken for sound, would be heard.
	message, err := tonegen.Morse(cutMessage, tonegen.MorseOptions{WPM: 30, Rate: 8000})
	require.NoError(t, err)
	s := joined(t, tonegen.Silence(8000, 300*time.Millisecond), message)
	for _, format := range headerFormats {
		data, err := tonegen.Encode(s.Samples, format, 1)
		require.NoError(t, err)
		header := func(length int, change func(*tonegen.WAVOptions)) []byte {
			o := tonegen.WAVOptions{Format: format, Rate: 8000, Length: length}
			if change != nil {
				change(&o)
			}
			h, err := tonegen.WAVHeader(o)
			require.NoError(t, err)
			return h
		}
		list := tonegen.Chunk{ID: "LIST", Data: []byte("INFOISFT\x05\x00\x00\x00sox 14")}
		odd := tonegen.Chunk{ID: "junk", Data: []byte("odd")}
		tail := append([]byte("LIST"), "\x0e\x00\x00\x00INFOISFT\x02\x00\x00\x00ok"...)
		files := map[string][]byte{
			"the right length":        append(header(len(data), nil), data...),
			"ffffffff, as of ffmpeg":  append(header(tonegen.UnknownLength, nil), data...),
			"7ffff000, as of sox":     append(header(0x7ffff000, nil), data...),
			"80000000":                append(header(0x80000000, nil), data...),
			"0":                       append(header(0, nil), data...),
			"two bytes short":         append(header(len(data)-2, nil), data...),
			"two bytes short, a tail": append(append(header(len(data)-2, nil), data...), tail...),
			"a LIST in front":         append(header(len(data), func(o *tonegen.WAVOptions) { o.Before = []tonegen.Chunk{list, odd} }), data...),
			"a chunk of odd size":     append(header(tonegen.UnknownLength, func(o *tonegen.WAVOptions) { o.Before = []tonegen.Chunk{odd} }), data...),
			"a fmt chunk of 40 bytes": append(header(tonegen.UnknownLength, func(o *tonegen.WAVOptions) { o.Extensible = true }), data...),
			"a fmt chunk of 18 bytes": append(longerFmt(header(len(data), nil)), data...),
			"a chunk behind":          append(append(header(len(data), nil), data...), tail...),
			"a chunk behind no end":   append(append(header(tonegen.UnknownLength, nil), data...), tail...),
			"a chunk behind sox":      append(append(header(0x7ffff000, nil), data...), tail...),
			"a length beyond the end": append(header(len(data)+1000, nil), data...),
		}
		want := transcribed(t, bytes.NewReader(files["the right length"]))
		require.Equal(t, []string{cutMessage}, texts(want))
		assert.InDelta(t, 300, want[0].StartMS, exact)
		assert.InDelta(t, s.Duration().Milliseconds(), want[0].EndMS, exact)
		for name, file := range files {
			t.Run(fmt.Sprintf("%s/%s", format, name), func(t *testing.T) {
				assert.Equal(t, want, transcribed(t, reads(file, 4096)))
			})
		}
	}
}

// longerFmt makes the 16-byte fmt chunk, right behind RIFF and WAVE, one of 18 bytes with an empty extension.
func longerFmt(header []byte) []byte {
	const sizeAt, end = 16, 20 + 16
	out := append(append(bytes.Clone(header[:end]), 0, 0), header[end:]...)
	binary.LittleEndian.PutUint32(out[sizeAt:], 18)
	binary.LittleEndian.PutUint32(out[4:], binary.LittleEndian.Uint32(out[4:])+2)
	return out
}

func TestF15CutsMakeNoDifference(t *testing.T) {
	s := morse(t, cutMessage, tonegen.MorseOptions{WPM: 35, Rate: cutRate})
	file := wavFile(t, s, tonegen.WAVOptions{Format: tonegen.S24, Channels: 2, Length: tonegen.UnknownLength})
	raw, err := tonegen.Encode(s.Samples, tonegen.S24, 2)
	require.NoError(t, err)
	listenWords := []string{"listen", "--engine=tones", "--sample-rate=" + strconv.Itoa(cutRate), "--channels=2", "--sample-format=s24le"}
	listened := func(r io.Reader) []heard {
		out, err := command(t, r, listenWords...)
		require.NoError(t, err)
		return segments(t, out)
	}
	want := transcribed(t, bytes.NewReader(file))
	require.Equal(t, []string{cutMessage}, texts(want))
	require.Equal(t, want, listened(bytes.NewReader(raw)))
	for _, size := range []int{1, 3, 333, 4095, 65_537} {
		t.Run(fmt.Sprintf("reads of %d", size), func(t *testing.T) {
			assert.Equal(t, want, transcribed(t, reads(file, size)))
			assert.Equal(t, want, listened(reads(raw, size)))
			assert.Equal(t, want, transcribed(t, iotest.DataErrReader(reads(file, size))), "the end comes with the last bytes")
		})
	}
	t.Run("one lone byte at the end", func(t *testing.T) {
		assert.Equal(t, want, transcribed(t, reads(append(bytes.Clone(file), 0x5a), 4095)))
		assert.Equal(t, want, listened(reads(append(bytes.Clone(raw), 0x5a), 4095)))
	})
	t.Run("cut right after the last word", func(t *testing.T) {
		message, err := tonegen.Morse(cutMessage, tonegen.MorseOptions{WPM: 35, Rate: cutRate})
		require.NoError(t, err)
		got := transcribed(t, bytes.NewReader(wavFile(t, message, tonegen.WAVOptions{Format: tonegen.S16, Length: tonegen.UnknownLength})))
		assert.Equal(t, []string{cutMessage}, texts(got))
	})
	t.Run("chunks on a link", func(t *testing.T) {
		for _, size := range []int{333, 65_537} {
			h := cartridgetest.Start(t, newCartridge())
			r := h.Request(transcribeURN)
			r.Stream("e", mediaEngine).Chunk("tones").End()
			body := r.Stream("a", mediaWAV, cartridgetest.Unbounded)
			for rest := file; len(rest) > 0; {
				n := min(size, len(rest))
				body.Chunk(string(rest[:n]))
				rest = rest[n:]
			}
			body.End()
			r.End()
			assert.Equal(t, want, segments(t, r.Collect()), "chunks of %d", size)
			r.WantEnd()
		}
	})
}

func TestGapsOfACapture(t *testing.T) {
	const rate = 16_000
	part := func(text string) tonegen.Signal { return morse(t, text, tonegen.MorseOptions{WPM: 30, Rate: rate}) }
	type item struct {
		signal tonegen.Signal
		lost   time.Duration // in front of it
		gap    bool          // something was lost, even if it took no time
	}
	capture := func(t *testing.T, items ...item) (got []heard, starts []time.Duration) {
		r := cartridgetest.Start(t, newCartridge()).Request(listenURN)
		r.Stream("e", mediaEngine).Chunk("tones").End()
		body := r.Stream("a", mediaPCM, cartridgetest.Sequence, cartridgetest.Unbounded)
		var seq uint64
		var pts, before time.Duration
		for i, it := range items {
			meta := map[string]any{}
			if it.gap || it.lost > 0 {
				pts += it.lost
				seq += 7
				meta["gap"] = map[string]any{"dropped": uint64(7), "duration_us": uint64((pts - before).Microseconds())}
			}
			meta["seq"], meta["pts_us"], meta["capture_ts_us"] = seq, uint64(pts.Microseconds()), uint64(1)
			body.Item(samples(t, it.signal, tonegen.S16), meta)
			starts = append(starts, pts)
			before = pts
			pts += items[i].signal.Duration()
			seq++
		}
		body.End()
		r.End()
		got = segments(t, r.Collect())
		r.WantEnd()
		return got, starts
	}
	wantAt := func(t *testing.T, h heard, start time.Duration, it item) {
		assert.InDelta(t, (start + it.signal.Spans[0].Start).Milliseconds(), h.StartMS, exact, h.Text)
		assert.InDelta(t, (start + it.signal.Spans[0].End).Milliseconds(), h.EndMS, exact, h.Text)
	}
	t.Run("R-9.34 times go on as if nothing had been lost", func(t *testing.T) {
		items := []item{{signal: part("CQ")}, {signal: part("DE"), lost: 5 * time.Second}, {signal: part("X1Y")}, {signal: part("73"), lost: 1500 * time.Millisecond}}
		got, starts := capture(t, items...)
		require.Equal(t, []string{"CQ", "DE X1Y", "73"}, texts(got))
		wantAt(t, got[0], starts[0], items[0])
		assert.InDelta(t, (starts[1] + items[1].signal.Spans[0].Start).Milliseconds(), got[1].StartMS, exact)
		wantAt(t, got[2], starts[3], items[3])
	})
	t.Run("R-9.34 the first item may have a gap, counted from zero", func(t *testing.T) {
		items := []item{{signal: part("CQ"), lost: 3 * time.Second}}
		got, starts := capture(t, items...)
		require.Equal(t, []string{"CQ"}, texts(got))
		wantAt(t, got[0], starts[0], items[0])
	})
	t.Run("R-9.36 the smallest gap parts what it lies between", func(t *testing.T) {
		whole, err := tonegen.Morse("SOSSOS", tonegen.MorseOptions{WPM: 30, Rate: rate})
		require.NoError(t, err)
		one, err := tonegen.Morse("SOS", tonegen.MorseOptions{WPM: 30, Rate: rate})
		require.NoError(t, err)
		at := len(one.Samples) + int(1.2/30*rate) // in the pause between the two
		first, second := whole, whole
		first.Samples, second.Samples = whole.Samples[:at], whole.Samples[at:]
		got, _ := capture(t, item{signal: first}, item{signal: second})
		require.Equal(t, []string{"SOSSOS"}, texts(got))
		got, _ = capture(t, item{signal: first}, item{signal: second, gap: true})
		require.Equal(t, []string{"SOS", "SOS"}, texts(got))
	})
}

func TestGapOfOddMetas(t *testing.T) {
	gap := func(v any) frame.Meta { return frame.Meta{"gap": v} }
	for name, row := range map[string]struct {
		meta  frame.Meta
		since time.Duration
		lost  bool
	}{
		"no meta":              {nil, 0, false},
		"no gap":               {frame.Meta{"seq": int64(1)}, 0, false},
		"a gap":                {gap(map[string]any{"dropped": int64(2), "duration_us": int64(1500)}), 1500 * time.Microsecond, true},
		"a large one":          {gap(map[string]any{"duration_us": uint64(1) << 63}), maxGapMicroseconds * time.Microsecond, true},
		"a large signed one":   {gap(map[string]any{"duration_us": int64(1) << 62}), maxGapMicroseconds * time.Microsecond, true},
		"a negative one":       {gap(map[string]any{"duration_us": int64(-1)}), 0, true},
		"without its duration": {gap(map[string]any{"dropped": int64(2)}), 0, true},
		"not a number":         {gap(map[string]any{"duration_us": "1"}), 0, true},
		"not a map":            {gap(int64(5)), 0, false},
	} {
		t.Run("R-9.34 "+name, func(t *testing.T) {
			since, lost := gapOf(row.meta)
			assert.Equal(t, row.since, since)
			assert.Equal(t, row.lost, lost)
			assert.GreaterOrEqual(t, since, time.Duration(0))
		})
	}
}

func TestFormatsConcatenatedAreFiles(t *testing.T) {
	s := joined(t, morse(t, "CQ DE X1Y", tonegen.MorseOptions{WPM: 30}), tonegen.Silence(16_000, 2*time.Second), morse(t, "R 73", tonegen.MorseOptions{WPM: 30}))
	file := wavFile(t, s, tonegen.WAVOptions{Format: tonegen.S16})
	silence := wavFile(t, tonegen.Silence(16_000, time.Second), tonegen.WAVOptions{Format: tonegen.S16})
	in := func(format string, wav []byte) string {
		out, err := command(t, reads(wav, 4096), "transcribe", "--engine=tones", "--format", format)
		require.NoError(t, err)
		return out
	}
	times := segments(t, in("ndjson", file))
	require.Equal(t, []string{"CQ DE X1Y", "R 73"}, texts(times))
	clock := func(ms int64, point string) string {
		return fmt.Sprintf("00:00:%02d%s%03d", ms/1000, point, ms%1000)
	}
	assert.Equal(t, "CQ DE X1Y\nR 73\n", in("text", file))
	assert.Equal(t, fmt.Sprintf("1\n%s --> %s\nCQ DE X1Y\n\n2\n%s --> %s\nR 73\n\n", clock(times[0].StartMS, ","), clock(times[0].EndMS, ","),
		clock(times[1].StartMS, ","), clock(times[1].EndMS, ",")), in("srt", file))
	assert.Equal(t, fmt.Sprintf("WEBVTT\n\n%s --> %s\nCQ DE X1Y\n\n%s --> %s\nR 73\n\n", clock(times[0].StartMS, "."), clock(times[0].EndMS, "."),
		clock(times[1].StartMS, "."), clock(times[1].EndMS, ".")), in("vtt", file))
	for format, want := range map[string]string{"ndjson": "", "text": "", "srt": "", "vtt": "WEBVTT\n\n"} {
		assert.Equal(t, want, in(format, silence), "a file without a word in %s", format)
	}
}

func TestWhatIsNoAudioIsRefused(t *testing.T) {
	for name, row := range map[string]struct{ input, code, word string }{
		"nothing":        {"", audio.CodeBad, "empty"},
		"text":           {"Dear Sir or Madam", audio.CodeBad, ""},
		"an MP3":         {"ID3\x04\x00\x00\x00\x00\x00\x00", audio.CodeUnsupported, ""},
		"half a header":  {"RIFF\xff\xff\xff\xffWAVEfmt ", audio.CodeBad, "header"},
		"compressed WAV": {"RIFF\xff\xff\xff\xffWAVEfmt \x10\x00\x00\x00\x55\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data", audio.CodeUnsupported, ""},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := command(t, strings.NewReader(row.input), "transcribe", "--engine=tones")
			wantFailure(t, err, row.code, failure.Input, row.word)
			assert.Empty(t, out)
		})
	}
}
