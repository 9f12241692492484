package cartridgetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// shape is what a frame type asks for: the keys beside version, type, id and seq (spec/wire.md 3 and 4).
type shape struct {
	need, may []frame.Key
	look      func(j *judgement) error // what the values must be; nil when the keys say all
}

// shapes are by frame type; a type without an entry has no place on this link.
var shapes = map[frame.Type]shape{
	frame.TypeHello: {need: keys(frame.KeyMeta), look: (*judgement).helloShape},
	frame.TypeReq: {need: keys(frame.KeyContentType, frame.KeyPayload, frame.KeyCap), may: keys(frame.KeyMeta, frame.KeyRoutingID),
		look: (*judgement).reqShape},
	frame.TypeStreamStart: {need: keys(frame.KeyStreamID, frame.KeyMediaURN),
		may: keys(frame.KeyMeta, frame.KeyRoutingID, frame.KeyIsSequence, frame.KeyUnbounded), look: (*judgement).startShape},
	frame.TypeChunk: {need: keys(frame.KeyPayload, frame.KeyStreamID, frame.KeyChunkIndex, frame.KeyChecksum),
		may: keys(frame.KeyMeta, frame.KeyRoutingID)},
	frame.TypeStreamEnd:   {need: keys(frame.KeyStreamID), may: keys(frame.KeyRoutingID, frame.KeyChunkCount)},
	frame.TypeEnd:         {need: keys(frame.KeyEOF), may: keys(frame.KeyMeta, frame.KeyPayload, frame.KeyRoutingID), look: (*judgement).endShape},
	frame.TypeLog:         {need: keys(frame.KeyMeta), may: keys(frame.KeyRoutingID), look: (*judgement).logShape},
	frame.TypeErr:         {need: keys(frame.KeyMeta), may: keys(frame.KeyRoutingID), look: (*judgement).errShape},
	frame.TypeHeartbeat:   {may: keys(frame.KeyMeta)},
	frame.TypeCancel:      {need: keys(frame.KeyForceKill), may: keys(frame.KeyMeta, frame.KeyRoutingID), look: (*judgement).cancelShape},
	frame.TypeCredit:      {need: keys(frame.KeyMeta, frame.KeyCredit), may: keys(frame.KeyStreamID, frame.KeyRoutingID), look: (*judgement).creditShape},
	frame.TypeCloseStream: {may: keys(frame.KeyStreamID, frame.KeyRoutingID)},
	frame.TypePolicy:      {need: keys(frame.KeyMeta), look: (*judgement).policyShape},
}

func keys(k ...frame.Key) []frame.Key { return k }

// everywhere are the keys of every frame.
var everywhere = keys(frame.KeyVersion, frame.KeyType, frame.KeyID, frame.KeySeq)

// shape judges the keys of the frame and the kinds of their values.
func (j *judgement) shape() {
	s, ok := shapes[j.f.Type()]
	if !ok {
		return // a relay frame, which is a breach of its own
	}
	for _, k := range append(slices.Clip(everywhere), s.need...) {
		if !j.f.Has(k) {
			j.breach(ShapeRight, "it has no %s", k)
			return
		}
	}
	for _, k := range slices.Sorted(maps.Keys(j.f)) {
		switch v := j.f[k]; {
		case !slices.Contains(everywhere, k) && !slices.Contains(s.need, k) && !slices.Contains(s.may, k):
			j.breach(ShapeRight, "it has a %s", k)
			return
		case !kindRight(k, v):
			j.breach(ShapeRight, "its %s is a %T", k, v)
			return
		}
	}
	if s.look == nil {
		return
	}
	if err := s.look(j); err != nil {
		j.breach(ShapeRight, "%v", err)
	}
}

// kindRight reports whether the value of a key is of its CBOR type.
func kindRight(k frame.Key, v any) bool {
	ok := false
	switch k {
	case frame.KeyContentType, frame.KeyCap, frame.KeyStreamID, frame.KeyMediaURN:
		_, ok = v.(string)
	case frame.KeyMeta:
		_, ok = v.(map[string]any)
	case frame.KeyPayload:
		_, ok = v.([]byte)
	case frame.KeyEOF, frame.KeyIsSequence, frame.KeyForceKill, frame.KeyUnbounded:
		_, ok = v.(bool)
	case frame.KeyID, frame.KeyRoutingID:
		ok = true // decoding has looked
	default:
		_, ok = v.(uint64)
	}
	return ok
}

func (j *judgement) helloShape() error {
	m := j.f.Meta()
	if m["version"] != uint64(frame.Version) {
		return fmt.Errorf("meta.version is %v", m["version"])
	}
	for _, limit := range []string{"max_frame", "max_chunk", "max_reorder_buffer", "initial_credit"} {
		if n, ok := m[limit].(uint64); !ok || n == 0 {
			return fmt.Errorf("its %s is %v", limit, m[limit])
		}
	}
	if j.d == ToCartridge {
		return nil
	}
	return allJSON(m, "manifest", "pools")
}

