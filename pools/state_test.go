package pools_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pipe-cartridge/pipe/pools"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func ptr(n uint64) *uint64 { return &n }

func TestStatesJSON(t *testing.T) {
	t.Run("R-5.40 names sorted, members in order, compact", func(t *testing.T) {
		r := newRig(t, []string{"cap:b", "cap:a<&>"}, pools.Declarations{
			Pools:      map[string][]string{"gpu": {"cap:b", "cap:a<&>"}},
			Capacities: map[string]uint64{"gpu": 1},
		})
		r.available("all", 7)
		r.arrive("cap:b", "1")
		r.arrive("cap:b", "2")
		got, err := r.table.Snapshot().Encode()
		require.NoError(t, err)
		want := `{"all":{"declared":0,"configured":0,"available":7,"active":1,"queued":0,"caps":["cap:a<&>","cap:b"]},` +
			`"cap:a<&>":{"declared":0,"configured":0,"active":0,"queued":0},` +
			`"cap:b":{"declared":0,"configured":0,"active":1,"queued":1},` +
			`"gpu":{"declared":1,"configured":1,"active":1,"queued":1,"caps":["cap:b","cap:a<&>"]}}`
		assert.Equal(t, want, string(got))
	})
	t.Run("R-5.41 available 0 and absent stay different", func(t *testing.T) {
		in := pools.States{"a": {Available: ptr(0)}, "b": {}}
		b, err := in.Encode()
		require.NoError(t, err)
		assert.Equal(t, `{"a":{"declared":0,"configured":0,"available":0,"active":0,"queued":0},`+
			`"b":{"declared":0,"configured":0,"active":0,"queued":0}}`, string(b))
		out, err := pools.DecodeStates(b)
		require.NoError(t, err)
		assert.Equal(t, in, out)
	})
	t.Run("nil is the empty map", func(t *testing.T) {
		b, err := json.Marshal(pools.States(nil))
		require.NoError(t, err)
		assert.Equal(t, "{}", string(b))
	})
	t.Run("the standard decoder is as strict", func(t *testing.T) {
		var s pools.States
		assert.ErrorContains(t, json.Unmarshal([]byte(`{"a":{}}`), &s), `member "declared" is missing`)
		require.NoError(t, json.Unmarshal([]byte(`{"a":{"declared":1,"configured":2,"active":3,"queued":4}}`), &s))
		assert.Equal(t, pools.States{"a": {Declared: 1, Configured: 2, Active: 3, Queued: 4}}, s)
	})
}

func TestDecodeStates(t *testing.T) {
	t.Run("R-5.40 members in any order, unknown ones ignored", func(t *testing.T) {
		got, err := pools.DecodeStates([]byte(` { "p" : {"queued":4,"x":[1,{"declared":9}],"caps":["cap:a"],"active":18446744073709551615,` +
			`"configured":2,"available":null,"declared":1} } `))
		require.NoError(t, err)
		assert.Equal(t, pools.States{"p": {
			Declared: 1, Configured: 2, Active: 18446744073709551615, Queued: 4, Caps: []string{"cap:a"},
		}}, got)
	})
	full := `{"declared":1,"configured":2,"active":3,"queued":4}`
	for name, c := range map[string]struct{ in, want string }{
		"empty input":            {``, "unexpected EOF"},
		"cut":                    {`{"p":` + full, "unexpected EOF"},
		"cut in a value":         {`{"p":{"declared":`, "unexpected EOF"},
		"array":                  {`[]`, "not a JSON object"},
		"null":                   {`null`, "not a JSON object"},
		"something behind":       {`{} x`, "follows"},
		"second object":          {`{}{}`, "follows"},
		"not UTF-8":              {"{\"\xff\":" + full + "}", "not UTF-8"},
		"pool twice":             {`{"p":` + full + `,"\u0070":` + full + `}`, `"p" is there twice`},
		"member twice":           {`{"p":{"declared":1,"declared":1,"configured":2,"active":3,"queued":4}}`, `"declared" is there twice`},
		"state is null":          {`{"p":null}`, `pool "p": not a JSON object`},
		"declared missing":       {`{"p":{"configured":2,"active":3,"queued":4}}`, `"declared" is missing`},
		"configured missing":     {`{"p":{"declared":2,"active":3,"queued":4}}`, `"configured" is missing`},
		"active missing":         {`{"p":{"declared":2,"configured":3,"queued":4}}`, `"active" is missing`},
		"queued missing":         {`{"p":{"declared":2,"configured":3,"active":4}}`, `"queued" is missing`},
		"negative":               {strings.Replace(`{"p":`+full+`}`, ":1", ":-1", 1), "declared: -1 is not an unsigned integer"},
		"fraction":               {strings.Replace(`{"p":`+full+`}`, ":2", ":2.0", 1), "configured: 2.0 is not an unsigned integer"},
		"text":                   {strings.Replace(`{"p":`+full+`}`, ":3", `:"3"`, 1), "active"},
		"above 2^64":             {strings.Replace(`{"p":`+full+`}`, ":4", ":18446744073709551616", 1), "queued"},
		"null where required":    {strings.Replace(`{"p":`+full+`}`, ":4", ":null", 1), "queued"},
		"available fraction":     {strings.Replace(`{"p":`+full+`}`, "}", `,"available":0.5}`, 1), "available"},
		"caps is text":           {strings.Replace(`{"p":`+full+`}`, "}", `,"caps":"cap:a"}`, 1), "caps: not an array of strings"},
		"caps is null":           {strings.Replace(`{"p":`+full+`}`, "}", `,"caps":null}`, 1), "caps: not an array of strings"},
		"caps with a number":     {strings.Replace(`{"p":`+full+`}`, "}", `,"caps":[1]}`, 1), "caps: not an array of strings"},
		"caps with a null":       {strings.Replace(`{"p":`+full+`}`, "}", `,"caps":["a",null]}`, 1), "element 1 is null"},
		"member spelled in caps": {strings.Replace(`{"p":`+full+`}`, "declared", "Declared", 1), `"declared" is missing`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := pools.DecodeStates([]byte(c.in))
			assert.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, "decode pool states: ")
			assert.Nil(t, got)
		})
	}
}

