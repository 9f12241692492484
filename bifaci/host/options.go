package host

import (
	"log/slog"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Time limits.
const (
	defaultHelloTimeout    = 15 * time.Second
	defaultIdentityTimeout = 15 * time.Second
	defaultShutdownGrace   = 5 * time.Second
)

type options struct {
	limits          frame.Limits
	policy          *bifaci.Policy
	helloTimeout    time.Duration
	identityTimeout time.Duration
	shutdownGrace   time.Duration
	log             *slog.Logger
	stderr          func(line string)
	env             []string
	dir             string

	died func(*failure.Failure) *failure.Failure // of a process: ends it, and says how it ended; nil without one
}

func newOptions(opts []Option) options {
	online := Online()
	o := options{limits: frame.DefaultLimits(), policy: &online, helloTimeout: defaultHelloTimeout,
		identityTimeout: defaultIdentityTimeout, shutdownGrace: defaultShutdownGrace, log: slog.New(slog.DiscardHandler)}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// Option changes one setting of a connection or a process.
type Option func(*options)

// WithLimits sets the limits that the host proposes. The default is [frame.DefaultLimits].
func WithLimits(l frame.Limits) Option { return func(o *options) { o.limits = l } }

// WithPolicy sets the network policy that is sent right after the identity check. The default is [Online].
func WithPolicy(p bifaci.Policy) Option { return func(o *options) { o.policy = &p } }

// WithoutPolicy sends no policy until [Conn.SetPolicy]; calls wait for it.
func WithoutPolicy() Option { return func(o *options) { o.policy = nil } }

// WithHandshakeTimeout sets how long the cartridge may take for its HELLO and for the identity check. The default is 15 s each.
func WithHandshakeTimeout(hello, identity time.Duration) Option {
	return func(o *options) { o.helloTimeout, o.identityTimeout = hello, identity }
}

// WithShutdownGrace sets how long Shutdown waits for the process to end by itself before it kills it. The default is 5 s.
func WithShutdownGrace(d time.Duration) Option { return func(o *options) { o.shutdownGrace = d } }

// WithLogger sends the host's own messages to log. The default is silence.
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// WithStderr calls f with every line that a process writes to its standard error, from one goroutine. A slow f holds back the
// process's standard error, never its frames. It must return, and not wait for the process or its link.
func WithStderr(f func(line string)) Option { return func(o *options) { o.stderr = f } }

// WithEnv sets the environment of a process, "name=value" each. The default is the host's own.
func WithEnv(env ...string) Option { return func(o *options) { o.env = env } }

// WithDir sets the working directory of a process. The default is the host's own.
func WithDir(dir string) Option { return func(o *options) { o.dir = dir } }
