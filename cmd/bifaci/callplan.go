package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/host"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// readSize is how much of the input is read, and sent, at a time at most, bytes.
const readSize = 64 << 10

// callPlan is what a call will send: the cap, its side arguments, and where the main input goes.
type callPlan struct {
	urn        string
	args       []host.Argument
	input      *mainInput // nil when the cap takes none
	inputGiven bool       // its value stands among args
}

// mainInput is how the main input's stream is started.
type mainInput struct {
	media               string
	sequence, streaming bool
}

// plan finds the cap by slug, alias or URN, and gives every argument its value: from --arg, else its default.
func (r *runner) plan(m *manifest.Manifest, capName string) (*callPlan, error) {
	def, ok := m.Lookup(capName)
	plan := &callPlan{}
	switch {
	case ok:
		plan.urn = def.URN
	case strings.HasPrefix(strings.ToLower(capName), "cap:"):
		if _, err := urn.ParseCap(capName); err != nil {
			return nil, &usageError{err.Error()}
		}
		plan.urn = capName
		def = findCap(m, capName)
	default:
		return nil, &usageError{fmt.Sprintf("%s has no cap %q; it has %s", m.Name, capName, strings.Join(slugs(m), ", "))}
	}
	if def == nil {
		return plan, r.planUnknown(plan)
	}
	return plan, r.planKnown(plan, def)
}

// planUnknown plans a call of a cap that the manifest does not list: everything as given, the input for the cap's in.
func (r *runner) planUnknown(plan *callPlan) error {
	c, err := urn.ParseCap(plan.urn)
	if err != nil {
		return err
	}
	if !c.In().IsVoid() {
		plan.input = &mainInput{media: c.In().String()}
	}
	if r.feed != nil {
		r.feed.take(plan, nil, nil)
	}
	for _, given := range r.given {
		name, value, ok := cutURN(given)
		if !ok {
			return &usageError{fmt.Sprintf("--arg %s: want URN=VALUE with a media URN", given)}
		}
		m, err := urn.ParseMedia(name)
		if err != nil {
			return err
		}
		plan.args = append(plan.args, host.Argument{MediaURN: m.String(), Value: []byte(value)})
		plan.inputGiven = plan.inputGiven || plan.input != nil && m.Equivalent(c.In())
	}
	return nil
}

// planKnown plans a call of a cap by its definition.
func (r *runner) planKnown(plan *callPlan, def *manifest.Cap) error {
	args := def.EffectiveArgs()
	values := make([]*string, len(args))
	for _, given := range r.given {
		i, value, ok := matchArg(args, given)
		if !ok {
			return &usageError{fmt.Sprintf("--arg %s names no argument of %s; it has %s", given, def.Slug, argNames(args))}
		}
		values[i] = &value
	}
	if r.feed != nil {
		r.feed.take(plan, args, values)
	}
	for i, a := range args {
		main := def.IsMainInput(a)
		if main {
			plan.input = &mainInput{a.StreamURN(), a.IsSequence, a.IsStreaming}
			if a.IsLiveReference() { // what is fed is the selector, and the cartridge captures
				plan.input = &mainInput{media: a.MediaURN}
			}
		}
		switch {
		case values[i] != nil:
			label := a.StreamURN()
			if a.IsLiveReference() {
				label = a.MediaURN
			}
			plan.args = append(plan.args, host.Argument{MediaURN: label, Value: []byte(*values[i])})
			plan.inputGiven = plan.inputGiven || main
		case main:
		case a.DefaultValue != nil:
			plan.args = append(plan.args, host.Argument{MediaURN: a.StreamURN(), Value: defaultBytes(a.DefaultValue)})
		case a.Required:
			return &usageError{fmt.Sprintf("required argument %s is missing; give it with --arg", a.MediaURN)}
		}
	}
	return nil
}

