package conform

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
)

func framingChecks() []check {
	all := []check{
		{id: "prefix-zero", rule: "wire 1", title: "a length of 0 ends the connection", run: hostile(barrier().encode(), "00000000")},
		{id: "prefix-too-large", rule: "wire 1",
			title: "a frame above max_frame is refused on its prefix alone, before anything is read or allocated", run: prefixTooLarge},
		{id: "cut-prefix", rule: "R-2.31", title: "an input that ends within a length prefix is broken", run: cut("00", "0000", "000000")},
		{id: "cut-body", rule: "R-2.31", title: "an input that ends within a frame is broken", run: cut("00000009",
			"00000009 a4000601070205 03", "00000058 a5")},
		{id: "cbor-malformed", rule: "wire 2.2", title: "malformed CBOR ends the connection", run: hostileBodies(
			"a4", "ff", "80", "f6", "01", "60", "bf 00 06 01 07 02 05 03 00", "a4 00 06 01 07 02 05 03 1c",
			"a4 00 06 01 07 02 05 03 f8 10", "c1 a4 00 06 01 07 02 05 03 00",
			"a5 00 06 01 07 02 05 03 00 06 5b 7f ff ff ff ff ff ff ff", "bb ff ff ff ff ff ff ff ff 00 06",
			"a5 00 06 01 07 02 05 03 00 05"+strings.Repeat("81", 40)+"00")},
		{id: "cbor-trailing", rule: "wire 2.2", title: "bytes behind the map end the connection", run: hostileBodies(
			"a4 00 06 01 07 02 05 03 00 00", "a4 00 06 01 07 02 05 03 00 a0")},
		{id: "cbor-duplicate-key", rule: "wire 2.2",
			title: "a key that is there twice ends the connection, in the frame and in its meta", run: hostileBodies(
				"a5 00 06 01 07 02 05 03 00 02 05", "a5 00 06 01 07 02 05 03 00 03 00", "a5 00 06 01 07 02 05 18 03 00 03 00",
				"a5 00 06 01 07 02 05 03 00 05 a2 61 61 01 61 61 02")},
		{id: "cbor-keys", rule: "wire 2.2",
			title: "frame keys that are no unsigned numbers, and meta keys that are no text, end the connection", run: hostileBodies(
				"a5 00 06 01 07 02 05 03 00 61 61 01", "a5 00 06 01 07 02 05 03 00 20 01", "a5 00 06 01 07 02 05 03 00 05 a1 01 01")},
		{id: "cbor-utf8", rule: "wire 2.2", title: "text that is no UTF-8 ends the connection", run: hostileBodies(
			"a5 00 06 01 01 02 05 03 00 04 62 c3 28", "a5 00 06 01 07 02 05 03 00 05 a1 61 61 61 ff", "a5 00 06 01 07 02 05 03 00 05 a1 61 ff 01")},
		{id: "frame-fields", rule: "wire 2.2",
			title: "a frame without version, type or id, and a CHUNK or CREDIT without its numbers, end the connection", run: hostileBodies(
				"a3 01 07 02 05 03 00", "a3 00 06 02 05 03 00", "a3 00 06 01 07 03 00", "a0",
				"a6 00 06 01 03 02 05 03 00 06 40 0b 61 61", "a5 00 06 01 0d 02 05 03 00 0b 61 61")},
		{id: "frame-version", rule: "wire 2.2", title: "a frame of another version ends the connection; 262 is not 6", run: hostileBodies(
			"a4 00 04 01 07 02 05 03 00", "a4 00 07 01 07 02 05 03 00", "a4 00 19 01 06 01 07 02 05 03 00", "a4 00 61 36 01 07 02 05 03 00")},
		{id: "frame-type", rule: "wire 4", title: "an unknown frame type ends the connection; 263 is not HEARTBEAT", run: hostileBodies(
			"a4 00 06 01 02 02 05 03 00", "a4 00 06 01 10 02 05 03 00", "a4 00 06 01 19 01 07 02 05 03 00", "a4 00 06 01 26 02 05 03 00")},
		{id: "frame-value-types", rule: "wire 2.2", title: "a known key with a value of another type, or null, ends the connection",
			run: hostileBodies(
				"a4 00 06 01 07 02 05 03 61 30", "a4 00 06 01 07 02 05 03 20", "a5 00 06 01 07 02 05 03 00 05 80",
				"a5 00 06 01 07 02 05 03 00 05 f6", "a5 00 06 01 01 02 05 03 00 0a 41 00", "a5 00 06 01 04 02 05 03 00 09 01",
				"a6 00 06 01 0d 02 05 03 00 0b 61 61 13 20")},
		{id: "frame-ids", rule: "wire 5.1",
			title: "an id or routing id that is neither 16 bytes nor an unsigned number ends the connection", run: hostileBodies(
				"a4 00 06 01 07 02 4f"+strings.Repeat("00", 15)+"03 00", "a4 00 06 01 07 02 51"+strings.Repeat("00", 17)+"03 00",
				"a4 00 06 01 07 02 40 03 00", "a4 00 06 01 07 02 61 31 03 00",
				"a4 00 06 01 07 02 20 03 00", "a4 00 06 01 07 02 f6 03 00", "a4 00 06 01 07 02 c2 41 05 03 00", "a5 00 06 01 07 02 05 03 00 0d 41 00")},
		{id: "relay-frames", rule: "wire 4", title: "RELAY_NOTIFY and RELAY_STATE end the connection",
			run: hostileBodies("a4 00 06 01 0a 02 00 03 00", "a5 00 06 01 0b 02 00 03 00 06 40")},
		{id: "random-bytes", rule: "wire 1", title: "bytes of no sense end the connection and not by a signal", run: randomInput},
		{id: "lenient-decoding", rule: "wire 2.2",
			title: "any key order, wide numbers, indefinite lengths, unknown keys and a missing seq are accepted", run: lenientDecoding},
		{id: "broken-input-answers", rule: "R-2.32", title: "when the input breaks every request ends with PROTOCOL_ERROR/internal",
			run: brokenInputAnswers},
		{id: "broken-input-status", rule: "R-2.32", title: "after broken input the exit status is not 0", run: brokenInputStatus},
	}
	return all
}

