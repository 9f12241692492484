package audio

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// randomBytes is n bytes that differ from seed to seed.
func randomBytes(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

var (
	list     = wavChunk{"LIST", []byte("INFOISFT\x0e\x00\x00\x00Lavf60.16.100\x00")}
	oddChunk = wavChunk{"JUNK", []byte("seven b")}
	foreign  = wavChunk{"q7_x", []byte("some private data")}
	cue      = wavChunk{"cue ", make([]byte, 28)}
)

// TestF14SamplesBehindEveryHeader: the samples do not depend on what the header says about their length, nor on
// what stands around them.
func TestF14SamplesBehindEveryHeader(t *testing.T) {
	lengths := map[string]func(n int) *uint32{
		"right":         func(int) *uint32 { return nil },
		"0":             func(int) *uint32 { return length(0) },
		"7ffff000":      func(int) *uint32 { return length(0x7fff_f000) },
		"7ffff024":      func(int) *uint32 { return length(0x7fff_f024) },
		"80000000":      func(int) *uint32 { return length(0x8000_0000) },
		"ffffffff":      func(int) *uint32 { return length(0xffff_ffff) },
		"ffffffdb":      func(int) *uint32 { return length(0xffff_ffdb) },
		"two short":     func(n int) *uint32 { return length(uint32(n - 2)) },
		"far too short": func(n int) *uint32 { return length(uint32(n / 3)) },
	}
	riffLengths := map[string]*uint32{"right": nil, "0": length(0), "7ffff024": length(0x7fff_f024), "ffffffff": length(0xffff_ffff)}
	before := map[string][]wavChunk{"nothing": nil, "LIST": {list}, "odd and foreign": {oddChunk, foreign, list}}
	after := map[string][]wavChunk{"nothing": nil, "LIST": {list}, "odd and more": {oddChunk, cue, list}, "LIST then foreign": {list, foreign}}
	for name, dataLength := range lengths {
		t.Run("length "+name, func(t *testing.T) {
			for riffName, riffLength := range riffLengths {
				for beforeName, b := range before {
					for afterName, a := range after {
						for _, fmtBytes := range []int{16, 18, 40, 42} {
							f := wavFile{
								format: Format{22_050, 2, S16LE}, fmtBytes: fmtBytes, before: b, after: a,
								data: randomBytes(uint64(fmtBytes), 4*101), riffLength: riffLength,
							}
							f.dataLength = dataLength(len(f.data))
							requireSamples(t, f, fmt.Sprintf("riff %s, before %s, after %s, fmt %d", riffName, beforeName, afterName, fmtBytes))
						}
					}
				}
			}
		})
	}
}

// requireSamples checks that exactly the data of f comes out, whatever the pieces.
func requireSamples(t *testing.T, f wavFile, what string) {
	t.Helper()
	file := f.bytes()
	for _, size := range []int{1, 3, 333, len(file)} {
		w := NewWAV(Limits{})
		got, err := feedWAV(w, file, size)
		require.NoError(t, err, what)
		require.Equal(t, f.data, got, "%s, pieces of %d", what, size)
		format, ok := w.Format()
		require.True(t, ok)
		require.Equal(t, f.format, format, what)
	}
}

func TestWAVReadsEveryEncodingAndNumberOfChannels(t *testing.T) {
	for _, e := range []Encoding{U8, S16LE, S24LE, S32LE, F32LE, F64LE} {
		for channels := 1; channels <= MaxChannels; channels++ {
			for i, frames := range []int{0, 1, 2, 101} {
				f := wavFile{format: Format{[]int{1, 8_000, 44_100, MaxRate}[i], channels, e}, fmtBytes: []int{16, 18, 40, 40}[i]}
				f.data = append([]byte{}, randomBytes(7, frames*f.format.FrameBytes())...)
				if frames == 0 {
					f.data = nil
				}
				requireSamples(t, f, "right length")
				f.after = []wavChunk{list}
				requireSamples(t, f, "right length, LIST behind")
				f.noPads = true
				requireSamples(t, f, "right length, LIST behind without pad byte")
				f.noPads = false
				f.dataLength = length(0xffff_ffff)
				requireUpToPad(t, f, "no length, LIST behind")
				f.after = nil
				requireSamples(t, f, "no length")
			}
		}
	}
}

// requireUpToPad is requireSamples for lengths that are not known: a pad byte may come out when frames have more
// than one byte, as it fills none.
func requireUpToPad(t *testing.T, f wavFile, what string) {
	t.Helper()
	got, err := feedWAV(NewWAV(Limits{}), f.bytes(), 5)
	require.NoError(t, err, what)
	whole := len(got) / f.format.FrameBytes() * f.format.FrameBytes()
	require.Equal(t, len(f.data), whole, what)
	require.Equal(t, string(f.data), string(got[:whole]), what)
}

func TestWAVPadByteOfOddDataIsNoSample(t *testing.T) {
	for _, n := range []int{1, 3, 255} {
		f := wavFile{format: Format{8_000, 1, U8}, data: randomBytes(3, n)}
		requireSamples(t, f, "at the end")
		f.after = []wavChunk{list, oddChunk}
		requireSamples(t, f, "before a chunk")
		f.dataLength = length(0)
		requireSamples(t, f, "before a chunk, no length")
		f.dataLength = length(0x7fff_f000)
		requireSamples(t, f, "before a chunk, placeholder")
		if n > 2 {
			f.dataLength = length(uint32(n - 2))
			requireSamples(t, f, "before a chunk, two bytes short")
		}
	}
}

func TestWAVForeignChunkBehindTheRightLength(t *testing.T) {
	f := wavFile{format: Format{16_000, 1, S16LE}, data: randomBytes(4, 4000), after: []wavChunk{foreign, list}}
	requireSamples(t, f, "fits the RIFF length")
	f.riffLength = length(0xffff_ffff)
	requireSamples(t, f, "no RIFF length: told by the chain that ends with the input")
	f.after = []wavChunk{{"q7_x", randomBytes(5, 3000)}}
	f.riffLength = nil
	got, err := feedWAV(NewWAV(Limits{TailBytes: 64}), f.bytes(), 100)
	require.NoError(t, err)
	assert.Equal(t, f.data, got, "longer than what is kept, but fits the RIFF length")
}

func TestWAVTrailingChunkThatIsCutOrFilledUp(t *testing.T) {
	f := wavFile{format: Format{16_000, 1, S16LE}, data: randomBytes(6, 400), after: []wavChunk{list}}
	for name, dataLength := range map[string]*uint32{"right": nil, "none": length(0xffff_ffff), "two short": length(398)} {
		f.dataLength = dataLength
		file := f.bytes()
		chunkBytes := 8 + len(list.body)
		for cut := 1; cut <= chunkBytes-4; cut++ { // less than a name cannot be told from samples
			got, err := feedWAV(NewWAV(Limits{}), file[:len(file)-cut], 7)
			require.NoError(t, err)
			require.Equal(t, f.data, got, "length %s, %d bytes cut", name, cut)
		}
		got, err := feedWAV(NewWAV(Limits{}), append(file, make([]byte, 5000)...), 7)
		require.NoError(t, err)
		require.Equal(t, f.data, got, "length %s, filled with zeros", name)
	}
}

func TestWAVSamplesThatLookLikeChunksStaySamples(t *testing.T) {
	look := func(tail string) []byte {
		return []byte("some samples LIST\x04\x00\x00\x00abcd" + tail)
	}
	cases := map[string][]byte{
		"name, then no chunk":   look("\x01\x02\x03\x04\x05\x06\x07\x08 and so on"),
		"name, huge length":     []byte("xLIST\xff\xff\xff\x7fabcdefgh"),
		"half a name":           []byte("abcdefLIS"),
		"names in each other":   []byte("LISLISLIST\x02\x00\x00\x00ab\x01\x02\x03\x04LIcue\x00"),
		"zeros, then more":      look("\x00\x00\x00\x00\x00\x00\x01\x00"),
		"only printable":        []byte("abcdefghijklmnopqrstuvwxyz0123456789"),
		"chain of many, broken": append(look("junk\x00\x00\x00\x00PEAK\x02\x00\x00\x00ab"), 0xfe, 0xff, 1, 0),
	}
	for name, data := range cases {
		for lengthName, n := range map[string]uint32{"none": 0xffff_ffff, "0": 0, "2": 2, "7": 7} {
			f := wavFile{format: Format{8_000, 1, U8}, data: data, dataLength: length(n)}
			requireSamples(t, f, name+", length "+lengthName)
		}
	}
}

func TestWAVOverlongSuspicionIsBounded(t *testing.T) {
	const limit = 100
	chain := []byte{}
	for range 1000 {
		chain = append(chain, "LIST\x04\x00\x00\x00abcd"...)
	}
	f := wavFile{format: Format{8_000, 1, U8}, data: []byte("samples"), dataLength: length(0xffff_ffff)}
	w := NewWAV(Limits{TailBytes: limit})
	var got []byte
	emit := func(p []byte) error { got = append(got, p...); return nil }
	require.NoError(t, w.Feed(f.bytes(), emit))
	for _, b := range chain {
		require.NoError(t, w.Feed([]byte{b}, emit))
		require.LessOrEqual(t, len(w.tail.held), limit)
	}
	require.NoError(t, w.Close(emit))
	assert.Equal(t, "samples", string(got), "a long chain of known chunks is one")

	// Filling behind a suspect is bounded as well, and looked at once only.
	w, got = NewWAV(Limits{TailBytes: 1 << 20}), nil
	require.NoError(t, w.Feed(append(f.bytes(), chain[:12]...), emit))
	require.NoError(t, w.Feed(make([]byte, 4<<20), emit))
	require.NoError(t, w.Close(emit))
	assert.Equal(t, "samples", string(got))
}

func TestRF64ReadsTheLongLength(t *testing.T) {
	ds64 := make([]byte, 28)
	ds64[8] = 200 // data length, 64 bits from here
	f := wavFile{
		magic: "RF64", format: Format{48_000, 1, S16LE}, before: []wavChunk{{"ds64", ds64}}, data: randomBytes(8, 200),
		riffLength: length(0xffff_ffff), dataLength: length(0xffff_ffff), after: []wavChunk{{"data", []byte("second one")}},
	}
	requireSamples(t, f, "with a length")
	f.magic, f.after = "BW64", nil
	ds64[8] = 0
	requireSamples(t, f, "without a length")
}

func TestWAVChunkInTheHeaderWithoutItsPadByte(t *testing.T) {
	f := wavFile{format: Format{8_000, 1, S16LE}, before: []wavChunk{oddChunk, {"LIST", []byte("x")}}, data: randomBytes(9, 50), noPads: true}
	requireSamples(t, f, "no pad bytes")
}

func TestWAVSecondFmtChunkIsNotRead(t *testing.T) {
	f := wavFile{format: Format{8_000, 1, S16LE}, data: randomBytes(9, 50)}
	first := f.bytes()[12:36]
	f.before = []wavChunk{{"fmt ", first[8:]}}
	f.format.Rate = 16_000
	w := NewWAV(Limits{})
	_, err := feedWAV(w, f.bytes(), 10)
	require.NoError(t, err)
	format, _ := w.Format()
	assert.Equal(t, 8_000, format.Rate)
}

func TestWAVThatIsNoneOrNotReadHereIsAnInputFailure(t *testing.T) {
	good := func(change func(p []byte)) []byte {
		p := wavFile{format: Format{8_000, 2, S16LE}, data: make([]byte, 8)}.bytes()
		change(p)
		return p
	}
	extensible := func(change func(p []byte)) []byte {
		p := wavFile{format: Format{8_000, 2, S16LE}, fmtBytes: 40, data: make([]byte, 8)}.bytes()
		change(p)
		return p
	}
	cases := []struct {
		name  string
		input []byte
		code  string
		words []string
	}{
		{"empty", nil, CodeBad, []string{"empty"}},
		{"cut in the first header", []byte("RIFF\x00\x00"), CodeBad, []string{"not a WAV"}},
		{"text", []byte("Once upon a time there was"), CodeBad, []string{"Once upon a", "RIFF"}},
		{"RIFX", []byte("RIFX\x00\x00\x00\x00WAVEfmt "), CodeUnsupported, []string{"big-endian"}},
		{"AVI", []byte("RIFF\x00\x00\x00\x00AVI LIST"), CodeBad, []string{`"AVI "`, "WAVE"}},
		{"Ogg", []byte("OggS\x00\x02\x00\x00\x00\x00\x00\x00"), CodeUnsupported, []string{"Ogg"}},
		{"FLAC", []byte("fLaC\x00\x00\x00\x22\x10\x00\x10\x00"), CodeUnsupported, []string{"FLAC"}},
		{"MP3", []byte("ID3\x04\x00\x00\x00\x00\x00\x22TSSE"), CodeUnsupported, []string{"MP3"}},
		{"AIFF", []byte("FORM\x00\x00\x00\x22AIFFCOMM"), CodeUnsupported, []string{"AIFF"}},
		{"no chunk", good(unchanged)[:12], CodeBad, []string{"ends in its header"}},
		{"cut in fmt", good(unchanged)[:30], CodeBad, []string{"ends in its header", "30 bytes"}},
		{"no data", good(unchanged)[:36], CodeBad, []string{"ends in its header"}},
		{"data first", append([]byte("RIFF\x00\x00\x00\x00WAVE"), "data\x04\x00\x00\x00abcd"...), CodeBad, []string{"before the fmt"}},
		{"fmt too short", good(func(p []byte) { p[16] = 14 }), CodeBad, []string{"14 bytes", "16"}},
		{"noise for a chunk", good(func(p []byte) { copy(p[12:], "\x00\xff\x01\x02") }), CodeBad, []string{"byte 12", "name of a chunk"}},
		{"endless chunk", good(func(p []byte) { copy(p[12:], "LIST\xff\xff\xff\xff") }), CodeBad, []string{"LIST", "4294967295"}},
		{"mu-law", good(func(p []byte) { p[20], p[34] = 7, 8 }), CodeUnsupported, []string{"mu-law", "8 bits", "PCM"}},
		{"ADPCM", good(func(p []byte) { p[20], p[34] = 0x11, 4 }), CodeUnsupported, []string{"IMA ADPCM", "4 bits"}},
		{"MP3 in WAV", good(func(p []byte) { p[20], p[34] = 0x55, 0 }), CodeUnsupported, []string{"MP3"}},
		{"unknown tag", good(func(p []byte) { p[20], p[21] = 0x34, 0x12 }), CodeUnsupported, []string{"0x1234"}},
		{"12 bits", good(func(p []byte) { p[34] = 12 }), CodeUnsupported, []string{"PCM of 12 bits"}},
		{"float of 16 bits", good(func(p []byte) { p[20] = 3 }), CodeUnsupported, []string{"float of 16 bits"}},
		{"no channels", good(func(p []byte) { p[22] = 0 }), CodeUnsupported, []string{"0 channels"}},
		{"9 channels", good(func(p []byte) { p[22] = 9 }), CodeUnsupported, []string{"9 channels", "8"}},
		{"rate 0", good(func(p []byte) { copy(p[24:], "\x00\x00\x00\x00") }), CodeUnsupported, []string{"rate 0"}},
		{"rate of 4 GHz", good(func(p []byte) { copy(p[24:], "\xff\xff\xff\xff") }), CodeUnsupported, []string{"4294967295"}},
		{"frame size", good(func(p []byte) { p[32] = 3 }), CodeBad, []string{"3 bytes a frame", "take 4"}},
		{"extensible without extension", good(func(p []byte) { p[20], p[21] = 0xfe, 0xff }), CodeBad, []string{"extensible", "40"}},
		{"extensible mu-law", extensible(func(p []byte) { p[44] = 7 }), CodeUnsupported, []string{"mu-law"}},
		{"another GUID", extensible(func(p []byte) { p[50] = 1 }), CodeUnsupported, []string{"sub-format"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, size := range []int{1, 5, 1000} {
				w := NewWAV(Limits{})
				got, err := feedWAV(w, c.input, size)
				requireInput(t, err, c.code, c.words...)
				assert.Empty(t, got, "what is refused gives no samples")
				assert.Same(t, err, w.Feed([]byte("more"), nil), "the failure stays")
				assert.Same(t, err, w.Close(nil))
			}
		})
	}
}

// unchanged leaves a good file as it is.
func unchanged([]byte) {}

func TestWAVHeaderLimit(t *testing.T) {
	f := wavFile{format: Format{8_000, 1, U8}, before: []wavChunk{{"JUNK", make([]byte, 5000)}}, data: []byte("data bytes")}
	_, err := feedWAV(NewWAV(Limits{HeaderBytes: 4000}), f.bytes(), 100)
	requireInput(t, err, CodeBad, "JUNK", "5000", "4000")
	got, err := feedWAV(NewWAV(Limits{HeaderBytes: 6000}), f.bytes(), 100)
	require.NoError(t, err)
	assert.Equal(t, f.data, got)
}

func TestWAVReturnsTheErrorOfEmitAndStops(t *testing.T) {
	f := wavFile{format: Format{8_000, 1, U8}, data: make([]byte, 100), dataLength: length(50)}
	w := NewWAV(Limits{})
	calls := 0
	fail := func([]byte) error { calls++; return errTest }
	require.ErrorIs(t, w.Feed(f.bytes(), fail), errTest)
	require.ErrorIs(t, w.Feed([]byte("more"), fail), errTest)
	require.ErrorIs(t, w.Close(fail), errTest)
	require.ErrorIs(t, w.Discontinuity(fail), errTest)
	assert.Equal(t, 1, calls)
}

func TestWAVDiscontinuityForgetsTheLength(t *testing.T) {
	f := wavFile{format: Format{8_000, 1, S16LE}, data: randomBytes(10, 100), after: []wavChunk{list}}
	file := f.bytes()
	w := NewWAV(Limits{})
	var got []byte
	emit := func(p []byte) error { got = append(got, p...); return nil }
	require.NoError(t, w.Discontinuity(emit), "in the header nothing happens")
	require.NoError(t, w.Feed(file[:44+30], emit))
	require.NoError(t, w.Discontinuity(emit)) // 20 bytes are lost
	require.NoError(t, w.Feed(file[44+50:], emit))
	require.NoError(t, w.Discontinuity(emit))
	require.NoError(t, w.Close(emit))
	want := append(append([]byte{}, f.data[:30]...), f.data[50:]...)
	assert.Equal(t, want, got, "the length would have taken 20 bytes of LIST for samples")
}

// TestRapidWAVCuts: arbitrary cuts of arbitrary files, nasty samples included, give the samples back.
func TestRapidWAVCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Half names and small numbers, but no whole name: with a wrong length that could be a chunk in earnest.
		nasty := rapid.SliceOfN(rapid.SampledFrom([]byte("LISfac\x00\x00\x04abcd\xff\x80")), 2, 60)
		f := wavFile{
			format: Format{rapid.IntRange(1, MaxRate).Draw(t, "rate"), 1, S16LE},
			data:   nasty.Draw(t, "data"),
			after:  rapid.SliceOfN(rapid.SampledFrom([]wavChunk{list, oddChunk, cue}), 0, 3).Draw(t, "after"),
			before: rapid.SliceOfN(rapid.SampledFrom([]wavChunk{list, oddChunk, foreign}), 0, 3).Draw(t, "before"),
		}
		f.data = f.data[:len(f.data)/2*2]
		f.dataLength = rapid.SampledFrom([]*uint32{
			nil, length(0), length(0xffff_ffff), length(uint32(len(f.data) - 2)), length(uint32(len(f.data) / 4 * 2)),
		}).Draw(t, "length")
		file := f.bytes()
		w := NewWAV(Limits{})
		var got []byte
		emit := func(p []byte) error { got = append(got, p...); return nil }
		for len(file) > 0 {
			n := rapid.IntRange(1, len(file)).Draw(t, "piece")
			require.NoError(t, w.Feed(file[:n], emit))
			file = file[n:]
		}
		require.NoError(t, w.Close(emit))
		require.Equal(t, f.data, got)
	})
}

