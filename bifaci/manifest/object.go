package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"
)

// object is a JSON object cut into its members, each still as text. Its methods read one member each and note a fault
// when it is missing or has the wrong type; they return zero values then. A missing member is only a fault for the
// methods that say so.
type object struct {
	where    string // for faults
	members  map[string]json.RawMessage
	keys     []string // in the order of the text
	problems *Problems
}

// parseObject cuts b, which is one JSON value with nothing behind it. A key that is there twice is a fault, because
// readers of JSON disagree about which one counts.
func parseObject(b []byte) (keys []string, members map[string]json.RawMessage, err error) {
	if !utf8.Valid(b) {
		return nil, nil, errors.New("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if open, err := dec.Token(); err != nil {
		return nil, nil, cut(err)
	} else if open != json.Delim('{') {
		return nil, nil, errors.New("not a JSON object")
	}
	members = map[string]json.RawMessage{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, nil, cut(err)
		}
		key, _ := token.(string) // the decoder lets nothing else stand here
		if _, twice := members[key]; twice {
			return nil, nil, fmt.Errorf("key %q is there twice", key)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, nil, cut(err)
		}
		members[key] = value
		keys = append(keys, key)
	}
	if _, err := dec.Token(); err != nil {
		return nil, nil, cut(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("something follows the JSON object")
	}
	return keys, members, nil
}

// cut says of an end of input inside the object that it is one.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// newObject reads an object inside the manifest. What is no object is a fault with the code.
func newObject(raw json.RawMessage, where string, code Code, problems *Problems) (object, bool) {
	if !isObject(raw) {
		problems.add(code, where, "%s is not an object", brief(raw))
		return object{}, false
	}
	keys, members, err := parseObject(raw)
	if err != nil {
		problems.addErr(CodeJSON, where, "not readable", err)
		return object{}, false
	}
	return object{where, members, keys, problems}, true
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// brief is a value as faults quote it: without blanks that mean nothing, and cut.
func brief(raw json.RawMessage) string {
	const most = 40
	var compact bytes.Buffer
	if json.Compact(&compact, raw) == nil {
		raw = compact.Bytes()
	}
	if len(raw) <= most {
		return string(raw)
	}
	return string(bytes.ToValidUTF8(raw[:most], nil)) + "…"
}

// unknown returns the first key that is not among the known ones.
func (o object) unknown(known ...string) (string, bool) {
	i := slices.IndexFunc(o.keys, func(k string) bool { return !slices.Contains(known, k) })
	if i < 0 {
		return "", false
	}
	return o.keys[i], true
}

func (o object) fault(key, format string, args ...any) {
	o.problems.add(CodeField, o.where, "%s %s", key, fmt.Sprintf(format, args...))
}

// require returns the member, or notes that it is missing.
func (o object) require(key, what string) (json.RawMessage, bool) {
	raw, ok := o.members[key]
	if !ok {
		o.fault(key, "is missing; it is required and is %s", what)
	}
	return raw, ok
}

// optional returns the member unless it is missing or null.
func (o object) optional(key string) (json.RawMessage, bool) {
	raw, ok := o.members[key]
	return raw, ok && !isNull(raw)
}

// requiredText reads a string that must be there.
func (o object) requiredText(key string) string {
	raw, ok := o.require(key, "a string")
	if !ok {
		return ""
	}
	s, _ := o.asText(key, raw)
	return s
}

// text reads a string; null counts as absent.
func (o object) text(key string) (s string, ok bool) {
	raw, ok := o.optional(key)
	if !ok {
		return "", false
	}
	return o.asText(key, raw)
}

// asText reads a string that is called key in faults.
func (o object) asText(key string, raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		o.fault(key, "is %s, not a string", brief(raw))
		return "", false
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		o.fault(key, "is %s, not a string", brief(raw))
		return "", false
	}
	return s, true
}

// boolean reads true or false; absent is false.
func (o object) boolean(key string) bool {
	raw, ok := o.members[key]
	if !ok {
		return false
	}
	return o.asBoolean(key, raw)
}

func (o object) asBoolean(key string, raw json.RawMessage) bool {
	switch string(raw) {
	case "true":
		return true
	case "false":
	default:
		o.fault(key, "is %s, not true or false", brief(raw))
	}
	return false
}

// unsigned reads an integer from 0 on; absent is 0.
func (o object) unsigned(key string) uint64 {
	raw, ok := o.members[key]
	if !ok {
		return 0
	}
	return o.asUnsigned(key, raw)
}

func (o object) asUnsigned(key string, raw json.RawMessage) uint64 {
	n, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil {
		o.fault(key, "is %s, not an integer from 0 on", brief(raw))
		return 0
	}
	return n
}

// array reads an array of anything; absent is empty.
func (o object) array(key string) []json.RawMessage {
	raw, ok := o.members[key]
	if !ok {
		return nil
	}
	return o.asArray(key, raw)
}

func (o object) asArray(key string, raw json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	if len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
		o.fault(key, "is %s, not an array", brief(raw))
		return nil
	}
	return list
}

// texts reads an array of strings; absent is empty.
func (o object) texts(key string) []string {
	var texts []string
	for i, raw := range o.array(key) {
		if s, ok := o.asText(fmt.Sprintf("%s[%d]", key, i), raw); ok {
			texts = append(texts, s)
		}
	}
	return texts
}

// object reads an object; null counts as absent.
func (o object) object(key string) (object, bool) {
	raw, ok := o.optional(key)
	if !ok {
		return object{}, false
	}
	return newObject(raw, within(o.where, key), CodeField, o.problems)
}