func unhex(digits string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	if err != nil {
		panic(err) // a mistake of a check's author
	}
	return b
}

// hostile sends bytes to a live cartridge, one kind for each process, and leaves the input open: the cartridge has to end by itself,
// and nothing behind them may be answered.
func hostile(after []byte, kinds ...string) func(t *trial) {
	return func(t *trial) {
		for _, digits := range kinds {
			s := t.live(defaultLimits())
			s.sendRaw(unhex(digits))
			s.sendRaw(after)
			s.wantEnded(digits)
		}
	}
}

// barrierID is the id of the probe that shows that a link goes on.
const barrierID = uint64(0xba441e4)

// barrier is a probe that is not to be answered: a link that does goes on.
func barrier() frame { return controlFrame(kHeartbeat, barrierID) }

// wantEnded waits for the cartridge to end by itself because of what it was sent.
func (s *session) wantEnded(what string) {
	var answer frame
	late := s.awaitWithin(s.patience, func() bool {
		if n := len(s.events); n > 0 && !s.events[n-1].fromHost && s.events[n-1].frame[xID] == barrierID {
			answer = s.events[n-1].frame
		}
		return s.readErr != nil || answer != nil
	})
	s.t.ensure(late == "", nil, fmt.Sprintf("%.60s ends the connection", what), "%s", late)
	s.t.ensure(answer == nil, answer, fmt.Sprintf("%.60s ends the connection", what), "what came behind it was answered")
	s.awaitOutputEnd()
	if state := s.awaitExit(); state.ExitCode() < 0 {
		s.t.fail("the process ends by itself", "%v", state)
	}
}

