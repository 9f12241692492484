package stream

import (
	"context"
	"errors"
	"io"
	"time"
)

const (
	// runLength is how many outputs a stage gathers before it hands them over.
	runLength = 64
	// maxDelay is how long an output stays in the hands of a stage that goes on stepping or emitting.
	maxDelay = time.Millisecond
)

// Run lets a stage work between two queues until the input ends, the stage ends, the output is not wanted any more, or
// ctx ends. It blocks; nobody else may take from in meanwhile. A panic of the stage becomes a *PanicError.
//
// It takes all inputs there are, and hands outputs over when these inputs are used up, when 64 have gathered, or when a
// millisecond has passed since the last time. There is no waiting for more: an output waits for the step or emit that
// is going on, and for nothing else. The outputs of a [Blocking] stage are handed over at once.
//
// However Run ends, out is closed: cleanly after a clean end, else with the error, behind all that was emitted before
// it. If in is not at its end, it is failed with the error, so that whoever puts to it learns. The result is nil after a
// clean end, else the error of the stage, the one that in ended with, or the cause of ctx.
func Run[I, O any](ctx context.Context, stage Stage[I, O], in *Queue[I], out *Queue[O]) error {
	return run(ctx, "", stage, in, out)
}

// run is Run for a stage with a name: its own errors, not those that came from elsewhere, become a *StageError.
func run[I, O any](ctx context.Context, name string, stage Stage[I, O], in *Queue[I], out *Queue[O]) (err error) {
	r := runner[I, O]{ctx: ctx, name: name, stage: stage, in: in, out: out}
	r.timed, _ = stage.(Timed[O])
	if b, ok := stage.(Blocking); ok {
		b.Begin(ctx)
		r.prompt = true
	}
	r.emit = r.gather
	err = named(name, ErrGoexit) // what stays if the stage ends its goroutine
	defer func() {
		if e, ok := stage.(Ender); ok {
			e.End(err)
		}
	}()
	defer func() {
		if v := recover(); v != nil {
			err = named(name, newPanicError(v))
		}
		_ = r.handOver() // an error is the consequence of one that is known already
		if r.stopped {
			out.Close(nil)
			in.Fail(ErrStopped)
			err = nil
			return
		}
		out.Close(err)
		in.Fail(err) // without effect if in was taken to its end
	}()
	return r.loop()
}

// runner is the state of one Run.
type runner[I, O any] struct {
	ctx   context.Context // of the call of Run, which the runner does not outlive
	name  string
	stage Stage[I, O]
	timed Timed[O] // the stage, if it is one
	in    *Queue[I]
	out   *Queue[O]

	prompt bool // the stage is Blocking: gather nothing

	emit    func(O) error // gather, made once: a method value is an allocation
	outputs []O           // emitted and not handed over
	handed  time.Time     // when something was handed over last
	lost    error         // why outputs could not be handed over; the stage cannot go on after that
	stopped bool          // the stage said ErrStopped
}

func (r *runner[I, O]) loop() error {
	var alarm <-chan time.Time
	var timer *time.Timer
	if r.timed != nil {
		timer = time.NewTimer(time.Hour)
		defer timer.Stop()
	}
	var inputs []I
	for {
		if r.timed != nil {
			alarm = setAlarm(timer, r.timed.Deadline())
		}
		var err error
		inputs, err = r.in.takeAll(r.ctx, inputs, alarm)
		switch err {
		case nil:
			err = r.steps(inputs)
		case errAlarm:
			err = r.outcome(r.timed.Expire(time.Now(), r.emit))
		case io.EOF:
			if f, ok := r.stage.(Flusher[O]); ok {
				if err := r.outcome(f.Flush(r.emit)); err != nil {
					return err
				}
			}
			return r.handOver()
		}
		if err != nil {
			return err
		}
		if err := r.handOver(); err != nil {
			return err
		}
	}
}

// steps feeds the stage with the inputs that are there.
func (r *runner[I, O]) steps(inputs []I) error {
	for _, in := range inputs {
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		if err := r.outcome(r.stage.Step(in, r.emit)); err != nil {
			return err
		}
		if len(r.outputs) > 0 && time.Since(r.handed) >= maxDelay {
			if err := r.handOver(); err != nil {
				return err
			}
		}
	}
	return nil
}

// gather is what the stage emits with.
func (r *runner[I, O]) gather(v O) error {
	if r.lost != nil {
		return r.lost
	}
	r.outputs = append(r.outputs, v)
	if r.prompt || len(r.outputs) >= runLength || time.Since(r.handed) >= maxDelay {
		return r.handOver()
	}
	return nil
}

// handOver puts what was emitted into the output queue.
func (r *runner[I, O]) handOver() error {
	if r.lost != nil || len(r.outputs) == 0 {
		return r.lost
	}
	r.lost = r.out.Put(r.ctx, r.outputs...)
	clear(r.outputs)
	r.outputs = r.outputs[:0]
	r.handed = time.Now()
	return r.lost
}

// outcome tells the stage's own errors from those it only passes on: of an output that was not wanted, or of a context
// that has ended.
func (r *runner[I, O]) outcome(err error) error {
	switch {
	case r.lost != nil: // also if the stage kept quiet about it
		return r.lost
	case err == nil:
		return nil
	case r.ctx.Err() != nil:
		return context.Cause(r.ctx)
	case errors.Is(err, ErrStopped):
		r.stopped = true
		return err
	}
	return named(r.name, err)
}

// setAlarm sets the timer of a timed stage to its deadline and returns the channel to wait on, nil for no deadline.
func setAlarm(timer *time.Timer, deadline time.Time) <-chan time.Time {
	if deadline.IsZero() {
		timer.Stop()
		return nil
	}
	timer.Reset(time.Until(deadline))
	return timer.C
}
