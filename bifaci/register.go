package bifaci

import (
	"fmt"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// Register serves requests that dispatch to capURN with handlers from factory, which is called once per admitted request, on
// that request's goroutine, in order of admission. A second registration of the same URN, in any spelling,
// replaces the first. The error says what is wrong with the URN, or is [ErrRunning].
func (c *Cartridge) Register(capURN string, factory func() Op) error {
	if factory == nil {
		return fmt.Errorf("register %s: the factory is nil", capURN)
	}
	return c.register(capURN, handler{factory: factory})
}

// RegisterFunc serves requests that dispatch to capURN with a plain function.
func (c *Cartridge) RegisterFunc(capURN string, h Handler) error {
	if h == nil {
		return fmt.Errorf("register %s: the handler is nil", capURN)
	}
	return c.register(capURN, handler{fn: h})
}

// HandleFunc is [Cartridge.RegisterFunc] for package main: it panics on a URN that does not parse.
func (c *Cartridge) HandleFunc(capURN string, h Handler) {
	if err := c.RegisterFunc(capURN, h); err != nil {
		panic(err)
	}
}

// RegisterType serves requests that dispatch to capURN with a fresh value of T each. T, or *T, is an [Op].
func RegisterType[T any](c *Cartridge, capURN string) error {
	if _, ok := any(new(T)).(Op); !ok {
		return fmt.Errorf("register %s: *%T has no Perform and Metadata", capURN, *new(T))
	}
	return c.Register(capURN, func() Op { return any(new(T)).(Op) })
}

func (c *Cartridge) register(capURN string, h handler) error {
	pattern, err := urn.ParseCap(capURN)
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	h.pattern = pattern
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started {
		return fmt.Errorf("register %s: %w", pattern, ErrRunning)
	}
	if i, ok := c.byURN[pattern.String()]; ok {
		c.handlers[i] = h
		return nil
	}
	c.byURN[pattern.String()] = len(c.handlers)
	c.handlers = append(c.handlers, h)
	return nil
}

// FindHandler is the lookup of a request: the winning pattern in canonical form and a factory of its
// handlers. It may be called at any time.
func (c *Cartridge) FindHandler(capURN string) (pattern string, factory func() Op, ok bool) {
	request, err := urn.ParseCap(capURN)
	if err != nil {
		return "", nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := urn.Best(c.patterns(), request, nil)
	if !ok {
		return "", nil, false
	}
	h := c.handlers[i]
	if h.factory == nil {
		return h.pattern.String(), func() Op { return funcOp{h.pattern.String(), h.fn} }, true
	}
	return h.pattern.String(), h.factory, true
}

// patterns lists the registered patterns in order of registration; c.mu is held.
func (c *Cartridge) patterns() []urn.Cap {
	caps := make([]urn.Cap, len(c.handlers))
	for i := range c.handlers {
		caps[i] = c.handlers[i].pattern
	}
	return caps
}
