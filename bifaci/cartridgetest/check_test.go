package cartridgetest

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/host"
)

// sent is one frame of a conversation.
type sent struct {
	d Direction
	f Frame
}

// judge shows a conversation to a check.
func judge(t *testing.T, conversation []sent, excuse ...frame.ID) []Breach {
	t.Helper()
	c := NewCheck()
	for _, id := range excuse {
		c.Excuse(id)
	}
	for _, s := range conversation {
		b, err := s.f.encode()
		require.NoError(t, err)
		n, err := c.Tap(s.d, nil).Write(b)
		require.NoError(t, err)
		require.Equal(t, len(b), n)
	}
	return c.Breaches()
}

// of gives frames the ids of a request and numbers their flow.
func of(id, routing frame.ID, frames ...Frame) []Frame {
	seq := uint64(0)
	for i, f := range frames {
		f = f.With(frame.KeyID, idValue(id)).With(frame.KeySeq, uint64(0))
		if f.Type().IsFlow() {
			f[frame.KeySeq] = seq
			seq++
		}
		if !routing.IsZero() {
			f[frame.KeyRoutingID] = idValue(routing)
		}
		frames[i] = f
	}
	return frames
}

var (
	rid = frame.UintID(7)
	xid = frame.UintID(9)
)

// Places in the legal conversation.
const (
	atHello = iota
	atHelloBack
	atPolicy
	atReq
	atStart
	atChunk0
	atChunk1
	atGrant
	atChunk2
	atStreamEnd
	atEnd
	atAnswerStart
	atAnswerChunk0
	atAnswerChunk1
	atAnswerGrant
	atAnswerChunk2
	atAnswerStreamEnd
	atAnswerEnd
)

// legal is a conversation with a window of 2: one request with three chunks either way.
func legal() []sent {
	limits := frame.DefaultLimits()
	limits.InitialCredit = 2
	limits.MaxFrame = 1000
	control := func(f Frame) Frame { return f.With(frame.KeySeq, uint64(0)) }
	body := of(rid, xid, ReqFrame(capEcho), StartFrame("s", "media:"), ChunkFrame("s", 0, Bytes("a")), ChunkFrame("s", 1, Bytes("b")),
		ChunkFrame("s", 2, Bytes("c")), StreamEndFrame("s", 3), EndFrame(false))
	answer := of(rid, xid, StartFrame("t", "media:").With(frame.KeyIsSequence, false), ChunkFrame("t", 0, Bytes("a")), ChunkFrame("t", 1, Bytes("b")),
		ChunkFrame("t", 2, Bytes("c")), StreamEndFrame("t", 3), EndFrame(true))
	return []sent{
		{ToCartridge, control(HelloFrame(limits))}, {ToHost, helloBack(limits)}, {ToCartridge, control(PolicyFrame(host.Online()))},
		{ToCartridge, body[0]}, {ToCartridge, body[1]}, {ToCartridge, body[2]}, {ToCartridge, body[3]},
		{ToHost, of(rid, xid, CreditFrame(frame.CreditRequest, "s", 1))[0]},
		{ToCartridge, body[4]}, {ToCartridge, body[5]}, {ToCartridge, body[6]},
		{ToHost, answer[0]}, {ToHost, answer[1]}, {ToHost, answer[2]},
		{ToCartridge, of(rid, xid, CreditFrame(frame.CreditResponse, "t", 1))[0]},
		{ToHost, answer[3]}, {ToHost, answer[4]}, {ToHost, answer[5]},
	}
}

// helloBack is a cartridge's HELLO.
func helloBack(limits frame.Limits) Frame {
	f := HelloFrame(limits)
	f.Meta()["manifest"], f.Meta()["pools"] = []byte(`{}`), []byte(`{}`)
	return f.With(frame.KeySeq, uint64(0))
}

// without leaves one frame out, with puts one in, and change replaces one.
func without(c []sent, at int) []sent { return append(c[:at:at], c[at+1:]...) }

func with(c []sent, at int, d Direction, f Frame) []sent {
	return append(append(c[:at:at], sent{d, f}), c[at:]...)
}

