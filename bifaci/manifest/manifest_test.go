package manifest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/pools"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// full uses every field.
func full() *manifest.Manifest {
	upper := manifest.NewCap(`cap:upper;in="media:enc=utf-8";out="media:enc=utf-8"`, "Upper", "upper").
		WithAliases("uc", "upper", "up").
		Describe("Letters <made> great").
		Document("# Upper").
		WithMetadata("b", "2").WithMetadata("a", "1").
		WithArgs(
			manifest.NewArg("media:enc=utf-8", true, manifest.Stdin("media:enc=utf-8"), manifest.Slot(0)).
				Streaming(true).Sequence(true).Describe("Text & more"),
			manifest.NewArg("media:options;fmt=json", false, manifest.CLIFlag("--options"), manifest.FilePath("media:options;fmt=json")).
				Default(map[string]any{"k": []int{1, 2}}),
		).
		WithOutput(manifest.NewOutput("media:enc=utf-8", "Upper case").Streaming(true).Sequence(true))
	upper.Version = 7
	upper.Abstract = true
	upper.MetadataJSON = json.RawMessage(` {"z": 1, "a": [ null ]} `)
	upper.RegisteredBy = &manifest.Registration{Username: "u", RegisteredAt: "2026-01-01T00:00:00Z"}
	upper.SupportedModelTypes = []string{"llama"}
	upper.DefaultModelSpec = "hf:x"
	upper.Args[1].Metadata = json.RawMessage(`[1]`)
	upper.Output.Metadata = json.RawMessage(`true`)
	return manifest.New("full", "1.2.3", "Everything",
		manifest.DefaultGroup(manifest.NewCap("cap:effect=none", "Identity", "identity")),
		manifest.Group{Name: "text", Caps: []manifest.Cap{upper}}.WithAdapters("media:list;fmt=csv"),
	).
		WithAuthor("A. Uthor").WithPageURL("https://example.org").WithChannel(manifest.Release).
		WithRegistryURL("https://cartridges.machinefabric.com/v2/manifest").
		WithPools(pools.Declarations{
			Pools:      map[string][]string{"gpu": {`cap:out="media:enc=utf-8";upper;in="media:enc=utf-8"`}},
			Capacities: map[string]uint64{"all": 8, "gpu": 1},
		})
}

// fullJSON has the keys in the order of the specification (sections 2 to 4).
const fullJSON = `{"name":"full","version":"1.2.3","channel":"release",` +
	`"registry_url":"https://cartridges.machinefabric.com/v2/manifest","description":"Everything","cap_groups":[` +
	`{"name":"default","caps":[{"urn":"cap:effect=none","title":"Identity","slug":"identity","aliases":["identity"]}],"adapter_urns":[]},` +
	`{"name":"text","caps":[{"urn":"cap:in=\"media:enc=utf-8\";out=\"media:enc=utf-8\";upper","version":7,"title":"Upper","slug":"upper",` +
	`"aliases":["upper","uc","up"],"abstract":true,"cap_description":"Letters <made> great","documentation":"# Upper",` +
	`"metadata":{"a":"1","b":"2"},"args":[` +
	`{"media_urn":"media:enc=utf-8","required":true,"sources":[{"stdin":"media:enc=utf-8"},{"position":0}],"is_sequence":true,` +
	`"streaming":true,"arg_description":"Text & more"},` +
	`{"media_urn":"media:fmt=json;options","required":false,"sources":[{"cli_flag":"--options"},{"file_path":"media:fmt=json;options"}],` +
	`"is_sequence":false,"streaming":false,"default_value":{"k":[1,2]},"metadata":[1]}],` +
	`"output":{"media_urn":"media:enc=utf-8","output_description":"Upper case","is_sequence":true,"streaming":true,"metadata":true},` +
	`"metadata_json":{"z":1,"a":[null]},"registered_by":{"username":"u","registered_at":"2026-01-01T00:00:00Z"},` +
	`"supported_model_types":["llama"],"default_model_spec":"hf:x"}],"adapter_urns":["media:fmt=csv;list"]}],` +
	`"author":"A. Uthor","page_url":"https://example.org","pool_declarations":{` +
	`"pools":{"gpu":["cap:in=\"media:enc=utf-8\";out=\"media:enc=utf-8\";upper"]},"capacities":{"all":8,"gpu":1}}}`

