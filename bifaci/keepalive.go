package bifaci

import (
	"context"
	"time"
)

// RunWithKeepalive runs f in a goroutine of its own and reports Progress(p, message) on out at a fixed interval until f returns,
// so that a long silent computation does not look dead: a consumer gives up after 120 s without a frame. The interval is 5 s, or
// what [WithKeepaliveInterval] says; the first report comes after the first interval. It returns what f returns, never before
// f, and a [*PanicError] when f panics or calls runtime.Goexit. f's context is ctx.
func RunWithKeepalive[T any](ctx context.Context, out *OutputStream, p float64, message string, f func(context.Context) (T, error)) (T, error) {
	var v T
	if _, err := progressRecord(p, message); err != nil {
		return v, err
	}
	var err error
	done := make(chan struct{})
	go guard(func() (err error) { // waited for below
		v, err = f(ctx)
		return err
	}, func(e error) {
		err = e
		close(done)
	})
	every := time.NewTicker(out.keepaliveInterval())
	defer every.Stop()
	for reports := every.C; ; {
		select {
		case <-done:
			return v, err
		case <-reports:
			if out.Progress(p, message) != nil {
				reports = nil // the output has failed, which f's own calls tell better
			}
		}
	}
}

// keepaliveInterval is how often RunWithKeepalive reports.
func (o *OutputStream) keepaliveInterval() time.Duration {
	if o.keepalive > 0 {
		return o.keepalive
	}
	return defaultKeepaliveInterval
}