func change(c []sent, at int, to func(Frame) Frame) []sent {
	c[at].f = to(c[at].f)
	return c
}

func set(k frame.Key, v any) func(Frame) Frame { return func(f Frame) Frame { return f.With(k, v) } }

func drop(k frame.Key) func(Frame) Frame { return func(f Frame) Frame { return f.Without(k) } }

// callID is a peer call's.
var callID = frame.UintID(8)

// call is a peer call for a parent, cancelled halfway or not: REQ, and the answer's first frame.
func call(parent frame.ID) []sent {
	req := ReqFrame(capEcho).With(frame.KeyMeta, map[string]any{"parent_rid": idValue(parent)})
	return []sent{{ToHost, of(callID, frame.ID{}, req)[0]}, {ToCartridge, of(callID, frame.ID{}, StartFrame("c", "media:"))[0]}}
}

func cancelOf(id frame.ID) sent {
	return sent{ToHost, of(id, frame.ID{}, CancelFrame(failure.CancelReason{}))[0]}
}

// pulse is the answer to a probe.
func pulse(probe Frame) Frame {
	return probe.With(frame.KeyMeta, map[string]any{"pools": []byte("{}"), "drops_total": uint64(0), "stragglers_total": uint64(0),
		"overruns_total": uint64(0)})
}

// errOf is an ERR about an argument.
func errOf(arg string) Frame {
	f := ErrFrame("X", failure.Internal, "x")
	f.Meta()["arg_urn"] = arg
	return f
}

// carrying is a CHUNK with other content, in hexadecimal, and the right checksum.
func carrying(text string) func(Frame) Frame {
	return func(f Frame) Frame {
		p, err := hex.DecodeString(text)
		if err != nil {
			panic(err) // a mistake of the test's author
		}
		return f.With(frame.KeyPayload, p).With(frame.KeyChecksum, fnv1a(p))
	}
}

// sequence is the legal conversation with an answer that is a sequence.
func sequence() []sent { return change(legal(), atAnswerStart, set(frame.KeyIsSequence, true)) }

func TestCheckPassesTheLegalConversation(t *testing.T) {
	assert.Empty(t, judge(t, legal()))
}

func TestCheckPasses(t *testing.T) {
	probe := HeartbeatFrame(nil).With(frame.KeyID, uint64(5)).With(frame.KeySeq, uint64(0))
	answered := func(frames ...Frame) []sent {
		c := legal()[:atAnswerStart:atAnswerStart]
		for _, f := range of(rid, xid, frames...) {
			c = append(c, sent{ToHost, f})
		}
		return c
	}
	for name, c := range map[string][]sent{
		"a sequence in fragments":            change(change(sequence(), atAnswerChunk0, carrying("4361")), atAnswerChunk1, carrying("6263")),
		"several items in one payload":       change(sequence(), atAnswerChunk0, carrying("01820203")),
		"a peer call that is cancelled":      append(append(legal()[:atStart:atStart], call(rid)...), cancelOf(callID)),
		"a probe with the id of an old":      append(legal(), sent{ToCartridge, probe}, sent{ToHost, pulse(probe)}, sent{ToCartridge, probe}, sent{ToHost, pulse(probe)}),
		"a probe of the cartridge's":         append(legal(), sent{ToHost, probe}, sent{ToCartridge, probe}),
		"a bare END":                         answered(EndFrame(true)),
		"a LOG, a progress and an ERR":       answered(LogFrame("info", failure.User, "x"), newFrame(frame.TypeLog).With(frame.KeyMeta, map[string]any{"level": "progress", "message": "", "progress": uint64(0)}), errOf("media:")),
		"CLOSE_STREAM and CANCEL, late":      append(legal(), sent{ToCartridge, of(rid, xid, CloseStreamFrame(""))[0]}, sent{ToCartridge, of(rid, xid, CancelFrame(failure.UserCancel()))[0]}),
		"a grant for a request that is over": append(legal(), sent{ToHost, of(rid, xid, CreditFrame(frame.CreditRequest, "s", 1))[0]}),
	} {
		t.Run(name, func(t *testing.T) { assert.Empty(t, judge(t, c)) })
	}
}

