package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stdio"
)

// barWidth is the length of the progress bar, characters.
const barWidth = 30

// progress shows logs: plain lines, and on a terminal progress as a bar that stays in place.
type progress struct {
	w     io.Writer
	bar   bool // w is a terminal
	drawn bool // a bar stands on the current line
}

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	return &progress{w: w, bar: ok && stdio.IsTerminal(f)}
}

func (p *progress) log(rec *frame.LogRecord) {
	if rec.IsProgress() && p.bar {
		full := int(min(max(rec.Progress, 0), 1)*barWidth + 0.5)
		fmt.Fprintf(p.w, "\r\x1b[K[%s%s] %3.0f%% %s", strings.Repeat("#", full), strings.Repeat(" ", barWidth-full), rec.Progress*100, oneLine(rec.Message))
		p.drawn = true
		return
	}
	p.clear()
	if rec.IsProgress() {
		fmt.Fprintf(p.w, "[progress] %3.0f%% %s\n", rec.Progress*100, oneLine(rec.Message))
		return
	}
	fmt.Fprintf(p.w, "[%s] %s\n", rec.Level, rec.Message)
}

// clear takes a bar off the line, so that something else can be written there.
func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}
