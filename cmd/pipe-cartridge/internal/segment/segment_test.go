package segment

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
)

// write gives the items of one stream behind each other.
func write(t require.TestingT, format string, segments ...engine.Segment) string {
	f, err := NewFormatter(format)
	require.NoError(t, err)
	var out strings.Builder
	for _, s := range segments {
		item := f.Item(s)
		if item != nil {
			require.Equal(t, byte('\n'), item[len(item)-1], "an item ends with a newline")
		}
		out.Write(item)
	}
	out.Write(f.Close())
	return out.String()
}

var twoSegments = []engine.Segment{
	{Start: 1200 * time.Millisecond, End: 2500600 * time.Microsecond, Text: "go forward & <stop>", Engine: "pocketsphinx", Confidence: -1},
	{Start: 2*time.Hour + 59*time.Minute + 1*time.Second, End: 2*time.Hour + 59*time.Minute + 2345*time.Millisecond, Text: "SOS", Engine: "tones", Confidence: 0.98765},
}

func TestFormatsOfTwoSegments(t *testing.T) {
	want := map[string]string{
		NDJSON: `{"start_ms":1200,"end_ms":2501,"text":"go forward & <stop>","engine":"pocketsphinx"}
{"start_ms":10741000,"end_ms":10742345,"text":"SOS","engine":"tones","confidence":0.9877}
`,
		Text: "go forward & <stop>\nSOS\n",
		SRT: `1
00:00:01,200 --> 00:00:02,501
go forward & <stop>

2
02:59:01,000 --> 02:59:02,345
SOS

`,
		VTT: `WEBVTT

00:00:01.200 --> 00:00:02.501
go forward &amp; &lt;stop&gt;

02:59:01.000 --> 02:59:02.345
SOS

`,
	}
	for format, file := range want {
		t.Run(format, func(t *testing.T) {
			assert.Equal(t, file, write(t, format, twoSegments...))
		})
	}
}

func TestEmptyTranscriptIsAValidFile(t *testing.T) {
	for format, file := range map[string]string{NDJSON: "", Text: "", SRT: "", VTT: "WEBVTT\n\n"} {
		assert.Equal(t, file, write(t, format), format)
		if format != NDJSON {
			assert.Equal(t, file, write(t, format, engine.Segment{Text: " \n\t"}), "%s: a segment without text", format)
		}
	}
	assert.Equal(t, `{"start_ms":0,"end_ms":0,"text":"","engine":"x","confidence":0}`+"\n", write(t, NDJSON, engine.Segment{Engine: "x"}))
}

func TestSegmentWithoutTextTakesNoNumber(t *testing.T) {
	assert.Equal(t, "1\n00:00:00,000 --> 00:00:01,000\na\n\n", write(t, SRT, engine.Segment{End: time.Hour}, engine.Segment{End: time.Second, Text: "a"}))
}

func TestUnknownFormatIsAnInputFailure(t *testing.T) {
	for _, name := range []string{"", "json", "SRT", "webvtt"} {
		_, err := NewFormatter(name)
		var f *failure.Failure
		require.ErrorAs(t, err, &f)
		assert.Equal(t, failure.Input, f.Class)
		assert.Equal(t, CodeUnknownFormat, f.Code)
		assert.Contains(t, f.Message, strconv.Quote(name))
		assert.Contains(t, f.Message, "ndjson, text, srt, vtt")
	}
}

func TestTextCannotBreakOutOfItsPlace(t *testing.T) {
	s := engine.Segment{End: time.Second, Text: "a\r\n\r\n2\n00:00 --> 00:01 --->\u2028b\x00\x1b[1m\xff<i>&amp;"}
	assert.Equal(t, "a 2 00:00 --> 00:01 ---> b [1m\ufffd<i>&amp;\n", write(t, Text, s))
	assert.Equal(t, "1\n00:00:00,000 --> 00:00:01,000\na 2 00:00 → 00:01 -→ b [1m\ufffd<i>&amp;\n\n", write(t, SRT, s))
	assert.Equal(t, "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\na 2 00:00 --&gt; 00:01 ---&gt; b [1m\ufffd&lt;i&gt;&amp;amp;\n\n", write(t, VTT, s))
	line := write(t, NDJSON, s)
	assert.Equal(t, 1, strings.Count(line, "\n"))
	var back struct{ Text string }
	require.NoError(t, json.Unmarshal([]byte(line), &back))
	assert.Equal(t, strings.ToValidUTF8(s.Text, "\ufffd"), back.Text)
}

