package bifaci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// PeerResponse is the answer of a call: data items and logs in arrival order. One goroutine at a time may read it.
type PeerResponse struct {
	call *PeerCall
	err  error // sticky

	mu     sync.Mutex
	status frame.EndStatus
}

// ResponseItem is one thing of an answer: Data or Log, the other is nil.
type ResponseItem struct {
	Data   *Item
	Stream *ResponseStream // of Data; nil for the payload of END
	Log    *frame.LogRecord
}

// ResponseStream is what an answer's STREAM_START said.
type ResponseStream struct {
	ID, MediaURN          string
	Meta                  []byte // CBOR map, or nil; see [frame.DecodeMeta]
	IsSequence, Unbounded bool
}

func (r *PeerResponse) setStatus(s frame.EndStatus) {
	r.mu.Lock()
	r.status = s
	r.mu.Unlock()
}

// Status is what a successful END said; it counts after Next has returned io.EOF.
func (r *PeerResponse) Status() frame.EndStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Next returns the next item in arrival order. It returns io.EOF only after an END with exit_code 0; an ERR
// is a [*failure.Remote] with the callee's identity; losing the answer for any other reason is an error too, never a clean
// end. Errors are sticky. Reading grants credit.
func (r *PeerResponse) Next(ctx context.Context) (ResponseItem, error) {
	if r.err != nil {
		return ResponseItem{}, r.err
	}
	raw, in, log, err := r.call.recv.NextMerged(ctx)
	if err == nil && log != nil {
		return ResponseItem{Log: log}, nil
	}
	var it Item
	if err == nil {
		it, err = newItem(raw)
	}
	if err != nil {
		if ctx.Err() == nil {
			r.err = err
		}
		return ResponseItem{}, err
	}
	item := ResponseItem{Data: &it}
	if in != nil {
		item.Stream = &ResponseStream{in.ID(), in.MediaURN(), in.Meta(), in.IsSequence(), in.IsUnbounded()}
	}
	return item, nil
}

// Items is Next as an iterator; it ends at the clean end, or with an error.
func (r *PeerResponse) Items(ctx context.Context) iter.Seq2[ResponseItem, error] {
	return func(yield func(ResponseItem, error) bool) {
		for {
			it, err := r.Next(ctx)
			if err == io.EOF {
				return
			}
			if !yield(it, err) || err != nil {
				return
			}
		}
	}
}

// CollectBytes returns the concatenated bytes of all data items. A LOG is an error.
func (r *PeerResponse) CollectBytes(ctx context.Context) ([]byte, error) {
	var all []byte
	for it, err := range r.Items(ctx) {
		if err != nil {
			return nil, err
		}
		if it.Log != nil {
			return nil, unexpectedLog(it.Log)
		}
		all = append(all, it.Data.Bytes...)
		it.Data.Release()
	}
	return all, nil
}

// CollectValue returns the value of the one data item. None gives [ErrStreamEmpty], more than one or a LOG is an error.
func (r *PeerResponse) CollectValue(ctx context.Context) (any, error) {
	var value any
	n := 0
	for it, err := range r.Items(ctx) {
		if err != nil {
			return nil, err
		}
		if it.Log != nil {
			return nil, unexpectedLog(it.Log)
		}
		if n++; n > 1 {
			return nil, errors.New("bifaci: the answer has more than one item")
		}
		if value, err = it.Data.Value(); err != nil {
			return nil, err
		}
	}
	if n == 0 {
		return nil, fmt.Errorf("%w: the answer", ErrStreamEmpty)
	}
	return value, nil
}

func unexpectedLog(log *frame.LogRecord) error {
	return fmt.Errorf("bifaci: the answer has a LOG (%s: %s), which this collector does not take", log.Level, log.Message)
}

// CollectBytesForwarding is CollectBytes for handlers that pass the callee's logs on: progress p is sent on out as
// base + clamp(p, 0, 1)·weight, other LOGs as they came.
func (r *PeerResponse) CollectBytesForwarding(ctx context.Context, out *OutputStream, base, weight float64) ([]byte, error) {
	var all []byte
	for it, err := range r.Items(ctx) {
		if err != nil {
			return nil, err
		}
		if it.Log == nil {
			all = append(all, it.Data.Bytes...)
			it.Data.Release()
			continue
		}
		if err := forwardLog(out, it.Log, base, weight); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func forwardLog(out *OutputStream, log *frame.LogRecord, base, weight float64) error {
	switch {
	case log.IsProgress():
		return out.Progress(MapProgress(log.Progress, base, weight), log.Message)
	case log.ArgURN != "":
		return out.LogForArgument(log.Level, log.Class, log.Message, log.ArgURN)
	}
	return out.Log(log.Level, log.Class, log.Message)
}

// MapProgress maps a part's progress into the whole: base + clamp(v, 0, 1)·weight.
func MapProgress(v, base, weight float64) float64 { return base + min(max(v, 0), 1)*weight }

// Close gives the answer up: what is unread is dropped and the callee, unless it has ended, gets a CANCEL ABORTED/internal
// . It is idempotent.
func (r *PeerResponse) Close() error {
	r.call.Abandon(ErrClosed, failure.HostAbort(failure.Internal, "the caller has closed the answer"))
	return nil
}