func findCap(m *manifest.Manifest, name string) *manifest.Cap {
	request, err := urn.ParseCap(name)
	if err != nil {
		return nil
	}
	var defs []*manifest.Cap
	var caps []urn.Cap
	for def := range m.Caps() {
		if c, err := urn.ParseCap(def.URN); err == nil {
			defs, caps = append(defs, def), append(caps, c)
		}
	}
	if i, ok := urn.Best(caps, request, nil); ok {
		return defs[i]
	}
	return nil
}

func slugs(m *manifest.Manifest) (all []string) {
	for def := range m.Caps() {
		all = append(all, def.Slug)
	}
	return all
}

func argNames(args []manifest.Arg) string {
	var names []string
	for _, a := range args {
		if flag, ok := a.Flag(); ok {
			names = append(names, strings.TrimLeft(flag, "-"))
		} else {
			names = append(names, a.StreamURN())
		}
	}
	return strings.Join(names, ", ")
}

// cutURN cuts URN=VALUE where the front is the longest media URN: tags have an = too. A marker in front of a value that reads like a
// tag's is written out, as in media:x=*=value.
func cutURN(given string) (name, value string, ok bool) {
	for i := len(given) - 1; i > 0; i-- {
		if given[i] != '=' {
			continue
		}
		if _, err := urn.ParseMedia(given[:i]); err == nil {
			return given[:i], given[i+1:], true
		}
	}
	return "", "", false
}

// matchArg finds the argument that URN=VALUE or FLAG=VALUE means: the longest URN that is one of the cap's arguments.
func matchArg(args []manifest.Arg, given string) (i int, value string, ok bool) {
	for at := len(given) - 1; at > 0; at-- {
		if given[at] != '=' {
			continue
		}
		name := given[:at]
		media, mediaErr := urn.ParseMedia(name)
		for i, a := range args {
			if flag, has := a.Flag(); has && (flag == name || strings.TrimLeft(flag, "-") == name) {
				return i, given[at+1:], true
			}
			if mediaErr != nil {
				continue
			}
			for _, own := range []string{a.StreamURN(), a.MediaURN} {
				if m, err := urn.ParseMedia(own); err == nil && m.Equivalent(media) {
					return i, given[at+1:], true
				}
			}
		}
	}
	return 0, "", false
}

// defaultBytes is a default value as it travels: text without quotes, everything else as JSON.
func defaultBytes(raw json.RawMessage) []byte {
	var text string
	if err := json.Unmarshal(raw, &text); err == nil {
		return []byte(text)
	}
	return raw
}

// feed sends the arguments and the input as it comes, and ends the body.
func (p *callPlan) feed(ctx context.Context, call *host.Call, source io.Reader) error {
	for _, a := range p.args {
		out := call.Arg(a.MediaURN)
		if _, err := out.WriteContext(ctx, a.Value); err != nil {
			return err
		}
		if err := out.Close(ctx); err != nil {
			return err
		}
	}
	if source != nil {
		if err := p.feedInput(ctx, call.Arg(p.input.media), source); err != nil {
			return err
		}
	}
	return call.Finish(ctx)
}

func (p *callPlan) feedInput(ctx context.Context, out *bifaci.OutputStream, source io.Reader) error {
	var opts []bifaci.StartOption
	if p.input.sequence {
		opts = append(opts, bifaci.Sequence)
	}
	start := out.Start
	if p.input.streaming {
		start = out.StartUnbounded
	}
	if err := start(opts...); err != nil {
		return err
	}
	buf := make([]byte, readSize)
	for {
		n, err := source.Read(buf)
		if n > 0 {
			if sendErr := p.send(ctx, out, buf[:n]); sendErr != nil {
				return sendErr
			}
		}
		if errors.Is(err, io.EOF) {
			return out.Close(ctx)
		}
		if err != nil {
			return fmt.Errorf("reading the input: %w", err)
		}
	}
}

// send sends what one read gave, at once.
func (p *callPlan) send(ctx context.Context, out *bifaci.OutputStream, b []byte) error {
	if p.input.sequence {
		return out.EmitItem(ctx, b, nil)
	}
	if _, err := out.WriteContext(ctx, b); err != nil {
		return err
	}
	return out.Flush(ctx)
}
