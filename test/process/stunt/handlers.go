package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

// wait answers after as many milliseconds as its argument says.
func wait(ctx context.Context, r *bifaci.Request) error {
	text, err := argument(ctx, r)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	select {
	case <-time.After(time.Duration(n) * time.Millisecond):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_, err = r.Output().Write([]byte("waited " + text))
	return err
}

// pour streams until it is stopped; then its cleanup leaves a line with the cause.
func pour(ctx context.Context, r *bifaci.Request) error {
	defer func() { mark("cleaned up: " + fmt.Sprint(context.Cause(ctx))) }()
	piece := make([]byte, 8<<10)
	for {
		if _, err := r.Output().Write(piece); err != nil {
			<-ctx.Done()
			return err
		}
	}
}

// grumble writes much to standard error and then answers.
func grumble(ctx context.Context, r *bifaci.Request) error {
	text, err := argument(ctx, r)
	if err != nil {
		return err
	}
	line := make([]byte, 4<<10)
	failed := 0
	for range 64 {
		if _, err := os.Stderr.Write(line); err != nil {
			failed++
		}
	}
	_, err = fmt.Fprintf(r.Output(), "%s after %d failed writes", text, failed)
	return err
}

func panics(context.Context, *bifaci.Request) error { panic("on purpose") }

// worker panics in a goroutine of the request's, while the handler waits.
func worker(ctx context.Context, r *bifaci.Request) error {
	r.Go(func(context.Context) error { panic("in a worker") })
	<-ctx.Done()
	return context.Cause(ctx)
}

func goexit(context.Context, *bifaci.Request) error { runtime.Goexit(); return nil }

// nibble reads two items and leaves the rest; the first says how it ends.
func nibble(ctx context.Context, r *bifaci.Request) error {
	input, err := r.TakeInput()
	if err != nil {
		return err
	}
	in, err := input.Next(ctx)
	if err != nil {
		return err
	}
	var how string
	for i := range 2 {
		item, err := in.Next(ctx)
		if err != nil {
			return err
		}
		if i == 0 {
			how = string(item.Bytes)
		}
	}
	switch how {
	case "return":
		return nil
	case "fail":
		return failure.New("ENOUGH", failure.Input, "two items are enough")
	case "close": // the sender can go on to its end
		if err := in.Close(); err != nil {
			return err
		}
		if _, err := input.Next(ctx); !errors.Is(err, io.EOF) {
			return fmt.Errorf("after the closed stream: %w", err)
		}
		return nil
	case "wait":
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return fmt.Errorf("unknown end %q", how)
}

// stall never reads and waits for its context.
func stall(ctx context.Context, _ *bifaci.Request) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// deaf ignores its context for a minute.
func deaf(context.Context, *bifaci.Request) error {
	time.Sleep(time.Minute)
	return errors.New("a minute is over")
}

// settle collects garbage and gives free memory back to the system.
func settle(context.Context, *bifaci.Request) error {
	debug.FreeOSMemory()
	return nil
}

// census counts the goroutines of the process.
func census(_ context.Context, r *bifaci.Request) error {
	_, err := fmt.Fprint(r.Output(), runtime.NumGoroutine())
	return err
}

// stubborn goes on for 5 ms after it was stopped, and knows how many of its kind ever ran at a time.
type stubborn struct{ running, peak atomic.Int64 }

func (s *stubborn) handle(ctx context.Context, _ *bifaci.Request) error {
	n := s.running.Add(1)
	defer s.running.Add(-1)
	for old := s.peak.Load(); n > old && !s.peak.CompareAndSwap(old, n); old = s.peak.Load() {
	}
	<-ctx.Done()
	time.Sleep(5 * time.Millisecond)
	return nil
}

func (s *stubborn) report(_ context.Context, r *bifaci.Request) error {
	_, err := fmt.Fprint(r.Output(), s.peak.Load())
	return err
}
