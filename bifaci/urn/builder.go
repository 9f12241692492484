package urn

// Builder puts a cap URN together. Both directions are required; "any" is written media:. Errors wait until Build, which
// gives the first one. Make it with NewBuilder; it serves one goroutine, and Build may be called more than once.
type Builder struct {
	in, out *Media // nil until set
	effect  Effect
	tags    tagList
	err     error
}

// NewBuilder gives a builder of a cap with effect declared and no tags.
func NewBuilder() *Builder { return &Builder{} }

// In sets what the cap takes, a media URN in any spelling; anything else is InvalidInSpec.
func (b *Builder) In(media string) *Builder {
	b.in = b.direction(media, keyIn, InvalidInSpec)
	return b
}

// Out sets what the cap gives, a media URN in any spelling; anything else is InvalidOutSpec.
func (b *Builder) Out(media string) *Builder {
	b.out = b.direction(media, keyOut, InvalidOutSpec)
	return b
}

func (b *Builder) direction(media, key string, kind Reason) *Media {
	m, err := ParseMedia(media)
	if err != nil {
		b.fail(&ParseError{Kind: kind, Detail: key + " is no media URN: " + err.Error(), Err: err})
	}
	return &m
}

// Effect sets the effect.
func (b *Builder) Effect(effect Effect) *Builder {
	if effect > EffectAny {
		b.fail(fault(InvalidEffect, 0, "effect number %d does not exist", effect))
	}
	b.effect = effect
	return b
}

// Tag sets a tag to a stored value, whose case is kept; a second call for a key replaces the first. The key loses its
// case and must not be in, out or effect (InvalidTagFormat).
func (b *Builder) Tag(key, value string) *Builder {
	if err := refuseReserved(key); err != nil {
		b.fail(err)
		return b
	}
	if err := b.tags.put(key, value); err != nil {
		b.fail(err)
	}
	return b
}

// Marker sets a bare tag. It is the same as Tag(key, "*").
func (b *Builder) Marker(key string) *Builder { return b.Tag(key, storedPresent) }

func (b *Builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// Build gives the cap URN, or the first error: of a call, then MissingInSpec, MissingOutSpec, and IllegalDeclaration.
func (b *Builder) Build() (Cap, error) {
	switch {
	case b.err != nil:
		return Cap{}, b.err
	case b.in == nil:
		return Cap{}, fault(MissingInSpec, 0, "in was not set; for anything, set it to media:")
	case b.out == nil:
		return Cap{}, fault(MissingOutSpec, 0, "out was not set; for anything, set it to media:")
	}
	return seal(Cap{in: *b.in, out: *b.out, effect: b.effect, y: b.tags.set()})
}

// MediaBuilder puts a media URN together. Errors wait until Build, which gives the first one. Make it with
// NewMediaBuilder; it serves one goroutine, and Build may be called more than once.
type MediaBuilder struct {
	tags tagList
	err  error
}

// NewMediaBuilder gives a builder that stands at media:.
func NewMediaBuilder() *MediaBuilder { return &MediaBuilder{} }

// Tag sets a tag to a stored value, whose case is kept; a second call for a key replaces the first.
func (b *MediaBuilder) Tag(key, value string) *MediaBuilder {
	if err := b.tags.put(key, value); err != nil && b.err == nil {
		b.err = err
	}
	return b
}

// Marker sets a bare tag. It is the same as Tag(key, "*").
func (b *MediaBuilder) Marker(key string) *MediaBuilder { return b.Tag(key, storedPresent) }

// Build gives the media URN, or the first error: of a call, then VoidNotAtomic.
func (b *MediaBuilder) Build() (Media, error) {
	if b.err != nil {
		return Media{}, b.err
	}
	return makeMedia(b.tags.set())
}

// tagList collects tags, one per key.
type tagList struct{ tags []tag }

// put adds a tag or replaces the one of the same key.
func (l *tagList) put(key, stored string) error {
	t, err := newTag(key, stored)
	if err != nil {
		return err
	}
	for i := range l.tags {
		if l.tags[i].key == t.key {
			l.tags[i] = t
			return nil
		}
	}
	l.tags = append(l.tags, t)
	return nil
}

// set gives a copy, so that the list can go on growing.
func (l *tagList) set() set { return newSet(append([]tag(nil), l.tags...)) }