// allJSON makes sure that values of a meta are JSON in byte strings.
func allJSON(m map[string]any, names ...string) error {
	for _, name := range names {
		if b, ok := m[name].([]byte); !ok || !json.Valid(b) {
			return fmt.Errorf("its %s is %T, want JSON in a byte string", name, m[name])
		}
	}
	return nil
}

func (j *judgement) reqShape() error {
	if len(j.f.Payload()) > 0 {
		return fmt.Errorf("it carries %d bytes", len(j.f.Payload()))
	}
	return nil
}

func (j *judgement) startShape() error {
	switch {
	case j.d == ToHost && !j.f.Has(frame.KeyIsSequence):
		return fmt.Errorf("it does not say is_sequence")
	case j.f.Has(frame.KeyUnbounded) && !j.f.Flag(frame.KeyUnbounded):
		return fmt.Errorf("it says unbounded false")
	}
	return nil
}

// endShape: only success ends with END, and says so; a body's END says nothing (L3).
func (j *judgement) endShape() error {
	if !j.f.Flag(frame.KeyEOF) {
		return fmt.Errorf("eof is false")
	}
	x := j.c.exchanges[j.f.ID()]
	if x == nil {
		return nil // a breach of its own
	}
	if j.d == x.caller {
		if j.f.Has(frame.KeyMeta) {
			return fmt.Errorf("the END of a body has meta")
		}
		return nil
	}
	m := j.f.Meta()
	if m["exit_code"] != uint64(0) {
		return fmt.Errorf("exit_code is %v", m["exit_code"])
	}
	return progressRight(m)
}

func progressRight(m map[string]any) error {
	p, ok := m["progress"].(float64)
	if n, isUint := m["progress"].(uint64); isUint {
		p, ok = float64(n), true
	}
	if !ok || !(p >= 0 && p <= 1) {
		return fmt.Errorf("progress is %v", m["progress"])
	}
	return nil
}

// logShape is spec/wire.md 10.2.
func (j *judgement) logShape() error {
	m := j.f.Meta()
	level, _ := m["level"].(string)
	_, hasClass := m["attribution_class"]
	_, hasArg := m["arg_urn"]
	_, isText := m["message"].(string)
	switch {
	case strings.TrimSpace(level) == "":
		return fmt.Errorf("level is %v", m["level"])
	case level != "progress":
		return attributed(m)
	case !isText:
		return fmt.Errorf("message is %v", m["message"])
	case hasClass || hasArg:
		return fmt.Errorf("a progress is attributed")
	}
	return progressRight(m)
}

// errShape is spec/wire.md 10.3.
func (j *judgement) errShape() error {
	if code, _ := j.f.Meta()["code"].(string); strings.TrimSpace(code) == "" {
		return fmt.Errorf("code is %v", j.f.Meta()["code"])
	}
	return attributed(j.f.Meta())
}

// attributed makes sure of message, class and argument.
func attributed(m map[string]any) error {
	message, _ := m["message"].(string)
	class, _ := m["attribution_class"].(string)
	arg, hasArg := m["arg_urn"]
	text, _ := arg.(string)
	switch {
	case strings.TrimSpace(message) == "":
		return fmt.Errorf("message is %v", m["message"])
	case !slices.Contains([]failure.Class{failure.Input, failure.Resource, failure.Environment, failure.Internal, failure.User}, failure.Class(class)):
		return fmt.Errorf("attribution_class is %v", m["attribution_class"])
	case hasArg && strings.TrimSpace(text) == "":
		return fmt.Errorf("arg_urn is %v", arg)
	}
	return nil
}

// pulseShape is what the answer to a probe says (spec/wire.md 12.2). What capacities a probe wants is for the cartridge to judge.
func (j *judgement) pulseShape() error {
	if j.d == ToCartridge {
		return nil
	}
	m := j.f.Meta()
	for _, name := range []string{"drops_total", "stragglers_total", "overruns_total"} {
		if _, ok := m[name].(uint64); !ok {
			return fmt.Errorf("its %s is %v", name, m[name])
		}
	}
	if _, footprint := m["footprint_mb"].(uint64); footprint != (m["rss_mb"] != nil) {
		return fmt.Errorf("footprint_mb is %v and rss_mb %v", m["footprint_mb"], m["rss_mb"])
	}
	return allJSON(m, "pools")
}

func (j *judgement) cancelShape() error {
	if j.d == ToHost && j.f.Flag(frame.KeyForceKill) {
		return fmt.Errorf("a cartridge kills nobody")
	}
	return nil
}

func (j *judgement) creditShape() error {
	if j.d == ToHost && j.f.Uint(frame.KeyCredit) == 0 {
		return fmt.Errorf("it grants nothing")
	}
	return nil
}

// policyShape is spec/wire.md 6.4.
func (j *judgement) policyShape() error {
	network, _ := j.f.Meta()["network"].(map[string]any)
	name, _ := network["name"].(string)
	if name == "" || len(network) != 4 || len(j.f.Meta()) != 1 {
		return fmt.Errorf("the policy is %v", j.f.Meta())
	}
	for _, reach := range []string{"our_services", "telemetry", "third_party"} {
		if _, ok := network[reach].(bool); !ok {
			return fmt.Errorf("its %s is %v", reach, network[reach])
		}
	}
	return nil
}
