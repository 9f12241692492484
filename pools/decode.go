package pools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// DecodeStates reads what [States.Encode] writes and what other runtimes write (spec/wire.md 12.3): one JSON object whose
// values have declared, configured, active and queued, each an unsigned integer below 2^64. available and caps are
// optional, other members are ignored, a member or pool that is there twice is an error. A null available is an absent one.
func DecodeStates(b []byte) (States, error) {
	states := States{}
	err := eachMember(b, func(name string, value []byte) error {
		state, err := decodeState(value)
		if err != nil {
			return fmt.Errorf("pool %q: %w", name, err)
		}
		states[name] = state
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("decode pool states: %w", err)
	}
	return states, nil
}

// DecodeDesired reads the operator's wish: one JSON object from pool name to an unsigned integer below 2^64. Whether the
// pools exist is judged by [Table.ApplyDesired].
func DecodeDesired(b []byte) (Desired, error) {
	desired := Desired{}
	err := eachMember(b, func(name string, value []byte) error {
		n, err := unsigned(value)
		if err != nil {
			return fmt.Errorf("pool %q: %w", name, err)
		}
		desired[name] = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("decode desired capacities: %w", err)
	}
	return desired, nil
}

func decodeState(b []byte) (State, error) {
	var (
		s       State
		missing = map[string]*uint64{
			"declared": &s.Declared, "configured": &s.Configured, "active": &s.Active, "queued": &s.Queued,
		}
	)
	err := eachMember(b, func(name string, value []byte) (err error) {
		switch name {
		case "declared", "configured", "active", "queued":
			*missing[name], err = unsigned(value)
			delete(missing, name)
		case "available":
			if bytes.Equal(value, []byte("null")) {
				return nil
			}
			var n uint64
			n, err = unsigned(value)
			s.Available = &n
		case "caps":
			s.Caps, err = texts(value)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return State{}, err
	}
	for _, name := range []string{"declared", "configured", "active", "queued"} {
		if _, absent := missing[name]; absent {
			return State{}, fmt.Errorf("member %q is missing", name)
		}
	}
	return s, nil
}

var errNotObject = errors.New("not a JSON object")

// eachMember calls f for every member of the JSON object that b consists of. The value handed to f is syntactically
// right JSON without blanks around it. A repeated name is an error, because readers of JSON disagree about which
// value counts.
func eachMember(b []byte, f func(name string, value []byte) error) error {
	if !utf8.Valid(b) {
		return errors.New("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if open, err := dec.Token(); err != nil {
		return syntax(err)
	} else if open != json.Delim('{') {
		return errNotObject
	}
	seen := map[string]struct{}{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return syntax(err)
		}
		name, ok := token.(string)
		if !ok {
			return errNotObject
		}
		if _, twice := seen[name]; twice {
			return fmt.Errorf("member %q is there twice", name)
		}
		seen[name] = struct{}{}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return syntax(err)
		}
		if err := f(name, value); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil { // the closing brace
		return syntax(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON object")
	}
	return nil
}

// syntax says of an end of input inside the object that it is one.
func syntax(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func unsigned(b []byte) (uint64, error) {
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40s is not an unsigned integer below 2^64", b)
	}
	return n, nil
}

func texts(b []byte) ([]string, error) {
	var list []*string
	if err := json.Unmarshal(b, &list); err != nil || list == nil {
		return nil, errors.New("not an array of strings")
	}
	var out []string
	for i, s := range list {
		if s == nil {
			return nil, fmt.Errorf("element %d is null, not a string", i)
		}
		out = append(out, *s)
	}
	return out, nil
}
