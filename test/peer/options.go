package peer

import "time"

// defaultPatience is how long anything is awaited. It is no measure of speed: the machine may be busy with other tests.
const defaultPatience = 90 * time.Second

type options struct {
	limits   Limits
	patience time.Duration
	env      []string
	manual   bool
	unjudged bool
	deaf     bool
}

// Option changes how a [Link] or its [Process] behaves.
type Option func(*options)

// WithLimits sets what the host proposes in its HELLO. The default is [DefaultLimits].
func WithLimits(l Limits) Option { return func(o *options) { o.limits = l } }

// WithWindow sets the initial credit of the proposal, in CHUNKs.
func WithWindow(n uint64) Option { return func(o *options) { o.limits.InitialCredit = n } }

// WithMaxChunk sets the max_chunk of the proposal, in bytes.
func WithMaxChunk(n uint64) Option { return func(o *options) { o.limits.MaxChunk = n } }

// WithPatience sets how long anything is awaited. The default is 90 s.
func WithPatience(d time.Duration) Option { return func(o *options) { o.patience = d } }

// WithEnv adds to the environment of the process, "name=value" each.
func WithEnv(env ...string) Option { return func(o *options) { o.env = append(o.env, env...) } }

// WithManualCredit grants nothing for answers but by [Request.Grant]. Without it half a window is granted back at a time.
func WithManualCredit() Option { return func(o *options) { o.manual = true } }

// Unjudged leaves the judge of frame order out, for tests that move gigabytes.
func Unjudged() Option { return func(o *options) { o.unjudged = true } }

// WithClosedStderr starts the process with a standard error that nobody reads: its reading end is closed.
func WithClosedStderr() Option { return func(o *options) { o.deaf = true } }