func TestTimesAreClamped(t *testing.T) {
	ms := time.Millisecond
	backward := []engine.Segment{
		{Start: -500 * ms, End: -200 * ms, Text: "a"}, {Start: 3000 * ms, End: 2000 * ms, Text: "b"}, {Start: 100 * ms, End: 3500 * ms, Text: "c"},
	}
	assert.Equal(t, "1\n00:00:00,000 --> 00:00:00,001\na\n\n2\n00:00:03,000 --> 00:00:03,001\nb\n\n3\n00:00:03,001 --> 00:00:03,500\nc\n\n", write(t, SRT, backward...))
	lines := strings.Split(write(t, NDJSON, backward...), "\n")
	assert.Contains(t, lines[0], `"start_ms":0,"end_ms":0,`)
	assert.Contains(t, lines[1], `"start_ms":3000,"end_ms":3000,`)
	assert.Contains(t, lines[2], `"start_ms":100,"end_ms":3500,`, "ndjson tells overlaps as they are")
	assert.Contains(t, write(t, VTT, engine.Segment{Start: 123 * time.Hour, End: 124 * time.Hour, Text: "late"}), "123:00:00.000 --> 124:00:00.000")
}

func TestConfidenceIsToldOnlyWhenKnown(t *testing.T) {
	for _, unknown := range []float64{-1, -0.001, math.NaN(), math.Inf(-1)} {
		assert.NotContains(t, write(t, NDJSON, engine.Segment{Confidence: unknown}), "confidence")
	}
	for c, want := range map[float64]string{0: "0", 1: "1", 7: "1", math.Inf(1): "1", 0.5: "0.5", 0.123456: "0.1235"} {
		assert.Contains(t, write(t, NDJSON, engine.Segment{Confidence: c}), `"confidence":`+want+"}")
	}
}

// cuePattern is a cue of either kind of subtitles: number, times, one line of text.
var cuePattern = regexp.MustCompile(`^(?:(\d+)\n)?(\d{2,}):([0-5]\d):([0-5]\d)[,.](\d{3}) --> (\d{2,}):([0-5]\d):([0-5]\d)[,.](\d{3})\n([^\n]+)$`)

// TestRapidItemsAreAFile: whatever the segments, the items read back as a file of the format, in order.
func TestRapidItemsAreAFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.Int64Range(int64(-time.Second), int64(5*time.Hour))
		words := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z<>&\n\r -]{0,20}`), rapid.Just("-->\n\n1\n00:00:00,000 --> 00:00:01,000\nx"))
		var segments []engine.Segment
		texts := 0
		for range rapid.IntRange(0, 6).Draw(t, "segments") {
			s := engine.Segment{Start: time.Duration(times.Draw(t, "start")), End: time.Duration(times.Draw(t, "end")), Text: words.Draw(t, "text")}
			if oneLine(s.Text) != "" {
				texts++
			}
			segments = append(segments, s)
		}
		file, found := strings.CutPrefix(write(t, VTT, segments...), "WEBVTT\n\n")
		require.True(t, found)
		require.NotContains(t, file, "<")
		checkCues(t, file, texts, false)
		checkCues(t, write(t, SRT, segments...), texts, true)
		require.Equal(t, texts, strings.Count(write(t, Text, segments...), "\n"))
		lines := bufio.NewScanner(strings.NewReader(write(t, NDJSON, segments...)))
		n := 0
		for ; lines.Scan(); n++ {
			require.True(t, json.Valid(lines.Bytes()), "%q", lines.Text())
		}
		require.Equal(t, len(segments), n)
	})
}

func checkCues(t *rapid.T, file string, want int, numbered bool) {
	require.True(t, utf8.ValidString(file))
	blocks := strings.Split(file, "\n\n")
	require.Empty(t, blocks[len(blocks)-1])
	require.Len(t, blocks, want+1)
	last := int64(0)
	for i, b := range blocks[:want] {
		m := cuePattern.FindStringSubmatch(b)
		require.NotNil(t, m, "cue %q", b)
		require.Equal(t, map[bool]string{true: fmt.Sprint(i + 1)}[numbered], m[1])
		require.NotContains(t, m[10], "-->")
		start, end := cueTime(m[2:6]), cueTime(m[6:10])
		require.LessOrEqual(t, last, start)
		require.Less(t, start, end)
		last = end
	}
}

func cueTime(parts []string) int64 {
	var n [4]int64
	for i, p := range parts {
		n[i], _ = strconv.ParseInt(p, 10, 64) // the pattern has digits only
	}
	return ((n[0]*60+n[1])*60+n[2])*1000 + n[3]
}
