package feed

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func count(n uint64) *uint64 { return &n }

// params makes the parameters of a selector from a JSON object.
func params(tb testing.TB, text string) map[string]json.RawMessage {
	tb.Helper()
	var p map[string]json.RawMessage
	require.NoError(tb, json.Unmarshal([]byte(text), &p))
	return p
}

// wantFailure checks identity and text of a failure.
func wantFailure(tb testing.TB, err error, code string, class failure.Class, words ...string) {
	tb.Helper()
	require.Error(tb, err)
	f := failure.From(err)
	assert.Equal(tb, code, f.Code)
	assert.Equal(tb, class, f.Class)
	for _, word := range words {
		assert.Contains(tb, f.Message, word)
	}
}

func TestParseSelector(t *testing.T) {
	t.Run("R-9.10 all members", func(t *testing.T) {
		s, err := ParseSelector([]byte(` {"stop":{"max_items":3,"duration_ms":18446744073709551615},"on_overrun":"fail",
			"device":"mic\u00fc","params":{"ring":5,"x":{"b":1,"a":null}}} `))
		require.NoError(t, err)
		assert.Equal(t, Selector{Device: "micü", OnOverrun: Fail,
			Params: map[string]json.RawMessage{"ring": json.RawMessage(`5`), "x": json.RawMessage(`{"b":1,"a":null}`)},
			Stop:   Stop{DurationMS: count(1<<64 - 1), MaxItems: count(3)}}, s)
	})
	t.Run("R-9.10 each member is optional", func(t *testing.T) {
		for text, want := range map[string]Selector{
			`{"device":"mic0"}`:            {Device: "mic0"},
			`{"params":{}}`:                {},
			`{"params":{"items":4}}`:       {Params: params(t, `{"items":4}`)},
			`{"stop":{}}`:                  {},
			`{"stop":{"max_items":0}}`:     {Stop: Stop{MaxItems: count(0)}},
			`{"stop":{"duration_ms":0}}`:   {Stop: Stop{DurationMS: count(0)}},
			`{"on_overrun":"drop-oldest"}`: {OnOverrun: DropOldest},
			`{"on_overrun":"fail"}`:        {OnOverrun: Fail},
		} {
			s, err := ParseSelector([]byte(text))
			require.NoError(t, err, text)
			assert.Equal(t, want, s, text)
		}
	})
	t.Run("R-9.11 empty, blank and {} are all defaults", func(t *testing.T) {
		for _, text := range []string{"", " \t\r\n", "{}", " { } "} {
			s, err := ParseSelector([]byte(text))
			require.NoError(t, err, "%q", text)
			assert.Equal(t, Selector{}, s, "%q", text)
		}
	})
	for name, text := range map[string]string{
		"unknown member":                      `{"devise":"mic0"}`,
		"unknown member of stop":              `{"stop":{"duration":1000}}`,
		"another unknown member of stop":      `{"stop":{"max_item":3}}`,
		"not JSON":                            `{not json`,
		"the case of a name counts":           `{"Device":"mic0"}`,
		"a member twice":                      `{"device":"a","device":"b"}`,
		"a param twice":                       `{"params":{"ring":1,"ring":2}}`,
		"a stop condition twice":              `{"stop":{"max_items":1,"max_items":1}}`,
		"device is a number":                  `{"device":1}`,
		"device is null":                      `{"device":null}`,
		"params is an array":                  `{"params":[]}`,
		"params is null":                      `{"params":null}`,
		"stop is a number":                    `{"stop":1}`,
		"max_items is negative":               `{"stop":{"max_items":-1}}`,
		"max_items is a fraction":             `{"stop":{"max_items":1.5}}`,
		"max_items has an exponent":           `{"stop":{"max_items":1e3}}`,
		"max_items is a string":               `{"stop":{"max_items":"3"}}`,
		"max_items is above 64 bit":           `{"stop":{"max_items":18446744073709551616}}`,
		"duration_ms is null":                 `{"stop":{"duration_ms":null}}`,
		"on_overrun is unknown":               `{"on_overrun":"drop-newest"}`,
		"on_overrun is a boolean":             `{"on_overrun":true}`,
		"trailing data":                       `{} {}`,
		"trailing bracket":                    `{}}`,
		"cut":                                 `{"stop":{"max_items":3`,
		"an array":                            `[]`,
		"a string":                            `"device"`,
		"null":                                `null`,
		"a number":                            `1`,
		"invalid UTF-8 in a string":           "{\"device\":\"\xff\"}",
		"invalid UTF-8 only":                  "\xff",
		"invalid UTF-8 that would be a blank": "\xa0",
	} {
		t.Run("R-9.12 "+name, func(t *testing.T) {
			s, err := ParseSelector([]byte(text))
			wantFailure(t, err, failure.FeedSelector, failure.Input, "selector")
			assert.Equal(t, Selector{}, s)
		})
	}
	t.Run("R-9.12 messages name the member and what it should be", func(t *testing.T) {
		for text, words := range map[string][]string{
			`{"devise":"mic0"}`:                            {`"devise"`, "device"},
			`{"stop":{"max_item":3}}`:                      {"stop.max_item", "max_items"},
			`{"stop":{"max_items":-1}}`:                    {"stop.max_items", "-1", "from 0 on"},
			`{"on_overrun":"x"}`:                           {"on_overrun", `"fail"`, `"drop-oldest"`},
			`{"device":"a","device":"b"}`:                  {"device", "twice"},
			`{"` + strings.Repeat("name ", 1000) + `":""}`: {"name name", "…"},
		} {
			_, err := ParseSelector([]byte(text))
			wantFailure(t, err, failure.FeedSelector, failure.Input, words...)
			assert.Less(t, len(err.Error()), 300)
		}
	})
	t.Run("R-9.12 the result is the caller's alone", func(t *testing.T) {
		text := []byte(`{"params":{"ring":7}}`)
		s, err := ParseSelector(text)
		require.NoError(t, err)
		clear(text)
		assert.Equal(t, params(t, `{"ring":7}`), s.Params)
	})
}