// TestEveryPropertyIsCaught: whoever adds a property adds the conversation that breaks it.
func TestEveryPropertyIsCaught(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "check.go", nil, 0)
	require.NoError(t, err)
	src, err := os.ReadFile("check_test.go")
	require.NoError(t, err)
	declared := 0
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || fmt.Sprint(v.Type) != "Property" {
			return true
		}
		declared++
		assert.Contains(t, string(src), ", "+v.Names[0].Name+", To", "no case catches it")
		return true
	})
	assert.Greater(t, declared, 15)
}

// TestCheckPassesTheVectors: what the specification calls legal is no breach.
func TestCheckPassesTheVectors(t *testing.T) {
	raw, err := os.ReadFile("../../test/vectors/transcripts.json")
	require.NoError(t, err)
	var all []struct {
		Name   string
		Limits map[string]uint64
		Frames []struct{ Dir, Hex string }
	}
	require.NoError(t, json.Unmarshal(raw, &all))
	// In these the host breaks a rule on purpose.
	rude := map[string]bool{"credit-violation": true, "request-before-policy": true, "corrupted-chunk": true}
	for _, tr := range all {
		t.Run(tr.Name, func(t *testing.T) {
			c := NewCheck()
			if !strings.HasPrefix(tr.Name, "handshake") { // it starts live
				c.hello, c.policy = [2]bool{true, true}, true
				c.maxFrame, c.window = tr.Limits["max_frame"], tr.Limits["initial_credit"]
			}
			for _, f := range tr.Frames {
				b, err := hex.DecodeString(f.Hex)
				require.NoError(t, err)
				d := ToCartridge
				if strings.HasPrefix(f.Dir, "c") {
					d = ToHost
				}
				_, err = c.Tap(d, nil).Write(b)
				require.NoError(t, err)
			}
			var breaches []Breach
			for _, b := range c.Breaches() {
				if !rude[tr.Name] || b.Direction == ToHost {
					breaches = append(breaches, b)
				}
			}
			assert.Empty(t, breaches)
		})
	}
}

