package frame

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// HeartbeatReply is the meta with which a cartridge answers a probe (spec/wire.md 12.2).
type HeartbeatReply struct {
	Pools           []byte // JSON of the full pool map; mandatory
	DropsTotal      uint64
	StragglersTotal uint64
	OverrunsTotal   uint64
	HasMemory       bool // the two sizes below are there; never only one
	FootprintMB     uint64
	RSSMB           uint64
}

// DesiredCapacities is the operator's capacities in a probe: a JSON object from pool name to unsigned number, which
// aliases f.Meta. The error is a [*SyntaxError] with the token bad-heartbeat; the probe is then answered with
// UNKNOWN_POOL and nothing of the batch is applied.
func (f *Frame) DesiredCapacities() (capacities []byte, present bool, err error) {
	var desired metaValue
	w := walkMeta(f)
	for key, v, ok := w.next(); ok; key, v, ok = w.next() {
		if string(key) == "desired_capacities" {
			desired = v
		}
	}
	switch {
	case w.broken:
		return nil, false, meaningf(TokenBadHeartbeat, "meta cannot be read")
	case !desired.present():
		return nil, false, nil
	}
	capacities, ok := desired.bytes()
	if !ok {
		return nil, true, meaningf(TokenBadHeartbeat, "desired_capacities is %s, want bytes", describe(desired, 0))
	}
	var byName map[string]json.RawMessage
	if err := jsonObject(capacities, &byName); err != nil {
		return nil, true, meaningf(TokenBadHeartbeat, "desired_capacities: %v", err)
	}
	for name, number := range byName {
		if !jsonUnsigned(number) {
			return nil, true, meaningf(TokenBadHeartbeat, "desired_capacities: pool %.80q: %.20s, want an unsigned number", name, number)
		}
	}
	return capacities, true, nil
}

// AppendDesiredMeta appends the meta of a probe that carries capacities, the JSON of [Frame.DesiredCapacities].
func AppendDesiredMeta(dst, capacities []byte) []byte {
	return putBytes(mapHead(dst, true), "desired_capacities", capacities)
}

// HeartbeatReply reads the answer to a probe. The error is a [*SyntaxError] with the token bad-heartbeat: a reply without
// readable pools is a protocol error. Counters that are missing or unreadable are 0. Pools aliases f.Meta.
func (f *Frame) HeartbeatReply() (HeartbeatReply, error) {
	var (
		r              HeartbeatReply
		pools          metaValue
		footprint, rss bool
	)
	w := walkMeta(f)
	for key, v, ok := w.next(); ok; key, v, ok = w.next() {
		switch string(key) {
		case "pools":
			pools = v
		case "drops_total":
			r.DropsTotal, _ = v.uint()
		case "stragglers_total":
			r.StragglersTotal, _ = v.uint()
		case "overruns_total":
			r.OverrunsTotal, _ = v.uint()
		case "footprint_mb":
			r.FootprintMB, footprint = v.uint()
		case "rss_mb":
			r.RSSMB, rss = v.uint()
		}
	}
	if w.broken {
		return HeartbeatReply{}, meaningf(TokenBadHeartbeat, "meta cannot be read")
	}
	var ok bool
	if r.Pools, ok = pools.bytes(); !ok {
		return HeartbeatReply{}, meaningf(TokenBadHeartbeat, "reply without pools, want a byte string")
	}
	if err := checkPools(r.Pools); err != nil {
		return HeartbeatReply{}, meaningf(TokenBadHeartbeat, "%v", err)
	}
	if r.HasMemory = footprint && rss; !r.HasMemory {
		r.FootprintMB, r.RSSMB = 0, 0
	}
	return r, nil
}

// AppendPoolsMeta appends the meta of the reply that says r.
func AppendPoolsMeta(dst []byte, r HeartbeatReply) []byte {
	dst = mapHead(dst, true, true, true, true, r.HasMemory, r.HasMemory)
	dst = putUint(dst, "drops_total", r.DropsTotal)
	if r.HasMemory {
		dst = putUint(dst, "footprint_mb", r.FootprintMB)
	}
	dst = putUint(dst, "overruns_total", r.OverrunsTotal)
	dst = putBytes(dst, "pools", r.Pools)
	if r.HasMemory {
		dst = putUint(dst, "rss_mb", r.RSSMB)
	}
	return putUint(dst, "stragglers_total", r.StragglersTotal)
}

// checkPools judges the form of a pool map (spec/wire.md 12.3); what the pools mean is the business of others.
func checkPools(raw []byte) error {
	var pools map[string]map[string]json.RawMessage
	if err := jsonObject(raw, &pools); err != nil {
		return fmt.Errorf("pools: %w", err)
	}
	for name, state := range pools {
		for _, member := range []string{"declared", "configured", "active", "queued"} {
			if !jsonUnsigned(state[member]) {
				return fmt.Errorf("pools: pool %.80q: %s is missing or no unsigned number", name, member)
			}
		}
		if available, there := state["available"]; there && !jsonUnsigned(available) {
			return fmt.Errorf("pools: pool %.80q: available is no unsigned number", name)
		}
		if caps, there := state["caps"]; there {
			var urns []string
			if err := json.Unmarshal(caps, &urns); err != nil {
				return fmt.Errorf("pools: pool %.80q: caps is no array of texts", name)
			}
		}
	}
	return nil
}

// jsonObject decodes raw, which must be one JSON object, into the map that to points at.
func jsonObject[V any](raw []byte, to *map[string]V) error {
	if err := json.Unmarshal(raw, to); err != nil {
		return err
	}
	if *to == nil {
		return errors.New("null, want an object")
	}
	return nil
}

// jsonUnsigned reports whether raw is a JSON number without sign, fraction and exponent that fits 64 bits.
func jsonUnsigned(raw json.RawMessage) bool {
	var n uint64
	return !bytes.Equal(raw, []byte("null")) && json.Unmarshal(raw, &n) == nil
}