func TestEncodeSelector(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
	}{
		"defaults are left out": {`{"device":"","params":{},"stop":{},"on_overrun":"drop-oldest"}`, `{}`},
		"members are sorted":    {`{"stop":{"max_items":1,"duration_ms":2},"params":{"b":1,"a":2},"on_overrun":"fail","device":"d"}`, `{"device":"d","on_overrun":"fail","params":{"a":2,"b":1},"stop":{"duration_ms":2,"max_items":1}}`},
		"zero is no default":    {`{"stop":{"max_items":0}}`, `{"stop":{"max_items":0}}`},
		"inner order, spelling": {`{"params":{"x":{"b":[1, {"d":1,"c":2}],"a":"\u00fc<&>"}}}`, `{"params":{"x":{"a":"ü<&>","b":[1,{"c":2,"d":1}]}}}`},
		"numbers stay":          {`{"params":{"x":1.50e300, "y":18446744073709551617}}`, `{"params":{"x":1.50e300,"y":18446744073709551617}}`},
	} {
		t.Run("R-9.11 "+name, func(t *testing.T) {
			s, err := ParseSelector([]byte(c.text))
			require.NoError(t, err)
			got, err := s.Encode()
			require.NoError(t, err)
			assert.Equal(t, c.want, string(got))
		})
	}
	t.Run("R-9.11 the transcript's selector is canonical", func(t *testing.T) {
		for _, f := range transcript(t, "unbounded-close-stream") {
			if f.Type != frame.TypeChunk || string(f.StreamID) != "arg0" {
				continue
			}
			value, err := frame.DecodeValue(f.Payload)
			require.NoError(t, err)
			s, err := ParseSelector(value.([]byte))
			require.NoError(t, err)
			assert.Equal(t, params(t, `{"items":1000,"interval_ms":10}`), s.Params)
			again, err := s.Encode()
			require.NoError(t, err)
			assert.Equal(t, string(value.([]byte)), string(again))
			return
		}
		t.Fatal("the transcript has no selector")
	})
	t.Run("R-9.11 what cannot be written is an error", func(t *testing.T) {
		for _, s := range []Selector{
			{Device: "\xff"},
			{OnOverrun: 7},
			{Params: map[string]json.RawMessage{"x": json.RawMessage(`{`)}},
			{Params: map[string]json.RawMessage{"x": nil}},
			{Params: map[string]json.RawMessage{"x": json.RawMessage(`1 2`)}},
			{Params: map[string]json.RawMessage{"x": json.RawMessage("\"\xff\"")}},
		} {
			_, err := s.Encode()
			wantFailure(t, err, failure.FeedSelector, failure.Input, "selector")
		}
	})
	t.Run("R-9.11 equal selectors are equal bytes", rapid.MakeCheck(func(t *rapid.T) {
		s := selectors().Draw(t, "selector")
		first, err := s.Encode()
		require.NoError(t, err)
		parsed, err := ParseSelector(first)
		require.NoError(t, err)
		assert.Equal(t, s, parsed)
		second, err := parsed.Encode()
		require.NoError(t, err)
		assert.Equal(t, string(first), string(second))
	}))
}

