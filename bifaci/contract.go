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

// contract is the check of an output start against the cap's output definition; nil when there is nothing to check.
func (w *wireRequest) contract(rt *route) func(sequence, unbounded bool) error {
	if rt.def == nil || rt.def.Output == nil {
		return nil
	}
	return w.checkContract
}

func (w *wireRequest) checkContract(sequence, unbounded bool) error {
	out := w.route.def.Output
	var err error
	switch {
	case sequence != out.IsSequence:
		err = fmt.Errorf("%w: the output of %s is declared with is_sequence %t", ErrStreamMode, w.route.pattern, out.IsSequence)
	case unbounded && !out.IsStreaming:
		err = fmt.Errorf("%w: %s", ErrNotStreaming, w.route.pattern)
	default:
		return nil
	}
	if w.link.c.opts.contractChecks {
		return err
	}
	l := w.link
	l.mu.Lock()
	known := l.audited[w.route.pattern]
	l.audited[w.route.pattern] = true
	l.mu.Unlock()
	if !known {
		l.c.opts.log.Warn("an output breaks its declared contract", "cap", w.route.pattern, "error", err)
	}
	return nil
}
