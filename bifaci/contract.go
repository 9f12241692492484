package bifaci

import (
	"fmt"

	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// definition is the manifest's cap for a registered pattern, by equivalence, or nil.
func (c *Cartridge) definition(pattern string) *manifest.Cap {
	want, err := urn.ParseCap(pattern)
	if err != nil {
		return nil
	}
	for def := range c.manifest.Caps() {
		if have, err := urn.ParseCap(def.URN); err == nil && have.Equivalent(want) {
			return def
		}
	}
	return nil
}

// contract is the check of an output start against the cap's output definition.
type contract interface {
	check(sequence, unbounded bool) error
}

// breach is what is wrong with a start of the route's output, nil if nothing is.
func (rt *route) breach(sequence, unbounded bool) error {
	return OutputBreach(rt.def, sequence, unbounded)
}

// OutputBreach is what is wrong with an output stream that is started in this way for a cap with a declared output: [ErrStreamMode], or
// [ErrNotStreaming]; nil if nothing is.
func OutputBreach(def *manifest.Cap, sequence, unbounded bool) error {
	switch {
	case sequence != def.Output.IsSequence:
		return fmt.Errorf("%w: the output of %s is declared with is_sequence %t", ErrStreamMode, def.URN, def.Output.IsSequence)
	case unbounded && !def.Output.IsStreaming:
		return fmt.Errorf("%w: %s", ErrNotStreaming, def.URN)
	}
	return nil
}

// check implements contract.
func (w *wireRequest) check(sequence, unbounded bool) error {
	err := w.route.breach(sequence, unbounded)
	if err == nil || w.link.c.opts.contractChecks {
		return err
	}
	l := w.link
	l.mu.Lock()
	known := l.audited[w.route.pattern]
	l.audited[w.route.pattern] = true
	l.mu.Unlock()
	if !known {
		l.c.logBreach(w.route, err)
	}
	return nil
}

// cliContract is the same check on the command line.
type cliContract struct {
	r  *cliRun
	rt *route
}

func (c cliContract) check(sequence, unbounded bool) error {
	err := c.rt.breach(sequence, unbounded)
	if err == nil || c.r.c.opts.contractChecks {
		return err
	}
	if !c.r.audited.Swap(true) {
		c.r.c.logBreach(c.rt, err)
	}
	return nil
}

func (c *Cartridge) logBreach(rt *route, err error) {
	c.opts.log.Warn("an output breaks its declared contract", "cap", rt.pattern, "error", err)
}
