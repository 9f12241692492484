package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// pieceTime is how much sound is sent at a time.
const pieceTime = 50 * time.Millisecond

var (
	errNoFit   = errors.New("no drawn text fits between 10 and 20 seconds")
	errNothing = errors.New("no segment came back")
)

// segment is one line of the transcript, with the time since the start at which it arrived.
type segment struct {
	StartMS int64  `json:"start_ms"`
	EndMS   int64  `json:"end_ms"`
	Text    string `json:"text"`
	arrived time.Duration
}

// transcript is what came back.
type transcript struct {
	segments []segment
	lastSent time.Duration // when the last byte of sound was written
}

func (t transcript) text() string {
	texts := make([]string, len(t.segments))
	for i, s := range t.segments {
		texts[i] = s.Text
	}
	return strings.Join(texts, " ")
}

// pacing says when each piece of the sound is due.
type pacing struct {
	piece    int           // bytes
	interval time.Duration // 0 sends as fast as it goes
}

// pace is real time: a piece is due when its sound would have been captured.
func pace(r recording) pacing {
	return pacing{int(float64(r.bytesPS)*pieceTime.Seconds()) &^ 1, pieceTime}
}

// stream runs a program, writes sound to it at the given pace, and reads segments from it as they come, printing each to w.
func stream(ctx context.Context, sound []byte, p pacing, w io.Writer, program string, args ...string) (transcript, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return transcript{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return transcript{}, err
	}
	if err := cmd.Start(); err != nil {
		return transcript{}, err
	}
	begun := time.Now()
	type sent struct {
		last time.Duration
		err  error
	}
	feeding := make(chan sent, 1)
	go func() { // ends with the sound, or when the program closes its input; waited for below
		err := feed(ctx, in, sound, p)
		feeding <- sent{time.Since(begun), errors.Join(err, in.Close())}
	}()
	var t transcript
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		s := segment{arrived: time.Since(begun)}
		if err = json.Unmarshal(lines.Bytes(), &s); err != nil {
			err = fmt.Errorf("a line that is no segment: %q: %w", lines.Text(), err)
			break
		}
		t.segments = append(t.segments, s)
		fmt.Fprintf(w, "%6.2f s  %q from %.2f to %.2f s\n", s.arrived.Seconds(), s.Text, float64(s.StartMS)/1e3, float64(s.EndMS)/1e3)
	}
	err = errors.Join(err, lines.Err())
	if err != nil {
		err = errors.Join(err, cmd.Process.Kill())
	}
	done := <-feeding
	t.lastSent = done.last
	return t, errors.Join(err, done.err, cmd.Wait())
}

// feed writes the sound piece by piece, each when it is due.
func feed(ctx context.Context, w io.Writer, sound []byte, p pacing) error {
	var due <-chan time.Time
	if p.interval > 0 {
		tick := time.NewTicker(p.interval)
		defer tick.Stop()
		due = tick.C
	}
	for len(sound) > 0 {
		if due != nil {
			select {
			case <-due:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		n := min(p.piece, len(sound))
		if _, err := w.Write(sound[:n]); err != nil {
			return fmt.Errorf("writing sound: %w", err)
		}
		sound = sound[n:]
	}
	return nil
}

// judge compares what came back with what was drawn, and when it came.
func judge(want string, got transcript) error {
	if len(got.segments) == 0 {
		return errNothing
	}
	if got.text() != want {
		return fmt.Errorf("heard %q, sent was %q", got.text(), want)
	}
	if first := got.segments[0].arrived; first >= got.lastSent {
		return fmt.Errorf("the first segment came after %.2f s, when the last byte had been sent (%.2f s): nothing was live",
			first.Seconds(), got.lastSent.Seconds())
	}
	return nil
}
