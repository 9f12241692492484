package cartridgetest

import (
	"context"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/host"
)

// defaultPatience is how long the harness waits for anything.
const defaultPatience = 20 * time.Second

// outputPipeBytes is how much of the cartridge's output may be unread: what a system pipe holds.
const outputPipeBytes = 64 << 10

type options struct {
	ctx      context.Context
	limits   frame.Limits
	policy   *bifaci.Policy
	patience time.Duration
	manual   bool
	unrouted bool
	bare     bool
	readMax  int
}

func newOptions(ctx context.Context, opts []Option) options {
	online := host.Online()
	o := options{ctx: ctx, limits: frame.DefaultLimits(), policy: &online, patience: defaultPatience}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// Option changes how a [Host] behaves.
type Option func(*options)

// WithLimits sets the limits that the host proposes. The default is [frame.DefaultLimits].
func WithLimits(l frame.Limits) Option { return func(o *options) { o.limits = l } }

// WithWindow sets only the initial credit that the host proposes, in CHUNKs.
func WithWindow(n uint64) Option { return func(o *options) { o.limits.InitialCredit = n } }

// WithPolicy sets the network policy that is sent after the handshake. The default allows everything.
func WithPolicy(p bifaci.Policy) Option { return func(o *options) { o.policy = &p } }

// WithoutPolicy sends no policy: the cartridge refuses every request but identity until [Host.Policy].
func WithoutPolicy() Option { return func(o *options) { o.policy = nil } }

// WithoutHello sends nothing at all at the start, not even HELLO.
func WithoutHello() Option { return func(o *options) { o.bare, o.policy = true, nil } }

// WithManualCredit makes the host grant nothing for answers by itself: see [Request.Grant]. Without it each answer is granted
// back as it comes.
func WithManualCredit() Option { return func(o *options) { o.manual = true } }

// WithoutRouting leaves the routing id off requests. A request has one by default, as hosts behind a relay send it.
func WithoutRouting() Option { return func(o *options) { o.unrouted = true } }

// WithPatience sets how long the harness waits for anything before it fails the test. The default is 20 s. In a testing/synctest
// bubble the time is virtual, so a wait that cannot succeed fails at once.
func WithPatience(d time.Duration) Option { return func(o *options) { o.patience = d } }

// WithContext sets the context of Serve. The default is t.Context().
func WithContext(ctx context.Context) Option { return func(o *options) { o.ctx = ctx } }

// WithReadSize makes each read of the cartridge give at most n bytes, so that frames arrive in pieces.
func WithReadSize(n int) Option { return func(o *options) { o.readMax = n } }