func TestJSON(t *testing.T) {
	t.Run("every key in its place", func(t *testing.T) {
		require.NoError(t, full().Validate())
		got, err := full().JSON()
		require.NoError(t, err)
		assert.Equal(t, fullJSON, string(got))
	})
	t.Run("R-1.1 from a value and from its JSON, the same manifest", func(t *testing.T) {
		parsed, err := manifest.Parse([]byte(fullJSON))
		require.NoError(t, err)
		again, err := parsed.JSON()
		require.NoError(t, err)
		assert.Equal(t, fullJSON, string(again))
		built, err := json.Marshal(full())
		require.NoError(t, err)
		assert.JSONEq(t, fullJSON, string(built))
	})
	t.Run("R-1.6 channel and registry_url are always written", func(t *testing.T) {
		got, err := manifest.New("n", "1", "d", manifest.DefaultGroup()).JSON()
		require.NoError(t, err)
		assert.Equal(t, `{"name":"n","version":"1","channel":"nightly","registry_url":null,"description":"d",`+
			`"cap_groups":[{"name":"default","caps":[],"adapter_urns":[]}]}`, string(got))
	})
	t.Run("no groups is an empty array", func(t *testing.T) {
		got, err := manifest.New("n", "1", "d").JSON()
		require.NoError(t, err)
		assert.Contains(t, string(got), `"cap_groups":[]`)
	})
	t.Run("spellings that the author left are written canonically", func(t *testing.T) {
		m := manifest.New("n", "1", "", manifest.Group{Name: "g", AdapterURNs: []string{"media:b;a"}, Caps: []manifest.Cap{{
			URN: "cap:t;in=\"media:b;a\"", Args: []manifest.Arg{{MediaURN: "media:d;c"}}, Output: &manifest.Output{MediaURN: "media:f;e"},
		}}})
		got, err := m.JSON()
		require.NoError(t, err)
		for _, want := range []string{`"media:a;b"]`, `"cap:in=\"media:a;b\";t"`, `"media:c;d"`, `"media:e;f"`, `"sources":[]`} {
			assert.Contains(t, string(got), want)
		}
	})
	t.Run("faulty pools are written as they are", func(t *testing.T) {
		got, err := manifest.New("n", "1", "").WithPools(pools.Declarations{Capacities: map[string]uint64{"p": 1}}).JSON()
		require.NoError(t, err)
		assert.Contains(t, string(got), `"pool_declarations":{"capacities":{"p":1}}`)
	})
	t.Run("what has no JSON is an error", func(t *testing.T) {
		_, err := voidArgs(arg("media:a", manifest.Source{})).JSON()
		assert.ErrorContains(t, err, "argument media:a: sources[0]: not a source")
		_, err = voidArgs(arg("media:a").Default(func() {})).IndentedJSON()
		assert.ErrorContains(t, err, "argument media:a: default value: ")
	})
}

func TestIndent(t *testing.T) {
	t.Run("two spaces and a newline", func(t *testing.T) {
		got, err := manifest.New("n", "1", "<&>", manifest.DefaultGroup()).IndentedJSON()
		require.NoError(t, err)
		assert.Equal(t, "{\n  \"name\": \"n\",\n  \"version\": \"1\",\n  \"channel\": \"nightly\",\n  \"registry_url\": null,\n"+
			"  \"description\": \"<&>\",\n  \"cap_groups\": [\n    {\n      \"name\": \"default\",\n      \"caps\": [],\n"+
			"      \"adapter_urns\": []\n    }\n  ]\n}\n", string(got))
	})
	t.Run("R-1.5 unknown keys of the author's bytes survive", func(t *testing.T) {
		got, err := manifest.Indent([]byte(" {\"x\":1.0}\n"))
		require.NoError(t, err)
		assert.Equal(t, "{\n  \"x\": 1.0\n}\n", string(got))
	})
	t.Run("not JSON", func(t *testing.T) {
		_, err := manifest.Indent([]byte("{"))
		assert.Error(t, err)
	})
}