// TestCheckCatches has, for each property, conversations that break it and nothing else.
func TestCheckCatches(t *testing.T) {
	policy := func() Frame { return legal()[atPolicy].f }
	live := func() []sent { return append(legal()[:atStart:atStart], call(rid)...) }
	probe := HeartbeatFrame(nil).With(frame.KeyID, uint64(5)).With(frame.KeySeq, uint64(0))
	ended := append(legal()[:atAnswerStart:atAnswerStart], sent{ToHost, of(rid, xid, EndFrame(true))[0]})
	logged := func(f Frame) []sent {
		return append(legal()[:atAnswerStart:atAnswerStart], sent{ToHost, of(rid, xid, f)[0]})
	}
	req := func(id, routing frame.ID, capURN string) Frame { return of(id, routing, ReqFrame(capURN))[0] }
	for _, tc := range []struct {
		name string
		want Property
		d    Direction
		c    []sent
	}{
		{"a heartbeat before the host's HELLO", HelloFirst, ToCartridge,
			with(legal(), atHello, ToCartridge, HeartbeatFrame(nil).With(frame.KeyID, uint64(1)).With(frame.KeySeq, uint64(0)))},
		{"the cartridge's HELLO first", HelloFirst, ToHost, append([]sent{legal()[atHelloBack], legal()[atHello]}, legal()[atPolicy:atGrant]...)},
		{"a second HELLO", HelloFirst, ToCartridge, with(legal(), atPolicy, ToCartridge, legal()[atHello].f)},
		{"REQ before POLICY", PolicyFirst, ToCartridge, without(legal(), atPolicy)},
		{"POLICY of a cartridge", RightSide, ToHost, with(legal(), atPolicy, ToHost, policy())},
		{"a relay frame", RightSide, ToHost,
			with(legal(), atPolicy, ToHost, newFrame(frame.TypeRelayState).With(frame.KeyID, uint64(0)).With(frame.KeySeq, uint64(0)))},
		{"a callee that cancels", RightSide, ToHost,
			with(legal(), atEnd, ToHost, of(rid, xid, CancelFrame(failure.UserCancel()))[0])},
		{"an answer to nothing", KnownRequest, ToHost,
			with(legal(), atReq, ToHost, of(frame.UintID(8), xid, ErrFrame("X", failure.Internal, "x"))[0])},
		{"two live requests of one id", LiveOnce, ToCartridge, with(legal(), atEnd, ToCartridge, req(rid, xid, capEcho))},
		{"an answer without the routing id", RoutingEchoed, ToHost, change(legal(), atAnswerChunk0, drop(frame.KeyRoutingID))},
		{"a grant without the routing id", RoutingEchoed, ToHost, change(legal(), atGrant, drop(frame.KeyRoutingID))},
		{"a body that changes its routing id", RoutingEchoed, ToCartridge, change(legal(), atGrant+1, set(frame.KeyRoutingID, uint64(1)))},
		{"a peer call with a routing id", RoutingEchoed, ToHost, with(legal(), atEnd, ToHost, call(rid)[0].f.With(frame.KeyRoutingID, uint64(9)))},
		{"two terminals", OneTerminal, ToHost, append(legal(), sent{ToHost, of(rid, xid, ErrFrame("X", failure.Internal, "x"))[0]})},
		{"a LOG after the terminal", OneTerminal, ToHost, append(legal(), sent{ToHost, of(rid, xid, LogFrame("info", failure.Internal, "x"))[0]})},
		{"a body that goes on after END", OneTerminal, ToCartridge,
			with(legal(), atAnswerStart, ToCartridge, of(rid, xid, StartFrame("z", "media:"))[0])},
		{"a gap in seq", SeqWithoutGap, ToHost, change(legal(), atAnswerEnd, set(frame.KeySeq, uint64(6)))},
		{"a seq twice", SeqWithoutGap, ToCartridge, change(legal(), atEnd, set(frame.KeySeq, uint64(5)))},
		{"a numbered control frame", SeqWithoutGap, ToHost, change(legal(), atGrant, set(frame.KeySeq, uint64(1)))},
		{"a chunk of an unknown stream", StreamOrder, ToHost, change(legal(), atAnswerChunk2, set(frame.KeyStreamID, "z"))[:atAnswerStreamEnd]},
		{"a chunk without stream", ShapeRight, ToHost, change(legal(), atAnswerChunk2, drop(frame.KeyStreamID))[:atAnswerStreamEnd]},
		{"a stream started twice", StreamOrder, ToHost, append(legal()[:atAnswerChunk0], sent{ToHost, legal()[atAnswerStart].f.With(frame.KeySeq, uint64(1))})},
		{"a chunk after STREAM_END", StreamOrder, ToHost, append(legal()[:atAnswerEnd],
			sent{ToHost, of(rid, xid, ChunkFrame("t", 3, Bytes("d")))[0].With(frame.KeySeq, uint64(5))})},
		{"END with an open stream", StreamOrder, ToHost, change(without(legal(), atAnswerStreamEnd), atAnswerEnd-1, set(frame.KeySeq, uint64(4)))},
		{"a chunk_index that jumps", IndexInOrder, ToHost, change(legal(), atAnswerChunk1, set(frame.KeyChunkIndex, uint64(2)))},
		{"a chunk_count too low", CountExact, ToHost, change(legal(), atAnswerStreamEnd, set(frame.KeyChunkCount, uint64(2)))},
		{"no chunk_count on a bounded stream", CountExact, ToHost, change(legal(), atAnswerStreamEnd, drop(frame.KeyChunkCount))},
		{"a chunk_count on an unbounded stream", CountExact, ToHost, change(legal(), atAnswerStart, set(frame.KeyUnbounded, true))},
		{"a wrong checksum", ChecksumRight, ToHost, change(legal(), atAnswerChunk2, set(frame.KeyChecksum, uint64(1)))},
		{"a body chunk without credit", WithinWindow, ToCartridge, without(legal(), atGrant)},
		{"an answer chunk without credit", WithinWindow, ToHost, without(legal(), atAnswerGrant)},
		{"more granted than sent", CreditEarned, ToHost, change(legal(), atGrant, set(frame.KeyCredit, uint64(3)))},
		{"a grant in the wrong direction", CreditEarned, ToHost,
			with(legal(), atChunk2, ToHost, of(rid, xid, CreditFrame(frame.CreditResponse, "s", 1))[0])},
		{"a grant for no stream", CreditEarned, ToHost,
			with(legal(), atChunk2, ToHost, of(rid, xid, CreditFrame(frame.CreditRequest, "z", 1))[0])},
		{"a frame beyond max_frame", MaxFrame, ToHost, change(legal(), atAnswerChunk2, func(f Frame) Frame {
			big := Bytes(strings.Repeat("x", 1000))
			return f.With(frame.KeyPayload, big).With(frame.KeyChecksum, fnv1a(big))
		})},
		{"a REQ with data", ShapeRight, ToCartridge, change(legal(), atReq, set(frame.KeyPayload, []byte("x")))},
		{"a REQ without cap", ShapeRight, ToCartridge, change(legal(), atReq, drop(frame.KeyCap))[:atStart]},
		{"a peer call without parent", ParentLive, ToHost, change(live(), atStart, drop(frame.KeyMeta))[:atStart+1]},
		{"a stream without media URN", ShapeRight, ToCartridge, change(legal(), atStart, drop(frame.KeyMediaURN))},
		{"an answer that does not say is_sequence", ShapeRight, ToHost, change(legal(), atAnswerStart, drop(frame.KeyIsSequence))},
		{"unbounded false", ShapeRight, ToCartridge, change(legal(), atStart, set(frame.KeyUnbounded, false))},
		{"a chunk with a key of the past", ShapeRight, ToHost, change(legal(), atAnswerChunk1, set(frame.KeyOffset, uint64(1)))},
		{"a number where a text belongs", ShapeRight, ToCartridge, change(legal(), atStart, set(frame.KeyMediaURN, uint64(1)))},
		{"no seq", ShapeRight, ToHost, change(legal(), atGrant, drop(frame.KeySeq))},
		{"an END that says nothing", ShapeRight, ToHost, change(legal(), atAnswerEnd, drop(frame.KeyMeta))},
		{"an END that says failure", ShapeRight, ToHost, change(legal(), atAnswerEnd, set(frame.KeyMeta, map[string]any{"exit_code": uint64(1), "progress": 1.0}))},
		{"an END without progress", ShapeRight, ToHost, change(legal(), atAnswerEnd, set(frame.KeyMeta, map[string]any{"exit_code": uint64(0)}))},
		{"an END without eof", ShapeRight, ToHost, change(legal(), atAnswerEnd, drop(frame.KeyEOF))},
		{"a body's END with a result", ShapeRight, ToCartridge, change(legal(), atEnd, set(frame.KeyMeta, map[string]any{"exit_code": uint64(0)}))},
		{"an ERR without a class", ShapeRight, ToHost, logged(ErrFrame("X", "", "x"))},
		{"an ERR without a message", ShapeRight, ToHost, logged(ErrFrame("X", failure.Internal, " "))},
		{"an ERR without a code", ShapeRight, ToHost, logged(ErrFrame("", failure.Internal, "x"))},
		{"an ERR of no argument", ShapeRight, ToHost, logged(errOf(""))},
		{"a LOG without a level", ShapeRight, ToHost, logged(LogFrame("", failure.Internal, "x"))},
		{"a LOG of a class that there is not", ShapeRight, ToHost, logged(LogFrame("info", "mine", "x"))},
		{"a progress with a class", ShapeRight, ToHost, logged(LogFrame("progress", failure.Internal, "x"))},
		{"a progress beyond 1", ShapeRight, ToHost, logged(newFrame(frame.TypeLog).With(frame.KeyMeta,
			map[string]any{"level": "progress", "message": "", "progress": 1.5}))},
		{"a grant of nothing", ShapeRight, ToHost, change(legal(), atGrant, set(frame.KeyCredit, uint64(0)))[:atChunk2]},
		{"a policy of three reaches", ShapeRight, ToCartridge, change(legal(), atPolicy, set(frame.KeyMeta,
			map[string]any{"network": map[string]any{"name": "x", "our_services": true, "telemetry": true}}))},
		{"a HELLO without a limit", ShapeRight, ToCartridge, change(legal(), atHello, func(f Frame) Frame {
			delete(f.Meta(), "max_chunk")
			return f
		})},
		{"a cartridge's HELLO without pools", ShapeRight, ToHost, change(legal(), atHelloBack, func(f Frame) Frame {
			delete(f.Meta(), "pools")
			return f
		})},
		{"an answer to a probe without pools", ShapeRight, ToHost, append(legal(), sent{ToCartridge, probe}, sent{ToHost, probe})},
		{"a probe that is answered twice", ProbeOnce, ToHost, append(legal(), sent{ToCartridge, probe}, sent{ToHost, pulse(probe)}, sent{ToHost, pulse(probe)})},
		{"a probe that is answered and refused", ProbeOnce, ToHost, append(legal(), sent{ToCartridge, probe}, sent{ToHost, pulse(probe)},
			sent{ToHost, ErrFrame("UNKNOWN_POOL", failure.Internal, "x").With(frame.KeyID, uint64(5)).With(frame.KeySeq, uint64(0))})},
		{"a body that logs", RightSide, ToCartridge, append(legal()[:atStart:atStart], sent{ToCartridge, of(rid, xid, ReqFrame(capEcho),
			LogFrame("info", failure.Internal, "x"))[1]})},
		{"a payload of two values", ContentWhole, ToHost, change(legal(), atAnswerChunk1, carrying("0102"))},
		{"a payload that is cut", ContentWhole, ToCartridge, change(legal(), atChunk1, carrying("4261"))},
		{"a sequence that is no CBOR", ContentWhole, ToHost, change(sequence(), atAnswerChunk1, carrying("1c"))},
		{"a sequence that ends inside an item", ContentWhole, ToHost, change(sequence(), atAnswerChunk2, carrying("8201"))},
		{"a call for nobody", ParentLive, ToHost, append(legal()[:atStart:atStart], call(frame.UintID(8))[0])},
		{"a call for a request that has ended", ParentLive, ToHost, append(ended, call(rid)[0])},
		{"two cancels of a call", CancelOnce, ToHost, append(live(), cancelOf(callID), cancelOf(callID))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			breaches := judge(t, tc.c)
			require.Len(t, breaches, 1)
			assert.Equal(t, tc.want, breaches[0].Property, breaches[0])
			assert.Equal(t, tc.d, breaches[0].Direction, breaches[0])
		})
	}
}

