package conform

import "fmt"

// nobodysCap is a cap that no cartridge serves.
const nobodysCap = `cap:in="media:void";conform-nobody-serves-this;out="media:void"`

// day is one recorded session that has a bit of everything in it, and what is wrong with it.
type day struct {
	events  []event
	failure *Failure // why it did not come to its end
	found   map[string]*breach
	looked  map[string]int // frames that a property applied to
}

// breach is the first frame that breaks a property.
type breach struct {
	at             event
	before         []string // what went over the link just before it
	expected, seen string
}

// record makes the session.
func (b *bench) record() *day {
	t := &trial{bench: b}
	d := &day{}
	d.failure = func() (f *Failure) {
		defer func() {
			for _, s := range t.sessions {
				d.events = append(d.events, s.recorded()...)
				s.close()
			}
		}()
		defer func() {
			switch end := recover().(type) {
			case nil:
			case failed:
				f = &end.failure
			default:
				panic(end)
			}
		}()
		t.liveADay(window(8))
		return nil
	}()
	d.look()
	return d
}

// liveADay is the script of the day. It is content with whatever comes, as long as requests end.
func (t *trial) liveADay(l limits) {
	s := t.live(l)
	s.patience = t.opening // the day is not about anything that may not come
	for _, opts := range [][]requestOption{{}, {withRouting(newUUID())}, {withRouting(nil), withID(uint64(4_000_000_001))}} {
		s.call(identityCap, randomBytes(100), opts...).end()
	}
	long := s.request(identityCap)
	a, b := long.open("a", "media:"), long.open("b", "media:")
	for i := range 40 {
		a.give(cborOf(randomBytes(i)))
		b.give(cborOf(randomBytes(200)))
	}
	a.end()
	b.finish()
	long.end()
	s.request(nobodysCap).end()

	wrong := s.request(identityCap)
	wrong.open("wrong", "media:")
	wrong.send(chunkFrame("wrong", 0, cborOf([]byte("x"))).with(xChecksum, uint64(1)))
	wrong.end()

	s.probe(`{"all":1}`)
	holder := s.request(identityCap)
	held := holder.open("held", "media:")
	held.give(cborOf([]byte("echoed")))
	holder.chunks(1)
	second, third := s.call(identityCap, []byte("second")), s.call(identityCap, []byte("third"))
	third.first(kLog)
	third.cancel("ABORTED_COLLATERAL", "environment", "something else broke")
	third.end()
	held.finish()
	holder.end()
	second.end()
	stopped := s.request(identityCap)
	stopped.open("stopped", "media:").give(cborOf([]byte("echoed")))
	stopped.chunks(1)
	stopped.cancel("CANCELLED", "user", "Cancelled by user")
	stopped.end()
	s.probe(`{"all":0}`)

	for _, one := range []struct{ role, argument string }{
		{"items", "20"}, {"source", "700000"}, {"tokens", "20"}, {"fail", "MADE_UP|input|as told"}, {"panic", "now"}, {"spin", "1"},
	} {
		if name := t.roles[one.role]; name != "" {
			s.call(name, []byte(one.argument)).end()
		}
	}
	s.probe("")
	s.goesOn()
}

// dayCheck is a check that looks at the recorded day for one property.
func dayCheck(id, rule, title string) check {
	return check{id: id, rule: rule, title: title, early: true, run: func(t *trial) {
		d := t.day()
		switch b := d.found[id]; {
		case b != nil:
			panic(failed{Failure{Expected: b.expected, Seen: b.seen, Frame: b.at.String(), Frames: b.before}})
		case d.failure != nil:
			t.skip("the recorded session did not come to its end: expected %s, seen: %s", d.failure.Expected, d.failure.Seen)
		case d.looked[id] == 0:
			t.skip("nothing of the kind was seen")
		}
	}}
}

// hold counts a look at a property, and notes a breach unless ok.
func (d *day) hold(id string, ok bool, at event, expected, seen string, args ...any) {
	d.looked[id]++
	if !ok && d.found[id] == nil {
		d.found[id] = &breach{at, d.before(at), expected, fmt.Sprintf(seen, args...)}
	}
}

// before is the last frames up to an event.
func (d *day) before(at event) (lines []string) {
	for i, e := range d.events {
		if len(e.wire) > 0 && len(at.wire) > 0 && &e.wire[0] == &at.wire[0] {
			for _, e := range d.events[max(0, i+1-framesShown) : i+1] {
				lines = append(lines, e.String())
			}
			return lines
		}
	}
	return nil
}
