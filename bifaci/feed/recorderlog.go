package feed

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	logTailBytes = 2000 // what is kept of the program's standard error
	saidBytes    = 500  // of it that goes into a message
	logLineBytes = 4000 // a longer line is looked at in parts
)

// What arecord says in the language C. It goes on after both.
var (
	lossLine = regexp.MustCompile(`overrun!!! \(at least ([0-9]+(?:\.[0-9]+)?) ms long\)`)
	rateLine = regexp.MustCompile(`rate is not accurate \(requested = [0-9]+Hz, got = ([0-9]+)Hz\)`)
)

// recorderLog reads arecord's standard error: it keeps the end, and understands what it says about lost audio and
// about a rate other than the one it was asked for. The zero value is ready; safe for concurrent use.
type recorderLog struct {
	mu   sync.Mutex
	tail []byte        // guarded by mu: at most logTailBytes
	line []byte        // guarded by mu: the line that is not complete yet
	lost time.Duration // guarded by mu: since takeLost
	rate uint64        // guarded by mu: Hz; 0 while nothing was said
}

// Write takes the next piece; it never fails.
func (l *recorderLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = append(l.tail, p[max(0, len(p)-logTailBytes):]...)
	if excess := len(l.tail) - logTailBytes; excess > 0 {
		l.tail = append(l.tail[:0], l.tail[excess:]...)
	}
	for rest := p; len(rest) > 0; {
		piece := rest[:min(len(rest), logLineBytes)]
		if i := bytes.IndexByte(piece, '\n'); i >= 0 {
			piece = piece[:i+1]
		}
		rest = rest[len(piece):]
		l.line = append(l.line, piece...)
		if piece[len(piece)-1] == '\n' || len(l.line) >= logLineBytes {
			l.understand(l.line)
			l.line = l.line[:0]
		}
	}
	return len(p), nil
}

// understand looks at a complete line. The caller holds mu.
func (l *recorderLog) understand(line []byte) {
	if m := lossLine.FindSubmatch(line); m != nil {
		const most = 24 * time.Hour // also what makes an absurd number harmless
		ms, err := strconv.ParseFloat(string(m[1]), 64)
		if err == nil {
			l.lost = min(l.lost+time.Duration(min(ms, float64(most/time.Millisecond))*float64(time.Millisecond)), most)
		}
	}
	if m := rateLine.FindSubmatch(line); m != nil {
		if rate, err := strconv.ParseUint(string(m[1]), 10, 64); err == nil {
			l.rate = rate
		}
	}
}

// takeLost gives the audio that was lost since the last call.
func (l *recorderLog) takeLost() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := l.lost
	l.lost = 0
	return lost
}

// actualRate is the rate that the program records at, if it said that it is not the one it was asked for, else 0; Hz.
func (l *recorderLog) actualRate() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rate
}

// said is the end of the log on one line, for a message.
func (l *recorderLog) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for line := range strings.Lines(strings.ToValidUTF8(string(l.tail), "")) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "; ")
	if len(text) > saidBytes {
		text = "…" + strings.ToValidUTF8(text[len(text)-saidBytes:], "")
	}
	if text == "" {
		return "nothing"
	}
	return text
}