func TestBuildersCopy(t *testing.T) {
	base := manifest.NewCap("cap:t", "T", "t").WithMetadata("k", "1").WithAliases("a").WithArgs(arg("media:a"))
	left := base.WithMetadata("k", "2").WithAliases("b").WithArgs(arg("media:b"))
	right := base.WithAliases("c").WithArgs(arg("media:c"))
	assert.Equal(t, map[string]string{"k": "1"}, base.Metadata)
	assert.Equal(t, []string{"a", "b"}, left.Aliases)
	assert.Equal(t, []string{"a", "c"}, right.Aliases)
	assert.Equal(t, "media:b", left.Args[1].MediaURN)
	assert.Equal(t, "media:c", right.Args[1].MediaURN)
	assert.Nil(t, arg("media:a").Default(1).Default(nil).DefaultValue)
	group := manifest.DefaultGroup().WithAdapters("media:a")
	assert.NotEqual(t, group.WithAdapters("media:b").AdapterURNs, group.WithAdapters("media:c").AdapterURNs)
}

func TestLookup(t *testing.T) {
	m := manifest.New("n", "1", "", manifest.DefaultGroup(
		manifest.NewCap("cap:a", "A", "a").WithAliases("b", "x")), manifest.DefaultGroup(
		manifest.NewCap("cap:b", "B", "b").WithAliases("x"), manifest.NewCap("cap:c", "C", "b")))
	for word, want := range map[string]string{"a": "cap:a", "b": "cap:b", "x": "cap:a"} {
		c, ok := m.Lookup(word)
		require.True(t, ok, word)
		assert.Equal(t, want, c.URN, "R-2.12: slugs before aliases, first in manifest order")
	}
	for _, word := range []string{"A", "", "cap:a", "a "} {
		_, ok := m.Lookup(word)
		assert.False(t, ok, "%q", word)
	}
	c, _ := m.Lookup("a")
	c.Title = "changed"
	assert.Equal(t, "changed", m.Groups[0].Caps[0].Title, "the cap is the manifest's own")
	for range m.Caps() {
		break // leaving early is allowed
	}
}

func TestIdentityCap(t *testing.T) {
	m := manifest.New("n", "1", "", manifest.DefaultGroup(manifest.IdentityCap()))
	require.NoError(t, m.Validate())
	c := manifest.IdentityCap()
	assert.Equal(t, "cap:effect=none", c.URN)
	assert.Equal(t, "identity", c.Slug)
	main, ok := c.MainInput()
	require.True(t, ok)
	assert.True(t, main.Required)
	assert.Equal(t, "media:", main.StreamURN())
	assert.Equal(t, "media:", c.Output.MediaURN)
}

func TestSource(t *testing.T) {
	assert.Equal(t, manifest.Position(3), manifest.Slot(3), "two names of one thing")
	for _, c := range []struct {
		s              manifest.Source
		kind           manifest.SourceKind
		name, urn, flg string
		position       int
	}{
		{manifest.Stdin("media:b;a"), manifest.KindStdin, "stdin", "media:a;b", "", 0},
		{manifest.FilePath("media:b;a"), manifest.KindFilePath, "file_path", "media:a;b", "", 0},
		{manifest.CLIFlag("--x"), manifest.KindCLIFlag, "cli_flag", "", "--x", 0},
		{manifest.Position(2), manifest.KindPosition, "position", "", "", 2},
		{manifest.Source{}, 0, "SourceKind(0)", "", "", 0},
	} {
		assert.Equal(t, c.kind, c.s.Kind())
		assert.Equal(t, c.name, c.s.Kind().String())
		assert.Equal(t, c.urn, c.s.ContentURN())
		assert.Equal(t, c.flg, c.s.Flag())
		assert.Equal(t, c.position, c.s.Position())
	}
}

