package urn

import "strings"

// NewCap builds a cap URN from its parts. Zero media stand for media:. Tags are stored values; in, out and effect among
// them are dropped. Errors are of type *ParseError.
func NewCap(in, out Media, effect Effect, tags map[string]string) (Cap, error) {
	own := make(map[string]string, len(tags))
	for key, value := range tags {
		if !isReserved(strings.ToLower(key)) {
			own[key] = value
		}
	}
	y, err := setFromMap(own)
	if err != nil {
		return Cap{}, err
	}
	if effect > EffectAny {
		return Cap{}, fault(InvalidEffect, 0, "effect number %d does not exist", effect)
	}
	return seal(Cap{in: in, out: out, effect: effect, y: y})
}

// CapFromTags builds a cap URN from a map of all its keys, in, out and effect included, to stored values. Errors are of
// type *ParseError.
func CapFromTags(tags map[string]string) (Cap, error) {
	s, err := setFromMap(tags)
	if err != nil {
		return Cap{}, err
	}
	c, err := fromSet(&s, &room{})
	if err != nil {
		return Cap{}, err
	}
	return seal(c)
}

// seal makes a cap of its coordinates: it computes what hangs on them and refuses what may not be declared.
func seal(c Cap) (Cap, error) {
	c.sum()
	if err := c.check(); err != nil {
		return Cap{}, err
	}
	c.write("")
	return c, nil
}

// WithTag gives a copy in which the key has this stored value. It fails with InvalidTagFormat for in, out and effect, with
// EmptyValue, and as the parser does for a key or a value that cannot be. Changes of a cap check it again, so all of them
// can fail with IllegalDeclaration.
func (c Cap) WithTag(key, value string) (Cap, error) {
	if err := refuseReserved(key); err != nil {
		return Cap{}, err
	}
	if value == "" {
		return Cap{}, impossible(EmptyValue, "key %s: no value; \"*\" stands for a bare tag", quoted(key))
	}
	t, err := newTag(key, value)
	if err != nil {
		return Cap{}, err
	}
	c.y = c.y.with(t)
	return seal(c)
}

// WithoutTag gives a copy that lacks the key. It fails with InvalidTagFormat for in, out and effect.
func (c Cap) WithoutTag(key string) (Cap, error) {
	if err := refuseReserved(key); err != nil {
		return Cap{}, err
	}
	c.y = c.y.without(strings.ToLower(key))
	return seal(c)
}

func refuseReserved(key string) error {
	if isReserved(strings.ToLower(key)) {
		return impossible(InvalidTagFormat, "key %s is reserved; change it with WithIn, WithOut or WithEffect", quoted(key))
	}
	return nil
}

// WithIn gives a copy that takes in; zero media stand for media:.
func (c Cap) WithIn(in Media) (Cap, error) {
	c.in = in
	return seal(c)
}

// WithOut gives a copy that gives out; zero media stand for media:.
func (c Cap) WithOut(out Media) (Cap, error) {
	c.out = out
	return seal(c)
}

// WithEffect gives a copy with this effect.
func (c Cap) WithEffect(effect Effect) (Cap, error) {
	if effect > EffectAny {
		return Cap{}, fault(InvalidEffect, 0, "effect number %d does not exist", effect)
	}
	c.effect = effect
	return seal(c)
}
