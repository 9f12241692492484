package sphinx

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"sync"
)

const (
	logLineBytes = 4 << 10 // a longer line is read in pieces
	logTailBytes = 8 << 10 // what is kept for whoever looks at a failure
	saidBytes    = 300     // of a line that goes into a message
)

// childLog reads the child's standard error to its end, so that the child never waits for it, and keeps the tail.
// A start alone is some 280 lines.
type childLog struct {
	// onGrammarError, if not nil, is called once, with what the child says against the grammar.
	onGrammarError func(said string)

	mu   sync.Mutex
	tail []byte // guarded by mu: the last lines, at most logTailBytes and one line
	last string // guarded by mu: the last line that is not blank
}

// drain returns when r ends or fails; either is the end of the log.
func (l *childLog) drain(r io.Reader) {
	lines := bufio.NewReaderSize(r, logLineBytes)
	for {
		piece, err := lines.ReadSlice('\n')
		l.add(string(piece))
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (l *childLog) add(line string) {
	l.mu.Lock()
	l.tail = append(l.tail, line...)
	if excess := len(l.tail) - logTailBytes; excess > 0 {
		l.tail = append(l.tail[:0], l.tail[excess:]...)
	}
	if trimmed := strings.TrimSpace(line); trimmed != "" {
		l.last = trimmed
	}
	l.mu.Unlock()
	if l.onGrammarError == nil {
		return
	}
	if said, ok := grammarError(strings.TrimSpace(line)); ok {
		l.onGrammarError(said)
		l.onGrammarError = nil
	}
}

// lastLine is the last thing the child said, shortened for a message; blank if it said nothing.
func (l *childLog) lastLine() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return shorten(l.last)
}

// kept is the tail of the log.
func (l *childLog) kept() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.tail)
}

// grammarError recognises what the child says against a grammar, and takes the place in its source code off. Some of
// it ends the child with status 1; an undefined rule or left recursion does not: it goes on with a grammar that
// matches less, and status 0.
func grammarError(line string) (said string, ok bool) {
	rest, isError := strings.CutPrefix(line, `ERROR: "`)
	if !isError {
		return "", false
	}
	source, rest, _ := strings.Cut(rest, `"`)
	_, said, found := strings.Cut(rest, ": ")
	if !found {
		said = rest
	}
	said = shorten(said)
	return said, strings.HasPrefix(source, "jsgf") ||
		source == "fsg_search.c" && strings.Contains(said, "missing in the dictionary") ||
		source == "pocketsphinx.c" && (strings.Contains(said, "public rules") || strings.Contains(said, "Start rule"))
}

func shorten(line string) string {
	if len(line) > saidBytes {
		line = line[:saidBytes] + "…"
	}
	return strings.ToValidUTF8(line, "\ufffd")
}