func TestDerived(t *testing.T) {
	both := arg("media:doc;file-path", manifest.FilePath("media:y;x"), manifest.Stdin("media:x;y"), manifest.CLIFlag("--f"))
	t.Run("content and stream URN", func(t *testing.T) {
		for _, c := range []struct {
			a               manifest.Arg
			content, stream string
			ok              bool
		}{
			{both, "media:x;y", "media:x;y", true},
			{arg("media:a", manifest.FilePath("media:p"), manifest.Stdin("media:s")), "media:s", "media:s", true},
			{arg("media:a", manifest.FilePath("media:p")), "media:p", "media:p", true},
			{manifest.Arg{MediaURN: "media:b;a"}, "", "media:a;b", false},
		} {
			content, ok := c.a.ContentURN()
			assert.Equal(t, c.ok, ok)
			assert.Equal(t, c.content, content)
			assert.Equal(t, c.stream, c.a.StreamURN())
		}
	})
	t.Run("references", func(t *testing.T) {
		assert.True(t, both.IsPathReference())
		assert.True(t, arg("media:enc=utf-8;file-path").IsPathReference())
		assert.True(t, arg("media:a", manifest.FilePath("media:a")).IsPathReference())
		assert.False(t, arg("media:a", manifest.Stdin("media:file-path")).IsPathReference())
		assert.False(t, arg("file-path").IsPathReference(), "no URN")
		assert.True(t, arg("media:live;synthetic").IsLiveReference())
		assert.False(t, arg("media:a", manifest.Stdin("media:live")).IsLiveReference())
		assert.False(t, arg("live").IsLiveReference(), "no URN")
	})
	t.Run("flag and stdin", func(t *testing.T) {
		flag, ok := both.Flag()
		assert.Equal(t, "--f", flag)
		assert.True(t, ok)
		_, ok = arg("media:a", manifest.Position(0)).Flag()
		assert.False(t, ok)
		assert.True(t, both.HasStdin())
		assert.False(t, arg("media:a", manifest.Position(0)).HasStdin())
	})
	t.Run("R-1.8 the main input is found by its stdin URN, wherever it stands", func(t *testing.T) {
		side := arg("media:a;b", manifest.CLIFlag("--x")).Sequence(true)
		main := arg("media:m", manifest.Position(0), manifest.Stdin("media:b;a")).Streaming(true)
		c := manifest.NewCap(`cap:in="media:a;b";t`, "T", "t").WithArgs(side, main).
			WithOutput(manifest.NewOutput("media:o", "").Sequence(true))
		got, ok := c.MainInput()
		require.True(t, ok)
		assert.Equal(t, main, got)
		assert.True(t, c.IsMainInput(main))
		assert.False(t, c.IsMainInput(side))
		in, out := c.SequenceShape()
		assert.Equal(t, []bool{false, true}, []bool{in, out})
		in, out = c.StreamingShape()
		assert.Equal(t, []bool{true, false}, []bool{in, out})
		require.NoError(t, withCap(c).Validate())
		assert.ErrorContains(t, withCap(c.WithArgs(arg("media:z", manifest.CLIFlag("--z")).Streaming(true))).Validate(), "RULE14: ")
	})
	t.Run("no main input, no output", func(t *testing.T) {
		c := manifest.NewCap("cap:in=media:a;t", "T", "t").WithArgs(arg("media:a", manifest.FilePath("media:a")).Sequence(true))
		_, ok := c.MainInput()
		assert.False(t, ok, "a file is not the input stream")
		in, out := c.SequenceShape()
		assert.False(t, in || out)
		in, out = c.StreamingShape()
		assert.False(t, in || out)
		broken := manifest.Cap{URN: "x", Args: []manifest.Arg{arg("media:a", manifest.Stdin("media:a"))}}
		_, ok = broken.MainInput()
		assert.False(t, ok)
		assert.False(t, broken.IsMainInput(broken.Args[0]))
	})
	t.Run("a cap without arguments behaves as if it declared its input", func(t *testing.T) {
		assert.Equal(t, []manifest.Arg{manifest.NewArg("media:a", true, manifest.Stdin("media:a"))},
			manifest.NewCap("cap:in=media:a;t", "T", "t").EffectiveArgs())
		assert.Empty(t, manifest.NewCap("cap:in=media:void;t", "T", "t").EffectiveArgs())
		assert.Empty(t, manifest.NewCap("x", "T", "t").EffectiveArgs())
		c := manifest.NewCap("cap:t", "T", "t").WithArgs(both)
		assert.Equal(t, c.Args, c.EffectiveArgs())
	})
	t.Run("positions of lone paths come after the declared ones", func(t *testing.T) {
		c := manifest.NewCap("cap:t", "T", "t").WithArgs(
			arg("media:a", manifest.FilePath("media:a")),
			arg("media:b", manifest.Position(1)),
			arg("media:c", manifest.FilePath("media:c"), manifest.CLIFlag("--c")),
			arg("media:d", manifest.Stdin("media:d"), manifest.FilePath("media:d")),
			arg("media:e", manifest.FilePath("media:e"), manifest.Position(0)),
			arg("media:f", manifest.Stdin("media:d")),
		)
		require.NoError(t, withCap(c).Validate())
		var got []int
		for i := range c.Args {
			n, ok := c.PositionOf(i)
			if !ok {
				n = -1
			}
			got = append(got, n)
		}
		assert.Equal(t, []int{2, 1, -1, 3, 0, -1}, got)
	})
}