// FuzzWAV: whatever comes, the parser neither panics nor makes up bytes, keeps little, and does not care for cuts.
func FuzzWAV(f *testing.F) {
	for _, n := range []*uint32{nil, length(0), length(0xffff_ffff), length(6)} {
		f.Add(wavFile{format: Format{8_000, 1, S16LE}, fmtBytes: 40, before: []wavChunk{oddChunk}, data: []byte("abcdefgh"), after: []wavChunk{list, oddChunk}, dataLength: n}.bytes(), uint8(3))
	}
	f.Add([]byte("RIFX\x00\x00\x00\x00WAVE"), uint8(1))
	f.Add([]byte("RF64\xff\xff\xff\xffWAVEds64\x1c\x00\x00\x00"), uint8(1))
	f.Fuzz(func(t *testing.T, p []byte, size uint8) {
		limits := Limits{HeaderBytes: 1 << 16, TailBytes: 64}
		whole, wholeErr := feedWAV(NewWAV(limits), p, len(p)+1)
		w := NewWAV(limits)
		got, err := feedWAV(w, p, int(size)+1)
		if string(whole) != string(got) || fmt.Sprint(wholeErr) != fmt.Sprint(err) {
			t.Fatalf("input %q: whole %q, %v; pieces of %d %q, %v", p, whole, wholeErr, int(size)+1, got, err)
		}
		if len(got) > len(p) {
			t.Fatalf("input of %d bytes gave %d", len(p), len(got))
		}
		if cap(w.tail.held) > 1024 || cap(w.gathered) > 1024 {
			t.Fatalf("kept %d and %d bytes", cap(w.tail.held), cap(w.gathered))
		}
		if f, ok := w.Format(); ok && f.Validate() != nil {
			t.Fatalf("format %+v is not valid", f)
		}
	})
}
