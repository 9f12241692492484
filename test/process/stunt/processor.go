package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/pipe-cartridge/pipe/bifaci"
)

// compute holds a processor until it is stopped.
func compute(ctx context.Context, _ *bifaci.Request) error {
	for ctx.Err() == nil {
	}
	return context.Cause(ctx)
}

// block holds a thread in a read until it is stopped.
func block(ctx context.Context, r *bifaci.Request) error {
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	in.Fd() // makes reads of it block
	r.Go(func(ctx context.Context) error {
		<-ctx.Done()
		return errors.Join(out.Close(), context.Cause(ctx))
	})
	_, err = in.Read(make([]byte, 1))
	return errors.Join(in.Close(), err)
}

// slots says how many goroutines the scheduler runs at a time.
func slots(_ context.Context, r *bifaci.Request) error {
	_, err := fmt.Fprint(r.Output(), runtime.GOMAXPROCS(0))
	return err
}
