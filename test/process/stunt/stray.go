package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"

	"github.com/pipe-cartridge/pipe/bifaci"
)

// strayBytes is how much each kind of stray output writes.
const strayBytes = 1 << 20

// line is 64 bytes of one letter.
func line(letter byte) []byte { return append(bytes.Repeat([]byte{letter}, 63), '\n') }

// strayer has a file of descriptor 1 for as long as the process runs: one that the collector found would be closed by it.
type strayer struct{ raw *os.File }

// stray streams 100 chunks; meanwhile it prints P, logs L, writes R to descriptor 1 itself, and has a child that inherits the
// standard output print C, a mebibyte of each.
func (s strayer) stray(ctx context.Context, r *bifaci.Request) error {
	out := r.Output()
	if err := out.Start(bifaci.Sequence); err != nil {
		return err
	}
	times := strayBytes / len(line('P'))
	r.Go(func(context.Context) error {
		for range times {
			fmt.Printf("%s", line('P'))
		}
		return nil
	})
	r.Go(func(context.Context) error {
		logger := log.New(os.Stdout, "", 0)
		for range times {
			logger.Printf("%s", line('L'))
		}
		return nil
	})
	r.Go(func(context.Context) error {
		for range times {
			if _, err := s.raw.Write(line('R')); err != nil {
				return err
			}
		}
		return nil
	})
	r.Go(func(ctx context.Context) error {
		child := exec.CommandContext(ctx, os.Args[0])
		child.Env = append(os.Environ(), modeVariable+"=child")
		child.Stdout = os.Stdout
		return child.Run()
	})
	for i := range 100 {
		if err := out.EmitItem(ctx, uint64(i), nil); err != nil {
			return err
		}
	}
	return nil
}

// printAndEnd is the child.
func printAndEnd() {
	for range strayBytes / len(line('C')) {
		if _, err := os.Stdout.Write(line('C')); err != nil {
			os.Exit(1)
		}
	}
}
