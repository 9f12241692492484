package segment

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
)

// The names of the formats.
const (
	NDJSON = "ndjson" // one JSON object a line: start_ms, end_ms, text, engine, and confidence when it is known
	Text   = "text"   // the text alone, one line a segment
	SRT    = "srt"    // SubRip subtitles
	VTT    = "vtt"    // WebVTT subtitles
)

// CodeUnknownFormat is the code of the failure of [NewFormatter]; its class is input.
const CodeUnknownFormat = "UNKNOWN_FORMAT"

// Formatter writes the segments of one stream. It is not safe for concurrent use.
type Formatter interface {
	// Item is the item for the next segment, which the caller may keep; nil when the format has nothing to say about it,
	// as none but ndjson has when there is no text. Times are rounded to milliseconds. A time before the start of the
	// audio is the start, and an end before its beginning is the beginning; cues of srt and vtt moreover last a
	// millisecond at least and begin no sooner than the cue before has ended, as the formats want it.
	Item(s engine.Segment) []byte

	// Close is the item that ends the stream, or nil. Only vtt has one, and only when there was no other: its header.
	Close() []byte
}

// NewFormatter makes the formatter with this name. An unknown name is a failure of class input that lists the known ones.
func NewFormatter(name string) (Formatter, error) {
	switch name {
	case NDJSON:
		return ndjson{}, nil
	case Text:
		return text{}, nil
	case SRT:
		return &srt{}, nil
	case VTT:
		return &vtt{}, nil
	}
	return nil, failure.Newf(CodeUnknownFormat, failure.Input, "output format %q is not known: use one of ndjson, text, srt, vtt", name)
}

type ndjson struct{}

func (ndjson) Item(s engine.Segment) []byte {
	line := struct {
		StartMS    int64    `json:"start_ms"`
		EndMS      int64    `json:"end_ms"`
		Text       string   `json:"text"`
		Engine     string   `json:"engine"`
		Confidence *float64 `json:"confidence,omitempty"`
	}{Text: s.Text, Engine: s.Engine}
	line.StartMS, line.EndMS = span(s)
	if s.Confidence >= 0 { // neither negative nor NaN
		c := math.Round(min(s.Confidence, 1)*1e4) / 1e4
		line.Confidence = &c
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(line); err != nil {
		panic(fmt.Sprintf("segment: %v", err)) // a struct of numbers and strings always encodes
	}
	return out.Bytes()
}

func (ndjson) Close() []byte { return nil }

type text struct{}

func (text) Item(s engine.Segment) []byte {
	line := oneLine(s.Text)
	if line == "" {
		return nil
	}
	return []byte(line + "\n")
}

func (text) Close() []byte { return nil }

// cues keeps what cues of one file must agree on.
type cues struct {
	count int
	end   int64 // of the last one, in ms
}

// next is the time of the next cue in ms.
func (c *cues) next(s engine.Segment) (start, end int64) {
	start, end = span(s)
	start = max(start, c.end)
	end = max(end, start+1)
	c.count++
	c.end = end
	return start, end
}

type srt struct{ cues }

func (f *srt) Item(s engine.Segment) []byte {
	// SubRip has no escapes: the arrow, which readers take for times, becomes one that they do not.
	line := strings.ReplaceAll(oneLine(s.Text), "-->", "→")
	if line == "" {
		return nil
	}
	start, end := f.next(s)
	return fmt.Appendf(nil, "%d\n%s --> %s\n%s\n\n", f.count, clock(start, ','), clock(end, ','), line)
}

func (f *srt) Close() []byte { return nil }

type vtt struct{ cues }

const vttHeader = "WEBVTT\n\n"

// vttEscapes also takes the arrow apart.
var vttEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func (f *vtt) Item(s engine.Segment) []byte {
	line := vttEscapes.Replace(oneLine(s.Text))
	if line == "" {
		return nil
	}
	var out []byte
	if f.count == 0 {
		out = append(out, vttHeader...)
	}
	start, end := f.next(s)
	return fmt.Appendf(out, "%s --> %s\n%s\n\n", clock(start, '.'), clock(end, '.'), line)
}

func (f *vtt) Close() []byte {
	if f.count > 0 {
		return nil
	}
	return []byte(vttHeader)
}

// span is when s was said, in ms: 0 ≤ start ≤ end.
func span(s engine.Segment) (start, end int64) {
	start = max(s.Start, 0).Round(time.Millisecond).Milliseconds()
	return start, max(s.End.Round(time.Millisecond).Milliseconds(), start)
}

// oneLine makes a line of text: control characters and all kinds of line ends and blanks become one blank.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r // bytes that are no UTF-8 come as U+FFFD
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// clock writes a time as both kinds of subtitles do, but for the point.
func clock(ms int64, point byte) string {
	hours := strconv.FormatInt(ms/3_600_000, 10)
	if len(hours) < 2 {
		hours = "0" + hours
	}
	return fmt.Sprintf("%s:%02d:%02d%c%03d", hours, ms/60_000%60, ms/1000%60, point, ms%1000)
}