func TestPools(t *testing.T) {
	const a, b = `cap:a;in="media:x;y"`, "cap:b"
	base := func(d pools.Declarations) *manifest.Manifest {
		return manifest.New("n", "1", "", manifest.DefaultGroup(manifest.IdentityCap(),
			manifest.NewCap(a, "A", "a"), manifest.NewCap(b, "B", "b"))).WithPools(d)
	}
	t.Run("R-1.32 a capacity under another spelling bounds the cap", func(t *testing.T) {
		m := base(pools.Declarations{Capacities: map[string]uint64{`CAP:in="media:y;x";a`: 1}})
		for range 2 { // as built, and as read again
			d, err := m.Declarations()
			require.NoError(t, err)
			table, err := pools.NewTable(m.CapURNs(), d)
			require.NoError(t, err)
			index, ok := table.Index(a)
			require.True(t, ok)
			var first, second pools.Waiter
			got, err := table.Arrive(index, &first)
			require.NoError(t, err)
			assert.True(t, got.Admitted)
			got, err = table.Arrive(index, &second)
			require.NoError(t, err)
			assert.Equal(t, pools.Arrival{Position: 1, Blocking: a}, got)

			text, err := m.JSON()
			require.NoError(t, err)
			m, err = manifest.Parse(text)
			require.NoError(t, err)
			assert.Equal(t, map[string]uint64{a: 1}, m.Pools.Capacities)
		}
	})
	t.Run("R-1.7 both members are optional, and 0 is as good as absent", func(t *testing.T) {
		m := base(pools.Declarations{Pools: map[string][]string{"p": {b, a}}})
		states, err := m.DeclaredStates()
		require.NoError(t, err)
		assert.Equal(t, pools.States{
			a: {}, b: {}, "cap:effect=none": {}, "p": {Caps: []string{b, a}}, "all": {Caps: []string{a, b, "cap:effect=none"}},
		}, states)
		zero, err := base(pools.Declarations{
			Pools: map[string][]string{"p": {b, a}}, Capacities: map[string]uint64{"p": 0, "all": 0, a: 0},
		}).DeclaredStates()
		require.NoError(t, err)
		assert.Equal(t, states, zero)
	})
	for name, c := range map[string]struct {
		d    pools.Declarations
		want string
	}{
		"a pool named all":         {pools.Declarations{Pools: map[string][]string{"all": {a}}}, "POOL: pool all: "},
		"a pool named like a cap":  {pools.Declarations{Pools: map[string][]string{"cap:zzz": {a}}}, "POOL: pool cap:zzz: a pool cannot be named like a cap"},
		"a pool without members":   {pools.Declarations{Pools: map[string][]string{"p": {}}}, "POOL: pool p: a pool needs"},
		"a member twice":           {pools.Declarations{Pools: map[string][]string{"p": {a, `cap:in="media:y;x";a`}}}, "POOL: pool p: member " + a + " is there twice"},
		"a member that is no URN":  {pools.Declarations{Pools: map[string][]string{"p": {"gpu"}}}, "POOL: pool p: member gpu is not a cap URN"},
		"a member that is no cap":  {pools.Declarations{Pools: map[string][]string{"p": {"cap:c"}}}, "POOL: pool p: member cap:c names no cap"},
		"a capacity of nothing":    {pools.Declarations{Capacities: map[string]uint64{"p": 1}}, "POOL: capacity of p: neither a declared pool nor all"},
		"a capacity of no cap":     {pools.Declarations{Capacities: map[string]uint64{"cap:c": 1}}, "POOL: capacity of cap:c: "},
		"a capacity in two spells": {pools.Declarations{Capacities: map[string]uint64{a: 1, `cap:in="media:y;x";a`: 1}}, "POOL: capacity of "},
	} {
		t.Run("POOL R-1.31 "+name, func(t *testing.T) {
			m := base(c.d)
			err := m.Validate()
			require.Error(t, err)
			assert.True(t, strings.HasPrefix(err.Error(), c.want), "%s\nwant %s", err, c.want)
			_, err = m.Declarations()
			assert.ErrorIs(t, err, manifest.ErrInvalid)
			_, err = m.DeclaredStates()
			assert.ErrorIs(t, err, manifest.ErrInvalid)
		})
	}
}