func TestCheckCatchesWhatDoesNotDecode(t *testing.T) {
	for name, b := range map[string]string{
		"length 0":                "00000000",
		"a length beyond 16 MiB":  "01000001",
		"no map":                  "0000000100",
		"version 4":               "00000009a4000401070205" + "0300",
		"the retired type":        "00000009a4000601020205" + "0300",
		"a key twice":             "00000009a4000600060205" + "0300",
		"an id that is no id":     "00000009a40006010702f40300",
		"a routing id that is no": "0000000ba50006010702050300" + "0df4",
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := hex.DecodeString(b)
			require.NoError(t, err)
			c := NewCheck()
			_, err = c.Tap(ToHost, nil).Write(raw)
			require.NoError(t, err)
			_, err = c.Tap(ToHost, nil).Write(raw)
			require.NoError(t, err)
			wantOne(t, c, Decodable, ToHost)
		})
	}
}

func TestCheckReadsByteByByte(t *testing.T) {
	c := NewCheck()
	for _, s := range without(legal(), atAnswerGrant) {
		b, err := s.f.encode()
		require.NoError(t, err)
		for i := range b {
			_, err := c.Tap(s.d, nil).Write(b[i : i+1])
			require.NoError(t, err)
		}
	}
	require.Len(t, c.Breaches(), 1)
	assert.Equal(t, WithinWindow, c.Breaches()[0].Property)
	assert.Len(t, c.Trace(), len(legal())-1)
}

