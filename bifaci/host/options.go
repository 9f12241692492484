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
	defaultHeartbeat       = 30 * time.Second
	defaultAllowance       = 10 * time.Second
	defaultRetireLimit     = 10 * time.Minute
)

type options struct {
	limits          frame.Limits
	policy          *bifaci.Policy
	helloTimeout    time.Duration
	identityTimeout time.Duration
	shutdownGrace   time.Duration
	log             *slog.Logger
	stderr          func(line string)
	heartbeat       time.Duration // between probes; 0 sends none
	allowance       time.Duration // for the answer to a probe
	idle            time.Duration // 0 means for ever
	retireLimit     time.Duration
	backoffBase     time.Duration // 0 means at once
	backoffMax      time.Duration
	activity        time.Duration // 0 means for ever
	contractChecks  bool
	cartridgeStderr func(id ID, line string)
	observer        func(Event)
	env             []string
	dir             string

	// What a link tells its process and its host. Any of them may be nil but closed.
	died      func(*failure.Failure) *failure.Failure // of a process: ends it, and says how it ended
	kill      func()                                  // ends the process at once
	spawned   func(*Process)                          // the process runs; it has no link yet
	launch    func(string, *options) (program, error) // starts the program at a path
	admitted  func(*Conn)                             // the link's cartridge has shown its identity; nothing was read since
	peer      func(*Conn, *frame.Frame) error         // takes a REQ of the cartridge
	ended     func(*Conn, error)                      // the link has ended, its calls do not know yet
	condemned func(error)                             // the link is about to be ended by the host
	closed    error                                   // what calls get when the host closes the link
}

func newOptions(opts []Option) options {
	online := Online()
	o := options{limits: frame.DefaultLimits(), policy: &online, helloTimeout: defaultHelloTimeout,
		identityTimeout: defaultIdentityTimeout, heartbeat: defaultHeartbeat, allowance: defaultAllowance,
		retireLimit: defaultRetireLimit, shutdownGrace: defaultShutdownGrace, log: slog.New(slog.DiscardHandler), closed: ErrClosed, launch: spawn}
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

// WithStderr calls f with every line that a process writes to its standard error, from one goroutine. A slow f holds back nothing;
// lines that come too fast for it are lost, and it is told how many. It must return, and not wait for the process or its link.
func WithStderr(f func(line string)) Option { return func(o *options) { o.stderr = f } }

// WithEnv sets the environment of a process, "name=value" each. The default is the host's own.
func WithEnv(env ...string) Option { return func(o *options) { o.env = env } }

// WithDir sets the working directory of a process. The default is the host's own.
func WithDir(dir string) Option { return func(o *options) { o.dir = dir } }

// Options of a [Host].

// WithHeartbeat sets how often a host probes a live cartridge, 0 for never, and how long it may take to answer a probe before it is
// killed. The defaults are 30 s and 10 s.
func WithHeartbeat(interval, allowance time.Duration) Option {
	return func(o *options) { o.heartbeat, o.allowance = interval, allowance }
}

// WithIdleTimeout stops a process that has had no request and made no call for d; the next request starts it again. The default is 0:
// it is left running.
func WithIdleTimeout(d time.Duration) Option { return func(o *options) { o.idle = d } }

// WithRetireLimit sets how long a retired cartridge may take to finish its work. The default is 10 min.
func WithRetireLimit(d time.Duration) Option { return func(o *options) { o.retireLimit = d } }

// WithBackoff puts off the start of a cartridge that has died: by base the first time, by twice as much every further time in a row,
// and by at most limit. A cartridge that has answered a heartbeat has lived. The default is to start at once.
func WithBackoff(base, limit time.Duration) Option {
	return func(o *options) { o.backoffBase, o.backoffMax = base, max(base, limit) }
}

// WithActivityTimeout ends a call with ACTIVITY_TIMEOUT whose cartridge has sent nothing for it for d; the time stands still while the
// request is queued. The default is 0: it may be silent. Where there is a limit, the metadata activity_timeout_secs of the cap
// overrides it.
func WithActivityTimeout(d time.Duration) Option { return func(o *options) { o.activity = d } }

// WithContractChecks fails a call whose answer breaks the declared output of its cap, with CONTRACT_VIOLATION. The default is to log
// the breach once per cap.
func WithContractChecks(on bool) Option { return func(o *options) { o.contractChecks = on } }

// WithCartridgeStderr is [WithStderr] for all processes of a host, each from a goroutine of its own.
func WithCartridgeStderr(f func(id ID, line string)) Option {
	return func(o *options) { o.cartridgeStderr = f }
}
