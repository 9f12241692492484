package urn

// Effect says how the media of a cap's output follows from that of its input (spec/urn.md section 9).
type Effect uint8

// The effects, in the order that Cap.Compare uses. Declared is the default.
const (
	EffectDeclared Effect = iota // the output is what out says
	EffectNone                   // the output has the media of the input
	EffectPatch                  // the output has the media of the input, changed as in is changed to out
	EffectAny                    // unconstrained, written ?effect; only good in requests
)

// String gives the value as vectors and other implementations spell it: declared, none, patch or "?".
func (e Effect) String() string {
	switch e {
	case EffectDeclared:
		return "declared"
	case EffectNone:
		return "none"
	case EffectPatch:
		return "patch"
	default:
		return storedAny
	}
}

// effectOf reads the tag effect; ok is false for a form or a value that means nothing.
func effectOf(t tag) (e Effect, ok bool) {
	switch t.form {
	case Any, Present:
		return EffectAny, true
	case Exact:
		for _, e := range []Effect{EffectDeclared, EffectNone, EffectPatch} {
			if t.value == e.String() {
				return e, true
			}
		}
	}
	return 0, false
}

// Infer gives the media of the output for an input value of media m, which is read as complete (spec/urn.md 9.2). It
// fails with InvalidEffectApplication when m does not satisfy in, when the effect gives no answer, or when the answer does
// not satisfy out.
func (c Cap) Infer(m Media) (Media, error) {
	if !m.Satisfies(c.in) {
		return Media{}, impossible(InvalidEffectApplication, "input %s does not satisfy in of %s", quoted(m.text), quoted(c.text))
	}
	output, err := c.apply(m)
	if err != nil {
		return Media{}, err
	}
	if !output.Satisfies(c.out) {
		return Media{}, impossible(InvalidEffectApplication, "input %s gives %s, which does not satisfy out of %s",
			quoted(m.text), quoted(output.text), quoted(c.text))
	}
	return output, nil
}

func (c Cap) apply(m Media) (Media, error) {
	switch c.effect {
	case EffectDeclared:
		return c.out, nil
	case EffectNone:
		if m.IsZero() {
			return anyData(), nil
		}
		return m, nil
	case EffectPatch:
		output, err := m.Apply(c.in.DeltaTo(c.out))
		if err != nil {
			return Media{}, impossible(InvalidEffectApplication, "input %s cannot be patched as %s says: %s",
				quoted(m.text), quoted(c.text), ReasonOf(err))
		}
		return output, nil
	default:
		return Media{}, impossible(InvalidEffectApplication, "%s leaves its effect open, so its output has no media",
			quoted(c.text))
	}
}

// ResponseMedia gives the media URN of the response stream (spec/urn.md 9.3, R-6.30): what the effect makes of the declared
// in. Of all legal caps it fails only for those that leave the effect open.
func (c Cap) ResponseMedia() (Media, error) { return c.Infer(c.in) }

// ResponseMedia is Cap.ResponseMedia for a cap URN in any spelling; the answer is in canonical form.
func ResponseMedia(capURN string) (string, error) {
	c, err := ParseCap(capURN)
	if err != nil {
		return "", err
	}
	m, err := c.ResponseMedia()
	return m.text, err
}

// IsConformantOutput reports that a cap which got an input of media m may emit a value of media emitted (spec/urn.md 9.4).
// When Infer fails, so does this.
func (c Cap) IsConformantOutput(m, emitted Media) (bool, error) {
	inferred, err := c.Infer(m)
	if err != nil {
		return false, err
	}
	if c.effect == EffectDeclared {
		return emitted.Satisfies(inferred), nil
	}
	return emitted.Equivalent(inferred), nil
}
