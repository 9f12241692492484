package bifaci

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// maxStack is how much of a panic's stack goes into its LOG, bytes.
const maxStack = 8 << 10

// PanicError is a panic, or a runtime.Goexit, in a handler or in a goroutine that works for it. The request fails with it as with
// any other error: HANDLER_ERROR/internal, whatever the panic's value was; a LOG with the stack goes in front.
type PanicError struct {
	Value any    // what panic was called with; nil for runtime.Goexit
	Stack []byte // of the goroutine, cut to 8 KiB

	logged atomic.Bool
}

// Error starts with "panic:".
func (e *PanicError) Error() string {
	if e.Value == nil {
		return "panic: runtime.Goexit was called"
	}
	return fmt.Sprintf("panic: %v", e.Value)
}

// guard calls f and then done, once, with f's error; a panic of f, or runtime.Goexit, becomes a [*PanicError]. After Goexit the
// goroutine ends behind done.
func guard(f func() error, done func(error)) {
	var err error
	returned := false
	defer func() {
		if !returned {
			err = caught(recover())
		}
		done(err)
	}()
	err = f()
	returned = true
}

// caught makes an error of what recover gave; it is called on the goroutine that panicked, with its stack still there.
func caught(v any) *PanicError {
	stack := debug.Stack()
	return &PanicError{Value: v, Stack: stack[:min(len(stack), maxStack)]}
}

// logPanic sends the stack of a panic in err's chain, once.
func logPanic(ctx context.Context, sink outputSink, err error) error {
	if err == nil {
		return nil
	}
	var p *PanicError
	if !errors.As(err, &p) || p.logged.Swap(true) {
		return nil
	}
	return sink.log(context.WithoutCancel(ctx), frame.LogRecord{Level: "error", Class: failure.Internal,
		Message: p.Error() + "\n" + validText(string(p.Stack))})
}
