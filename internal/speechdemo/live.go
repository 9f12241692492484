package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// How live audio is fed: 16 kHz mono s16 behind a plain WAV header.
const (
	wavHeader      = 44     // bytes
	bytesPerSecond = 32_000 // of sound
	livePiece      = 50 * time.Millisecond
	liveTail       = 4 * time.Second // of silence that goes on after the clip, as a live source does
)

// live feeds clips at the pace of their sound and sees that the first line comes before the input has ended.
func (d *demo) live(ctx context.Context, clips []string) error {
	for _, clip := range clips {
		wav, err := os.ReadFile(clip)
		if err != nil {
			return err
		}
		wav = append(wav, make([]byte, int(liveTail.Seconds()*bytesPerSecond))...)
		first, ended, line, err := feedLive(ctx, wav, d.bifaci, "run", d.cartridge, "transcribe", "-", "--arg", "engine=pocketsphinx", "--arg", "format=text")
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.Base(clip), ".wav")
		d.verdict(line != "" && first < ended, "live          %s first line after %.2f s, input ended after %.2f s: %q", name[len(name)-4:], first.Seconds(), ended.Seconds(), line)
	}
	return nil
}

// feedLive runs a program, feeds it at the pace of the sound, and tells when its first line came and when the input ended.
func feedLive(ctx context.Context, wav []byte, program string, args ...string) (first, ended time.Duration, line string, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, 0, "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, "", err
	}
	if err := cmd.Start(); err != nil {
		return 0, 0, "", err
	}
	begun := time.Now()
	type end struct {
		at  time.Duration
		err error
	}
	fed := make(chan end, 1)
	go func() { // ends with the sound; waited for below
		piece := int(livePiece.Seconds() * bytesPerSecond)
		tick := time.NewTicker(livePiece)
		defer tick.Stop()
		var err error
		for rest := wav; len(rest) > 0 && err == nil; {
			n := min(piece, len(rest))
			if len(rest) == len(wav) {
				n = min(wavHeader+piece, len(rest))
			}
			_, err = in.Write(rest[:n])
			rest = rest[n:]
			select {
			case <-tick.C:
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		fed <- end{time.Since(begun), errors.Join(err, in.Close())}
	}()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if line == "" {
			first, line = time.Since(begun), lines.Text()
		}
	}
	e := <-fed
	if err := errors.Join(lines.Err(), e.err, cmd.Wait()); err != nil {
		return 0, 0, "", fmt.Errorf("%s: %w", program, err)
	}
	return first, e.at, line, nil
}
