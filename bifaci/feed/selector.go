package feed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

// OverrunPolicy is what happens when an item is captured while the ring is full.
type OverrunPolicy uint8

const (
	// DropOldest discards the oldest item in the ring. It is the default.
	DropOldest OverrunPolicy = iota
	// Fail ends the feed with FEED_OVERRUN.
	Fail
)

// String is the policy's name in a selector.
func (p OverrunPolicy) String() string {
	switch p {
	case DropOldest:
		return "drop-oldest"
	case Fail:
		return "fail"
	}
	return "OverrunPolicy(" + strconv.Itoa(int(p)) + ")"
}

// Stop says when capture stops by itself; whichever comes first. nil is no limit.
type Stop struct {
	DurationMS *uint64 // milliseconds since the device was opened; 0 captures nothing
	MaxItems   *uint64 // captured items, lost ones included; 0 captures nothing
}

// Selector is the value of a live-feed reference. The zero value is all defaults.
type Selector struct {
	Device    string                     // which one of several devices; empty is the usual one
	Params    map[string]json.RawMessage // the backend's, and "ring" for every backend; each value is JSON
	Stop      Stop
	OnOverrun OverrunPolicy
}

// ParseSelector reads the bytes of a reference stream: nothing or blanks for all defaults, else one JSON object.
// It is strict: unknown members, members that are there twice, wrong types (null is one), trailing data and
// invalid UTF-8 are errors, which have the code FEED_SELECTOR, the class input and the word "selector" in the message.
// What stands in params is judged when the feed is opened. The result does not alias b.
func ParseSelector(b []byte) (Selector, error) {
	var s Selector
	if !utf8.Valid(b) {
		return s, selectorf("not UTF-8")
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return s, nil
	}
	var whole json.RawMessage
	if err := json.Unmarshal(b, &whole); err != nil { // a syntax error, or trailing data
		return s, selectorf("not one JSON object: %w", err)
	}
	err := eachMember(whole, "", func(name string, value json.RawMessage) error {
		switch name {
		case "device":
			return readText(name, value, &s.Device)
		case "on_overrun":
			return s.OnOverrun.read(value)
		case "params":
			return s.readParams(value)
		case "stop":
			return s.Stop.read(value)
		}
		return selectorf("unknown member %q, want device, on_overrun, params or stop", quotable(name))
	})
	if err != nil {
		return Selector{}, err
	}
	return s, nil
}

func (s *Selector) readParams(value json.RawMessage) error {
	params := map[string]json.RawMessage{}
	err := eachMember(value, "params", func(name string, value json.RawMessage) error {
		params[name] = value
		return nil
	})
	if len(params) > 0 { // absent and empty are the same selector
		s.Params = params
	}
	return err
}

func (s *Stop) read(value json.RawMessage) error {
	return eachMember(value, "stop", func(name string, value json.RawMessage) error {
		switch name {
		case "duration_ms":
			return readCount("stop.duration_ms", value, &s.DurationMS)
		case "max_items":
			return readCount("stop.max_items", value, &s.MaxItems)
		}
		return selectorf("unknown member stop.%s, want duration_ms or max_items", quotable(name))
	})
}

func (p *OverrunPolicy) read(value json.RawMessage) error {
	var name string
	if err := readText("on_overrun", value, &name); err != nil {
		return err
	}
	for _, known := range []OverrunPolicy{DropOldest, Fail} {
		if name == known.String() {
			*p = known
			return nil
		}
	}
	return selectorf("on_overrun is %q, want %q or %q", quotable(name), DropOldest, Fail)
}

// eachMember calls visit with the members of a JSON object, in the order of the text; raw is valid JSON. Names count
// with their case, and each may be there once: readers of JSON disagree about which of two counts.
func eachMember(raw json.RawMessage, where string, visit func(name string, value json.RawMessage) error) error {
	if where == "" {
		where = "it"
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return selectorf("%s is %s, not a JSON object", where, quotable(string(bytes.TrimSpace(raw))))
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return selectorf("%s: %w", where, err)
		}
		name, _ := token.(string) // valid JSON has nothing else here
		if seen[name] {
			return selectorf("member %q of %s is there twice", quotable(name), where)
		}
		seen[name] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return selectorf("%s: %w", where, err)
		}
		if err := visit(name, value); err != nil {
			return err
		}
	}
	return nil
}

func readText(name string, value json.RawMessage, to *string) error {
	if len(value) == 0 || value[0] != '"' { // Unmarshal would take null
		return selectorf("%s is %s, want a string", name, quotable(string(value)))
	}
	if err := json.Unmarshal(value, to); err != nil {
		return selectorf("%s: %w", name, err)
	}
	return nil
}

func readCount(name string, value json.RawMessage, to **uint64) error {
	n, err := strconv.ParseUint(string(value), 10, 64)
	if err != nil {
		return selectorf("%s is %s, want an integer from 0 on", name, quotable(string(value)))
	}
	*to = &n
	return nil
}

// Encode is the canonical spelling: members in sorted order at every level, no blanks, defaults left out, so
// that equal selectors are equal bytes; all defaults are {}. Numbers in params stay as they are written. It fails if a
// param is not JSON, and for what no text can hold: a policy that does not exist, a device that is not UTF-8.
func (s Selector) Encode() ([]byte, error) {
	if !utf8.ValidString(s.Device) {
		return nil, selectorf("device %q is not UTF-8", quotable(s.Device))
	}
	members := map[string]any{}
	if s.Device != "" {
		members["device"] = s.Device
	}
	switch s.OnOverrun {
	case DropOldest:
	case Fail:
		members["on_overrun"] = s.OnOverrun.String()
	default:
		return nil, selectorf("on_overrun is %v, want %v or %v", s.OnOverrun, DropOldest, Fail)
	}
	if len(s.Params) > 0 {
		params := map[string]any{}
		for name, raw := range s.Params {
			value, err := sortable(raw)
			if err != nil {
				return nil, selectorf("params.%s: %w", quotable(name), err)
			}
			params[name] = value
		}
		members["params"] = params
	}
	stop := map[string]any{}
	if s.Stop.DurationMS != nil {
		stop["duration_ms"] = *s.Stop.DurationMS
	}
	if s.Stop.MaxItems != nil {
		stop["max_items"] = *s.Stop.MaxItems
	}
	if len(stop) > 0 {
		members["stop"] = stop
	}
	return encodeSorted(members)
}

// sortable decodes a JSON value into what is encoded again with sorted members. Numbers keep their spelling.
func sortable(raw json.RawMessage) (any, error) {
	if !utf8.Valid(raw) {
		return nil, fmt.Errorf("not UTF-8")
	}
	if !json.Valid(raw) {
		return nil, fmt.Errorf("%s is not JSON", quotable(string(raw)))
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	return value, dec.Decode(&value)
}

func encodeSorted(members map[string]any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(members); err != nil {
		return nil, selectorf("%w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// selectorf is the failure of.
func selectorf(format string, args ...any) *failure.Failure {
	return failure.Newf(failure.FeedSelector, failure.Input, "live-feed selector: "+format, args...)
}

// quotable cuts what a message quotes of foreign text.
func quotable(s string) string {
	const most = 40 // bytes
	if len(s) <= most {
		return s
	}
	return string(bytes.ToValidUTF8([]byte(s[:most]), nil)) + "…"
}