// hostileBodies is hostile with the prefix put in front.
func hostileBodies(bodies ...string) func(t *trial) {
	var kinds []string
	for _, digits := range bodies {
		kinds = append(kinds, hex.EncodeToString(prefixed(unhex(digits))))
	}
	return hostile(barrier().encode(), kinds...)
}

func prefixTooLarge(t *trial) {
	hostile(nil, "00380001", "01000000", "7fffffff", "ffffffff")(t)
	small := defaultLimits()
	small.maxFrame = 4096
	s := t.live(small)
	s.sendRaw(unhex("00001001"))
	s.wantEnded("a prefix one above the negotiated max_frame")
	s = t.live(small)
	f := heartbeatFrame("").with(21, make([]byte, 4096))
	pad := len(f.encode()) - 4 - 4096
	f[21] = make([]byte, 4096-pad)
	s.send(f) // exactly max_frame
	s.answerTo(f)
	s.finish()
}

// cut ends the input within a frame.
func cut(kinds ...string) func(t *trial) {
	return func(t *trial) {
		for _, digits := range kinds {
			s := t.live(defaultLimits())
			s.sendRaw(unhex(digits))
			s.closeInput()
			s.wantRefusal()
		}
	}
}

func randomInput(t *trial) {
	for range 4 {
		b := randomBytes(20_000)
		b[0] = byte(1 + rand.IntN(255)) // far above max_frame
		s := t.live(defaultLimits())
		s.sendRaw(b)
		s.wantEnded("input that begins with " + hex.EncodeToString(b[:20]))
	}
}

func lenientDecoding(t *trial) {
	s := t.live(defaultLimits())
	for what, digits := range map[string]string{
		"another key order":        "a4 03 00 02 19 7f 01 01 07 00 06",
		"wide heads":               "a4 18 00 1b 00 00 00 00 00 00 00 06 19 00 01 18 07 02 1b 00 00 00 00 00 00 7f 02 1a 00 00 00 03 00",
		"an indefinite map":        "bf 00 06 01 07 02 19 7f 03 03 00 ff",
		"no seq":                   "a3 00 06 01 07 02 19 7f 04",
		"an unknown key":           "a5 00 06 01 07 02 19 7f 05 03 00 18 63 82 01 02",
		"an unknown meta key":      "a5 00 06 01 07 02 19 7f 06 03 00 05 a1 61 78 f9 3c 00",
		"indefinite meta and text": "a5 00 06 01 07 02 19 7f 07 03 00 05 bf 7f 61 61 61 62 ff fb 3f f0 00 00 00 00 00 00 ff",
		"a key of another type":    "a5 00 06 01 07 02 19 7f 08 03 00 0e 05",
	} {
		body := unhex(digits)
		f, err := decode(body)
		if err != nil {
			panic(err)
		}
		s.sendRaw(prefixed(body))
		if late := s.awaitWithin(s.patience, func() bool {
			for _, e := range s.events {
				if !e.fromHost && e.frame != nil && e.frame.kind() == kHeartbeat && e.frame[xID] == f[xID] {
					return true
				}
			}
			return false
		}); late != "" {
			t.fail("a HEARTBEAT with "+what+" is answered", "%s", late)
		}
	}
	s.goesOn()
}

// brokenOn makes a live link with an open request, and one that waits, and breaks the input.
func brokenOn(t *trial) (s *session, requests []*request) {
	s, holder, _ := t.occupied(defaultLimits())
	waiting := s.call(identityCap, []byte("waiting"))
	waiting.log("queued")
	s.sendRaw(unhex("00000001 ff"))
	return s, []*request{holder, waiting}
}

func brokenInputAnswers(t *trial) {
	s, requests := brokenOn(t)
	for _, r := range requests {
		r.wantErr("PROTOCOL_ERROR", "internal")
	}
	s.awaitOutputEnd()
	s.awaitExit()
}

func brokenInputStatus(t *trial) {
	s, _ := brokenOn(t)
	s.wantRefusal()
}