func selectors() *rapid.Generator[Selector] {
	return rapid.Custom(func(t *rapid.T) Selector {
		s := Selector{Device: rapid.String().Draw(t, "device"), OnOverrun: rapid.SampledFrom([]OverrunPolicy{DropOldest, Fail}).Draw(t, "policy")}
		values := rapid.SampledFrom([]string{`1`, `"x"`, `null`, `[1,2]`, `{"a":1}`, `false`})
		for name, value := range rapid.MapOfN(rapid.String(), values, 0, 3).Draw(t, "params") {
			if s.Params == nil {
				s.Params = map[string]json.RawMessage{}
			}
			s.Params[name] = json.RawMessage(value)
		}
		s.Stop.DurationMS = rapid.Ptr(rapid.Uint64(), true).Draw(t, "duration_ms")
		s.Stop.MaxItems = rapid.Ptr(rapid.Uint64(), true).Draw(t, "max_items")
		return s
	})
}

// FuzzParseSelector: any bytes are a failure of, or a selector whose canonical spelling says the same.
func FuzzParseSelector(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"devise":"mic0"}`, `{"stop":{"duration":1000}}`, `{not json`, `{"device":"d","on_overrun":"fail",
		"params":{"a":{"b":[1]},"ring":2},"stop":{"duration_ms":1,"max_items":2}}`, `{"device":"\ud800"}`, "\xff"} {
		f.Add([]byte(seed))
	}
	for _, fr := range transcript(f, "unbounded-close-stream") {
		if v, err := frame.DecodeValue(fr.Payload); err == nil {
			if b, ok := v.([]byte); ok {
				f.Add(b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseSelector(b)
		if err != nil {
			wantFailure(t, err, failure.FeedSelector, failure.Input, "selector")
			return
		}
		canonical, err := s.Encode()
		require.NoError(t, err)
		again, err := ParseSelector(canonical)
		require.NoError(t, err, "%s", canonical)
		twice, err := again.Encode()
		require.NoError(t, err)
		assert.Equal(t, string(canonical), string(twice))
		assert.Equal(t, s.Stop, again.Stop)
		assert.Equal(t, s.Device, again.Device)
		assert.Equal(t, s.OnOverrun, again.OnOverrun)
		assert.Len(t, again.Params, len(s.Params))
	})
}

// transcript reads the frames of a golden transcript.
func transcript(tb testing.TB, name string) []frame.Frame {
	tb.Helper()
	text, err := os.ReadFile("../../test/vectors/transcripts.json")
	require.NoError(tb, err)
	var all []struct {
		Name   string
		Frames []struct{ Hex hexBytes }
	}
	require.NoError(tb, json.Unmarshal(text, &all))
	for _, tr := range all {
		if tr.Name != name {
			continue
		}
		var frames []frame.Frame
		for _, row := range tr.Frames {
			var f frame.Frame
			require.NoError(tb, frame.Decode(row.Hex[frame.PrefixSize:], &f))
			frames = append(frames, f)
		}
		return frames
	}
	tb.Fatalf("no transcript %q", name)
	return nil
}
