package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/pipe-cartridge/pipe/bifaci"
)

// compute holds a processor until it is stopped.
func compute(ctx context.Context, _ *bifaci.Request) error {
	for ctx.Err() == nil {
	}
	return context.Cause(ctx)
}

// slots says how many goroutines the scheduler runs at a time.
func slots(_ context.Context, r *bifaci.Request) error {
	_, err := fmt.Fprint(r.Output(), runtime.GOMAXPROCS(0))
	return err
}
