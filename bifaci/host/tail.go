package host

import (
	"bytes"
	"strings"
	"sync"
	"unicode/utf8"
)

// tailBytes is how much of a process's standard error is kept.
const tailBytes = 2000

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte // at most twice tailBytes
	cut bool   // something before buf is gone
}

// Write keeps the end of p; it never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p[max(0, len(p)-2*tailBytes):]...)
	if len(t.buf) > 2*tailBytes {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-tailBytes:]...)
		t.cut = true
	}
	return len(p), nil
}

// String is the end of the text, at most tailBytes, cut at the beginning of a line or of a character.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.buf
	cut := t.cut
	if len(b) > tailBytes {
		b, cut = b[len(b)-tailBytes:], true
	}
	if !cut {
		return string(b)
	}
	if i := bytes.IndexByte(b, '\n'); i >= 0 && i+1 < len(b) {
		return string(b[i+1:])
	}
	for len(b) > 0 && !utf8.RuneStart(b[0]) {
		b = b[1:]
	}
	return string(b)
}

// quoted is the tail for a message, or nothing.
func (t *tail) quoted() string {
	if s := strings.TrimSpace(t.String()); s != "" {
		return "; standard error: " + s
	}
	return ""
}