// wantOne makes sure that there is one breach; nothing behind it is looked at.
func wantOne(t *testing.T, c *Check, p Property, d Direction) {
	t.Helper()
	require.Len(t, c.Breaches(), 1)
	assert.Equal(t, p, c.Breaches()[0].Property)
	assert.Equal(t, d, c.Breaches()[0].Direction)
}

func TestCheckExcusesACartridgeThatIsAFake(t *testing.T) {
	both := without(without(legal(), atAnswerGrant), atGrant)
	c := NewCheck()
	c.ExcuseCartridge()
	for _, s := range both {
		write(t, c, s)
	}
	wantOne(t, c, WithinWindow, ToCartridge)
	_, err := c.Tap(ToHost, nil).Write([]byte{0, 0, 0, 0})
	require.NoError(t, err)
	assert.Len(t, c.Breaches(), 1, "not even what is no frame")
}

func TestCheckShowsEachFrameOnceInOrder(t *testing.T) {
	c := NewCheck()
	var seen []sent
	c.Watch(func(d Direction, f Frame) { seen = append(seen, sent{d, f}) })
	for _, s := range legal() {
		write(t, c, s)
	}
	require.Len(t, seen, len(legal()))
	for i, s := range legal() {
		assert.Equal(t, s.d.String()+s.f.String(), seen[i].d.String()+seen[i].f.String())
	}
}

