package stream

import (
	"errors"
	"fmt"
	"runtime/debug"
)

var (
	// ErrStopped says that no more is wanted and nothing is wrong: the cause that stages see when their consumer has
	// left. A stage that returns it ends its stream cleanly. Pipeline.Wait does not report it.
	ErrStopped = errors.New("stopped, no more is wanted")
	// ErrGoexit is the error of a stage that ended its goroutine instead of returning.
	ErrGoexit = errors.New("goroutine was ended by runtime.Goexit")
)

// StageError is an error of a named stage of a pipeline.
type StageError struct {
	Stage string
	Err   error
}

// Error names the stage in front of the error.
func (e *StageError) Error() string { return "stage " + e.Stage + ": " + e.Err.Error() }

// Unwrap returns the error without the name.
func (e *StageError) Unwrap() error { return e.Err }

// PanicError is a panic of a stage. If the value was an error, errors.Is and As find it.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine that panicked, as debug.Stack gives it
}

// Error returns the value of the panic; the stack is left out.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value of the panic if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// newPanicError must be called by the deferred function that recovered, so that the stack is still that of the panic.
func newPanicError(value any) *PanicError { return &PanicError{Value: value, Stack: debug.Stack()} }

// named gives err the name of the stage it comes from, unless it has one, or the stage has none, or it is no failure.
func named(stage string, err error) error {
	var has *StageError
	if err == nil || stage == "" || errors.Is(err, ErrStopped) || errors.As(err, &has) {
		return err
	}
	return &StageError{Stage: stage, Err: err}
}

// background calls f on a goroutine and delivers its result, once, however f ends. The caller joins it by receiving, or
// has a written reason not to.
func background(f func() error) <-chan error {
	result := make(chan error, 1)
	go func() {
		err := ErrGoexit
		defer func() {
			if v := recover(); v != nil {
				err = newPanicError(v)
			}
			result <- err
		}()
		err = f()
	}()
	return result
}
