package bifaci

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/credit"
	"github.com/pipe-cartridge/pipe/pools"
	"github.com/pipe-cartridge/pipe/stages"
)

// Request is one call of a handler: its input, its output, and what it may reach. It is valid until the handler returns; what
// a goroutine that outlives the handler does with it is refused or counted, never written. Safe for concurrent use.
type Request struct {
	env   environment
	route *route
	ctx   context.Context
	stop  context.CancelCauseFunc
	input InputPackage
	out   OutputStream
	group group // goroutines of Go

	wire *wireRequest // nil in CLI mode
}

// environment is what differs between a link and the command line.
type environment interface {
	options() *options
	policy() (Policy, bool)
	cap(*route) *manifest.Cap
	fail(r *Request, err error) // stops r because one of its goroutines failed
}

// wireRequest is the part of a request that lives on a link: its flow, its streams, and the one decision how it ends.
type wireRequest struct {
	Request
	link    *link
	flow    stages.Flow
	recv    stages.Receiver
	sender  stages.Sender
	sink    wireSink
	name    [36]byte      // of the response stream
	gates   credit.Router // of the response, fed by CREDIT
	slot    pools.Waiter  // guarded by link.mu
	act     stages.Activity
	handler *handler
	turn    *factoryTurn // nil for plain functions

	waiting bool        // state Q; guarded by link.mu
	noCalls bool        // the handler has returned; guarded by mu
	bodyEnd atomic.Bool // END or ERR of the body was received: state E
	stopped atomic.Bool // cancelled or poisoned: state X
	ended   atomic.Bool // the terminal is on its way: state T

	hasCalls atomic.Bool // calls is not empty
	age      *ageFlusher // of the sender, with WithAgeFlush; or nil

	mu         sync.Mutex
	references *references            // made by the first reference, or nil
	calls      map[frame.ID]*PeerCall // peer calls of the handler; ended ones are swept out now and then
	sweepAt    int                    // the number of them at which
	outcome    *outcome               // set once: how the request ends
	last       *lastWords             // what the handler has said for END, or nil
}

// factoryTurn makes factories run in order of admission.
type factoryTurn struct {
	done   chan struct{} // closed when the factory has returned
	before chan struct{} // the same of the request admitted before, or nil
}

// lastWords are the progress and the message of END.
type lastWords struct {
	progress float64
	message  string
}

// outcome is how a request ends: the first of the handler's result, a cancel and a violation.
type outcome struct {
	failure   *failure.Failure      // nil for success
	streamEnd bool                  // a started stream gets STREAM_END in front of the ERR
	reason    *failure.CancelReason // of a cancel
}

// ID is the request's id on the wire; the zero ID in CLI mode.
func (r *Request) ID() frame.ID {
	if r.wire == nil {
		return frame.ID{}
	}
	return r.wire.flow.ID()
}

// CapURN is the cap as the requester named it.
func (r *Request) CapURN() string { return r.route.cap }

// Pattern is the registered pattern that serves the request, in canonical form.
func (r *Request) Pattern() string { return r.route.pattern }

// Context is the handler's context. It ends, with a cause, when the request is cancelled or breaks a rule, when the link
// fails, and after the request's terminal was sent.
func (r *Request) Context() context.Context { return r.ctx }

// TakeInput hands the input over. It succeeds once; then, and after [Request.Input], it returns [ErrInputTaken].
func (r *Request) TakeInput() (*InputPackage, error) {
	if !r.input.taken.CompareAndSwap(inputFree, inputTaken) {
		return nil, ErrInputTaken
	}
	return &r.input, nil
}

// Input is one named argument as a stream: the first input stream whose media URN is equivalent to mediaURN (R-6.15,
// It waits for that stream to start; when the body ends without it the error matches [ErrMissingArgument]. It may be
// called for several arguments, also at the same time. A handler that wants all of several arguments must read them at the
// same time, or collect them: the sender may interleave them, and a stream that nobody reads holds its sender back.
func (r *Request) Input(ctx context.Context, mediaURN string) (*InputStream, error) {
	if !r.input.taken.CompareAndSwap(inputFree, inputNamed) && r.input.taken.Load() != inputNamed {
		return nil, ErrInputTaken
	}
	return r.input.named(ctx, mediaURN)
}

// Output is the request's one response stream.
func (r *Request) Output() *OutputStream { return &r.out }

// Start is Output().Start, for handlers that begin with it.
func (r *Request) Start(opts ...StartOption) (*OutputStream, error) {
	return &r.out, r.out.Start(opts...)
}

// StartUnbounded is Output().StartUnbounded.
func (r *Request) StartUnbounded(opts ...StartOption) (*OutputStream, error) {
	return &r.out, r.out.StartUnbounded(opts...)
}

// Network answers whether the host's live policy allows to reach something.
func (r *Request) Network() NetworkAccess { return NetworkAccess{r.env} }

// flushGrants grants what the handler has consumed, before the request waits for anything.
func (w *wireRequest) flushGrants() {
	w.recv.Flush()
	for _, c := range w.openCalls() {
		c.recv.Flush()
	}
}