func write(t *testing.T, c *Check, s sent) {
	t.Helper()
	b, err := s.f.encode()
	require.NoError(t, err)
	_, err = c.Tap(s.d, nil).Write(b)
	require.NoError(t, err)
}

func TestCheckExcusesTheHostOnly(t *testing.T) {
	assert.Empty(t, judge(t, without(legal(), atGrant), rid), "the host sent a chunk without credit on purpose")
	assert.Len(t, judge(t, without(legal(), atAnswerGrant), rid), 1, "the cartridge is judged all the same")
}

func TestCheckIgnores(t *testing.T) {
	c := NewCheck()
	c.Ignore(rid)
	for _, s := range without(legal(), atAnswerGrant) {
		b, err := s.f.encode()
		require.NoError(t, err)
		_, err = c.Tap(s.d, nil).Write(b)
		require.NoError(t, err)
	}
	assert.Empty(t, c.Breaches())
}

func TestCheckKnowsWhatWasNotAnswered(t *testing.T) {
	c := NewCheck()
	for _, s := range legal()[:atAnswerEnd] {
		b, err := s.f.encode()
		require.NoError(t, err)
		_, err = c.Tap(s.d, nil).Write(b)
		require.NoError(t, err)
	}
	assert.Equal(t, []frame.ID{rid}, c.Unanswered())
}

// FuzzCheck: whatever bytes a link carries, the check reads them without a panic, and the same however they are cut.
func FuzzCheck(f *testing.F) {
	raw, err := os.ReadFile("../../test/vectors/frames.json")
	require.NoError(f, err)
	var vectors []struct{ Hex string }
	require.NoError(f, json.Unmarshal(raw, &vectors))
	for _, v := range vectors {
		if b, err := hex.DecodeString(v.Hex); err == nil && len(b) < 4096 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		whole, cut := NewCheck(), NewCheck()
		_, err := whole.Tap(ToHost, nil).Write(b)
		require.NoError(t, err)
		for i := range b {
			_, err := cut.Tap(ToHost, nil).Write(b[i : i+1])
			require.NoError(t, err)
		}
		require.Equal(t, whole.Breaches(), cut.Breaches())
		require.Equal(t, whole.Trace(), cut.Trace())
	})
}
