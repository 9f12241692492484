package urn

// IsDispatchable reports that the cap can serve the request (spec/urn.md 10.2, R-1.40). The receiver is the registered
// cap. It guarantees: what the request sends is taken, what it needs is given, its effect and its tags are met. It is not
// symmetric and not transitive.
func (c Cap) IsDispatchable(request Cap) bool { return serves(&c, &request) }

// serves is IsDispatchable without copies. Whatever is cheap comes first: among many caps nearly all are turned down by
// the keys that one side demands and the other does not.
func serves(p, r *Cap) bool {
	anyIn := r.in.set.open()
	switch {
	case r.effect != EffectAny && p.effect != r.effect,
		p.y.lacks(&r.y), p.out.set.lacks(&r.out.set), !anyIn && r.in.set.lacks(&p.in.set):
		return false
	}
	return satisfies(&p.y, &r.y) &&
		(anyIn || conforms(&r.in.set, &p.in.set)) &&
		conforms(&p.out.set, &r.out.set)
}

// Accepts reads c as a pattern over caps and reports that o fits it (spec/urn.md 10.1). It is for searches, not for
// dispatch.
func (c Cap) Accepts(o Cap) bool {
	return conforms(&o.in.set, &c.in.set) &&
		(c.out.set.open() || conforms(&c.out.set, &o.out.set)) &&
		(c.effect == EffectAny || c.effect == o.effect) &&
		satisfies(&o.y, &c.y)
}

// ConformsTo reports that o accepts c.
func (c Cap) ConformsTo(o Cap) bool { return o.Accepts(c) }

// Equivalent reports that both describe the same cap: all four coordinates allow the same. Such caps differ at most in
// ?x tags, inside of in and out or beside them.
func (c Cap) Equivalent(o Cap) bool { return sameCap(&c, &o) }

func sameCap(a, b *Cap) bool {
	return a.effect == b.effect &&
		equivalent(&a.y, &b.y) && equivalent(&a.in.set, &b.in.set) && equivalent(&a.out.set, &b.out.set)
}

// Comparable reports that one of the two covers the other, both read as descriptions. It is for searches, not for
// dispatch.
func (c Cap) Comparable(o Cap) bool { return covers(&c, &o) || covers(&o, &c) }

func covers(a, b *Cap) bool {
	return conforms(&b.in.set, &a.in.set) &&
		conforms(&a.out.set, &b.out.set) &&
		(a.effect == EffectAny || a.effect == b.effect) &&
		conforms(&b.y, &a.y)
}
