package transcripts

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/test/peer"
)

// replay plays the host of a transcript against a process.
type replay struct {
	t testing.TB
	p *peer.Process

	streams   map[string]string // the cartridge's stream ids, by those of the transcript
	ids       map[string]any    // the cartridge's request ids, by those of the transcript
	cancelled map[string]bool   // requests that were cancelled: their texts are exact
	granted   map[string]uint64 // chunks granted ahead of the transcript, by request and stream
	probe     peer.Frame        // the last
}

// run replays every step and reports whether the process did as the transcript says.
func (r *replay) run(frames []*step) {
	r.t.Helper()
	for _, s := range frames {
		if s.Dir == toCartridge {
			r.p.Excuse(r.id(s.frame)) // what the host says is golden, also where it breaks a rule
		}
	}
	for _, s := range frames {
		switch {
		case s.Dir == toCartridge:
			r.say(s)
		case s.Optional:
		case s.frame.Type() == peer.TypeCredit:
			r.hearCredit(s)
		case s.frame.Type() == peer.TypeHeartbeat:
			r.hearHeartbeat(s)
		default:
			r.hear(s)
		}
	}
	r.p.Finish()
	for _, f := range r.p.Unclaimed() {
		// A grant before a wait depends on timing; that none exceeds what was consumed is judged on the link.
		assert.Equal(r.t, peer.TypeCredit, f.Type(), "a frame that the transcript does not have: %s", f)
	}
}

// id is the real id of a frame of the transcript.
func (r *replay) id(f peer.Frame) any {
	if id, ok := r.ids[peer.IDKey(f[peer.KeyID])]; ok {
		return id
	}
	return f[peer.KeyID]
}

// translate puts the cartridge's own ids in place of those of the transcript.
func (r *replay) translate(f peer.Frame) peer.Frame {
	f = f.With(peer.KeyID, r.id(f))
	if id, ok := r.streams[f.Stream()]; ok {
		f[peer.KeyStreamID] = id
	}
	return f
}

// say sends a frame, byte for byte where it names nothing of the cartridge's.
func (r *replay) say(s *step) {
	r.t.Helper()
	_, foreign := r.streams[s.frame.Stream()]
	if _, peerCall := r.ids[peer.IDKey(s.frame[peer.KeyID])]; foreign || peerCall {
		r.p.Send(r.translate(s.frame))
	} else {
		r.p.SendWire(s.wire)
	}
	switch s.frame.Type() {
	case peer.TypeCancel:
		r.cancelled[peer.IDKey(r.id(s.frame))] = true
	case peer.TypeHeartbeat:
		r.probe = s.frame
	}
}

// hear waits for the next frame of the step's flow, or the control frame, and compares it.
func (r *replay) hear(s *step) {
	r.t.Helper()
	want := s.frame
	key := peer.IDKey(r.id(want))
	if want.Type() == peer.TypeReq { // a peer call has an id of the cartridge's
		got := r.p.Await(s.String(), func(f peer.Frame) bool { return f.Type() == peer.TypeReq })
		r.ids[peer.IDKey(want[peer.KeyID])] = got[peer.KeyID]
		assert.NotEqual(r.t, want[peer.KeyID], got[peer.KeyID], "a fresh id")
		r.compare(s, got)
		return
	}
	got := r.p.Await(s.String(), func(f peer.Frame) bool {
		if peer.IDKey(f[peer.KeyID]) != key {
			return false
		}
		return f.Type() == want.Type() || want.Type().IsFlow() && f.Type().IsFlow()
	})
	if want.Type() == peer.TypeStreamStart && got.Type() == peer.TypeStreamStart {
		for theirs, ours := range r.streams {
			require.False(r.t, (theirs == want.Stream()) != (ours == got.Stream()), "%s: stream id %q is in use already", s, got.Stream())
		}
		r.streams[want.Stream()] = got.Stream()
	}
	r.compare(s, got)
}

// compare holds a frame to the transcript's; texts are free but for those of a cancel.
func (r *replay) compare(s *step, got peer.Frame) {
	r.t.Helper()
	want := r.translate(s.frame)
	free := want.Type() == peer.TypeLog || want.Type() == peer.TypeErr && !r.cancelled[peer.IDKey(want[peer.KeyID])]
	if free && got.Type() == want.Type() {
		assert.NotEmpty(r.t, strings.TrimSpace(got.Message()), "%s: a text", s)
		g := maps.Clone(got.Meta())
		g["message"] = want.Meta()["message"]
		if got.MetaText("level") == "queued" { // additions for machines, R-5.31
			delete(g, "queue_position")
			delete(g, "blocking_pool")
		}
		got = got.With(peer.KeyMeta, g)
	}
	require.Equal(r.t, map[uint64]any(want), map[uint64]any(got), "%s\nwant %s\ngot  %s", s, want, got)
}

// hearCredit waits until as much is granted as the transcript has granted by now: grants may come merged.
func (r *replay) hearCredit(s *step) {
	r.t.Helper()
	want := r.translate(s.frame)
	place := fmt.Sprint(peer.IDKey(want[peer.KeyID]), want.Stream())
	for r.granted[place] < want.Uint(peer.KeyCredit) {
		got := r.p.Await(s.String(), func(f peer.Frame) bool {
			return f.Type() == peer.TypeCredit && peer.IDKey(f[peer.KeyID]) == peer.IDKey(want[peer.KeyID]) && f.Stream() == want.Stream()
		})
		r.granted[place] += got.Uint(peer.KeyCredit)
		require.Equal(r.t, map[uint64]any(want.With(peer.KeyCredit, got[peer.KeyCredit])), map[uint64]any(got), "%s", s)
	}
	r.granted[place] -= want.Uint(peer.KeyCredit)
}

// hearHeartbeat compares a probe's answer; counters and pools may lag behind the frames before it, so the probe is repeated.
func (r *replay) hearHeartbeat(s *step) {
	r.t.Helper()
	var last string
	r.p.Poll(s.String(), func() bool {
		got := r.p.Await(s.String(), func(f peer.Frame) bool { return peer.IDKey(f[peer.KeyID]) == peer.IDKey(s.frame[peer.KeyID]) })
		meta := maps.Clone(got.Meta())
		delete(meta, "footprint_mb") // the process's own memory
		delete(meta, "rss_mb")
		if meta != nil {
			got = got.With(peer.KeyMeta, meta)
		}
		if last = got.String(); assert.ObjectsAreEqual(map[uint64]any(s.frame), map[uint64]any(got)) {
			return true
		}
		r.t.Logf("%s: got %s, want %s; asking again", s, last, s.frame)
		r.p.Send(r.probe)
		return false
	})
}