func TestDecodeDesired(t *testing.T) {
	t.Run("R-5.20 a JSON object of unsigned integers", func(t *testing.T) {
		got, err := pools.DecodeDesired([]byte(`{"gpu":2,"all":0}`))
		require.NoError(t, err)
		assert.Equal(t, pools.Desired{"gpu": 2, "all": 0}, got)
	})
	for name, c := range map[string]struct{ in, want string }{
		"null":     {`null`, "not a JSON object"},
		"negative": {`{"gpu":1,"all":-1}`, `pool "all": -1 is not an unsigned integer`},
		"null in":  {`{"gpu":null}`, "null is not an unsigned integer"},
		"fraction": {`{"gpu":1.5}`, "unsigned"},
		"exponent": {`{"gpu":1e3}`, "unsigned"},
		"true":     {`{"gpu":true}`, "unsigned"},
		"twice":    {`{"gpu":1,"gpu":1}`, "twice"},
		"cut":      {`{"gpu":1,`, "unexpected EOF"},
		"garbage":  {`{"gpu" 1}`, "expected colon"},
	} {
		t.Run("R-5.20 refuses "+name, func(t *testing.T) {
			got, err := pools.DecodeDesired([]byte(c.in))
			assert.ErrorContains(t, err, c.want)
			assert.Nil(t, got)
		})
	}
}

func TestDeclarations(t *testing.T) {
	patterns := []string{"cap:b", "cap:a"}
	t.Run("states from the declarations alone", func(t *testing.T) {
		got, err := gpu().States(patterns)
		require.NoError(t, err)
		assert.Equal(t, pools.States{
			"cap:a": {}, "cap:b": {},
			"gpu": {Declared: 1, Configured: 1, Caps: []string{"cap:b", "cap:a"}},
			"all": {Declared: 8, Configured: 8, Caps: []string{"cap:a", "cap:b"}},
		}, got)
	})
	t.Run("zero value", func(t *testing.T) {
		assert.True(t, pools.Declarations{}.IsZero())
		assert.False(t, gpu().IsZero())
		assert.NoError(t, pools.Declarations{}.Validate(nil))
	})
	for name, c := range map[string]struct {
		d    pools.Declarations
		pool string
		want string
	}{
		"named all":          {pools.Declarations{Pools: map[string][]string{"all": {"cap:a"}}}, "all", "exists already"},
		"named like a cap":   {pools.Declarations{Pools: map[string][]string{"cap:a": {"cap:a"}}}, "cap:a", "own pool"},
		"without members":    {pools.Declarations{Pools: map[string][]string{"p": {}}}, "p", "at least one member"},
		"unknown member":     {pools.Declarations{Pools: map[string][]string{"p": {"cap:a", "cap:c"}}}, "p", "member cap:c is not one of the caps"},
		"member twice":       {pools.Declarations{Pools: map[string][]string{"p": {"cap:a", "cap:a"}}}, "p", "member cap:a is there twice"},
		"unknown capacity":   {pools.Declarations{Capacities: map[string]uint64{"all": 1, "p": 1}}, "p", "a capacity belongs to"},
		"first name in turn": {pools.Declarations{Pools: map[string][]string{"q": {}, "p": {}}}, "p", "at least one member"},
	} {
		t.Run("R-1.31 refuses "+name, func(t *testing.T) {
			_, err := pools.NewTable(patterns, c.d)
			var bad *pools.DeclarationError
			require.ErrorAs(t, err, &bad)
			assert.Equal(t, c.pool, bad.Pool)
			assert.ErrorContains(t, err, c.want)
			_, err = c.d.States(patterns)
			assert.ErrorAs(t, err, &bad)
		})
	}
	t.Run("a pattern is registered once and is not all", func(t *testing.T) {
		for _, bad := range [][]string{{"cap:a", "cap:a"}, {"all"}} {
			_, err := pools.NewTable(bad, pools.Declarations{})
			assert.Error(t, err)
		}
	})
	t.Run("the table does not share the declared slices", func(t *testing.T) {
		d := gpu()
		r := newRig(t, patterns, d)
		d.Pools["gpu"][0] = "cap:x"
		assert.Equal(t, []string{"cap:b", "cap:a"}, r.table.Snapshot()["gpu"].Caps)
	})
}
