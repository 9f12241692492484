package bifaci

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// Cartridge is a set of handlers behind a manifest. Make one with [New], register handlers, then call [Cartridge.Main],
// [Cartridge.Run] or [Cartridge.Serve] once. Registration is not safe for concurrent use; everything else is.
type Cartridge struct {
	manifest *manifest.Manifest
	json     []byte // what HELLO carries
	opts     options
	backlog  *logBacklog // behind opts.log

	mu       sync.Mutex
	handlers []handler
	byURN    map[string]int // canonical URN to index in handlers
	started  bool
	process  bool // a process of its own, whose scheduler may be tuned; set by Run

	link   atomic.Pointer[link] // the link being served, or the last one
	limits atomic.Pointer[frame.Limits]
	memory memorySampler
	cli    atomic.Pointer[cliRun] // the command being run
}

// handler is one registration: a factory, or a plain function that needs none.
type handler struct {
	pattern urn.Cap
	factory func() Op
	fn      Handler
	merged  bool // reads all its streams in arrival order
}

// Handler is a capability as a plain function. A nil return closes the output and ends the request with END; an error
// becomes the ERR frame, with its own identity when it declares one (see [failure.Failure]).
type Handler func(ctx context.Context, r *Request) error

// New makes a cartridge from a manifest, with the three standard handlers registered. It starts nothing. The error
// matches [ErrIdentityMissing] or [ErrManifestInvalid].
func New(m *manifest.Manifest, opts ...Option) (*Cartridge, error) {
	if m == nil {
		return nil, fmt.Errorf("%w: there is none", ErrManifestInvalid)
	}
	json, err := m.JSON()
	if err != nil {
		return nil, err
	}
	return newCartridge(m, json, opts)
}

// NewFromJSON is [New] from a manifest in JSON; exactly these bytes go into HELLO.
func NewFromJSON(b []byte, opts ...Option) (*Cartridge, error) {
	m, err := manifest.Parse(b)
	if err != nil {
		return nil, err
	}
	return newCartridge(m, append([]byte(nil), b...), opts)
}

// Must returns c and panics when err is not nil: Must(New(m)) is for package main, where a bad manifest is a defect.
func Must(c *Cartridge, err error) *Cartridge {
	if err != nil {
		panic(err)
	}
	return c
}

// MustNew is Must(New(m, opts...)).
func MustNew(m *manifest.Manifest, opts ...Option) *Cartridge { return Must(New(m, opts...)) }

func newCartridge(m *manifest.Manifest, json []byte, opts []Option) (*Cartridge, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	c := &Cartridge{manifest: m, json: json, opts: defaultOptions(), byURN: make(map[string]int)}
	for _, o := range opts {
		o(&c.opts)
	}
	if c.opts.wrong != nil {
		return nil, c.opts.wrong
	}
	c.opts.log, c.backlog = queued(c.opts.log)
	limits := c.opts.limits
	c.limits.Store(&limits)
	if err := c.registerStandard(); err != nil {
		return nil, err
	}
	if c.opts.publish != nil {
		c.opts.publish(statsVar{c})
	}
	return c, nil
}

// Manifest is the manifest the cartridge was made from. It must not be changed.
func (c *Cartridge) Manifest() *manifest.Manifest { return c.manifest }

// Limits are the proposed limits before the handshake and the negotiated ones after it.
func (c *Cartridge) Limits() frame.Limits { return *c.limits.Load() }
