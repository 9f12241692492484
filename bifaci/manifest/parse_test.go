package manifest_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Pieces of JSON that the cases replace parts of.
const (
	argJSON  = `{"media_urn":"media:a","required":true,"sources":[{"stdin":"media:a"}]}`
	outJSON  = `{"media_urn":"media:b","output_description":"B"}`
	capJSON  = `{"urn":"cap:in=media:a;t","title":"T","slug":"t","args":[` + argJSON + `],"output":` + outJSON + `}`
	idJSON   = `{"urn":"cap:effect=none","title":"Identity","slug":"identity"}`
	allJSON  = `{"name":"n","version":"1","description":"d","cap_groups":[{"name":"g","caps":[` + idJSON + `,` + capJSON + `]}]}`
	beginArg = `"required":true`
	beginOut = `"output_description":"B"`
	beginCap = `"title":"T"`
	beginMan = `"description":"d"`
	beginGrp = `"name":"g"`
)

// with puts members behind the place.
func with(place, members string) string { return strings.Replace(allJSON, place, place+","+members, 1) }

// instead replaces a part.
func instead(part, other string) string { return strings.Replace(allJSON, part, other, 1) }

func TestParseAccepts(t *testing.T) {
	for name, in := range map[string]string{
		"the pieces":                      allJSON,
		"blanks around":                   " \n" + allJSON + "\t\r\n",
		"unknown keys of the manifest":    with(beginMan, `"x":1,"Name":2`),
		"unknown keys of a group":         with(beginGrp, `"x":1,"Caps":2`),
		"unknown keys of a cap":           with(beginCap, `"x":1,"Args":2`),
		"unknown keys of pools":           with(beginMan, `"pool_declarations":{"x":1}`),
		"null for optional texts":         with(beginMan, `"author":null,"page_url":null,"channel":null,"registry_url":null`),
		"null for optional objects":       with(beginMan, `"pool_declarations":null`),
		"null in pools":                   with(beginMan, `"pool_declarations":{"pools":null,"capacities":null}`),
		"null in a cap":                   with(beginCap, `"metadata":null,"cap_description":null,"documentation":null,"metadata_json":null,"registered_by":null,"default_model_spec":null`),
		"null for the output":             instead(outJSON, "null"),
		"null in an argument":             with(beginArg, `"default_value":null,"metadata":null,"description":null,"arg_description":null`),
		"null in an output":               with(beginOut, `"metadata":null`),
		"both descriptions with one text": with(beginArg, `"description":"x","arg_description":"x"`),
		"empty texts that may be":         instead(`"description":"d"`, `"description":""`),
		"an empty group":                  instead(`"cap_groups":[`, `"cap_groups":[{"name":"","caps":[],"adapter_urns":[]},`),
		"a registry URL with any scheme":  with(beginMan, `"registry_url":"file:///x","channel":"release"`),
		"the greatest numbers":            with(beginCap, `"version":18446744073709551615`),
		"R-1.6 the seed's JSON has no channel and no registry_url": allJSON,
	} {
		t.Run(name, func(t *testing.T) {
			m, err := manifest.Parse([]byte(in))
			require.NoError(t, err)
			assert.Equal(t, []string{"cap:effect=none", "cap:in=media:a;t"}, m.CapURNs())
		})
	}
}

func TestParseRefuses(t *testing.T) {
	const capWhere = "cap:in=media:a;t: "
	const argWhere = capWhere + "argument media:a: "
	for name, c := range map[string]struct{ in, want string }{
		"R-1.4 nothing":          {"", "JSON: a manifest is one JSON object: unexpected EOF"},
		"R-1.4 half":             {allJSON[:len(allJSON)/2], "JSON: "},
		"R-1.4 an array":         {"[]", "JSON: a manifest is one JSON object: not a JSON object"},
		"R-1.4 null":             {"null", "JSON: "},
		"R-1.4 more than one":    {allJSON + "{}", "JSON: a manifest is one JSON object: something follows"},
		"R-1.4 not UTF-8":        {strings.Replace(allJSON, `"d"`, "\"\xff\"", 1), "JSON: a manifest is one JSON object: not UTF-8"},
		"R-1.4 a comma too many": {instead(`"cap_groups"`, `,"cap_groups"`), "JSON: "},
		"a key twice":            {with(beginMan, `"name":"x"`), `JSON: a manifest is one JSON object: key "name" is there twice`},
		"a key twice in a cap":   {with(beginCap, `"slug":"x"`), `JSON: cap_groups[0].caps[1]: not readable: key "slug" is there twice`},

		"name null":              {instead(`"name":"n"`, `"name":null`), "FIELD: name is null, not a string"},
		"name empty":             {instead(`"name":"n"`, `"name":""`), "FIELD: name is empty"},
		"version missing":        {instead(`"version":"1",`, ``), "FIELD: version is missing"},
		"description missing":    {instead(`,"description":"d"`, ``), "FIELD: description is missing"},
		"groups null":            {`{"name":"n","version":"1","description":"d","cap_groups":null}`, "FIELD: cap_groups is null, not an array"},
		"a group is text":        {instead(`"cap_groups":[`, `"cap_groups":["x",`), `FIELD: cap_groups[0]: "x" is not an object`},
		"caps missing":           {instead(`"cap_groups":[`, `"cap_groups":[{"name":"x"},`), "FIELD: cap_groups[0]: caps is missing"},
		"adapters null":          {with(beginGrp, `"adapter_urns":null`), "FIELD: cap_groups[0]: adapter_urns is null, not an array"},
		"an adapter is null":     {with(beginGrp, `"adapter_urns":[null]`), "FIELD: cap_groups[0]: adapter_urns[0] is null, not a string"},
		"author":                 {with(beginMan, `"author":1`), "FIELD: author is 1, not a string"},
		"channel":                {with(beginMan, `"channel":1`), "FIELD: channel is 1, not a string"},
		"CHANNEL empty":          {with(beginMan, `"channel":""`), `CHANNEL: channel: "" is neither`},
		"CHANNEL in capitals":    {with(beginMan, `"channel":"Release"`), `CHANNEL: channel: "Release" is neither`},
		"registry_url":           {with(beginMan, `"registry_url":1`), "FIELD: registry_url is 1, not a string"},
		"REGISTRY_URL bare":      {with(beginMan, `"registry_url":"https://"`), `REGISTRY_URL: registry_url: "https://" is not a URL`},
		"pool_declarations":      {with(beginMan, `"pool_declarations":[]`), "FIELD: pool_declarations: [] is not an object"},
		"pools":                  {with(beginMan, `"pool_declarations":{"pools":1}`), "FIELD: pool_declarations: pools: 1 is not an object"},
		"members of a pool":      {with(beginMan, `"pool_declarations":{"pools":{"p":null}}`), "FIELD: pool_declarations: pools: p is null, not an array"},
		"a member of a pool":     {with(beginMan, `"pool_declarations":{"pools":{"p":[1]}}`), "FIELD: pool_declarations: pools: p[0] is 1, not a string"},
		"a capacity is null":     {with(beginMan, `"pool_declarations":{"capacities":{"all":null}}`), "FIELD: pool_declarations: capacities: all is null, not an integer"},
		"a capacity is 1.0":      {with(beginMan, `"pool_declarations":{"capacities":{"all":1.0}}`), "FIELD: pool_declarations: capacities: all is 1.0"},
		"a capacity is too much": {with(beginMan, `"pool_declarations":{"capacities":{"all":18446744073709551616}}`), "FIELD: "},

		"urn missing":           {instead(`"urn":"cap:in=media:a;t",`, ``), "FIELD: cap_groups[0].caps[1]: urn is missing"},
		"title null":            {instead(`"title":"T"`, `"title":null`), "FIELD: " + capWhere + "title is null, not a string"},
		"RULE13 slug missing":   {instead(`,"slug":"t"`, ``), "RULE13: " + capWhere + "slug is missing"},
		"slug is a number":      {instead(`"slug":"t"`, `"slug":1`), "FIELD: " + capWhere + "slug is 1, not a string"},
		"aliases null":          {with(beginCap, `"aliases":null`), "FIELD: " + capWhere + "aliases is null, not an array"},
		"args null":             {instead(`[`+argJSON+`]`, `null`), "FIELD: " + capWhere + "args is null, not an array"},
		"output is text":        {instead(outJSON, `"x"`), "FIELD: " + capWhere + `output: "x" is not an object`},
		"metadata is an array":  {with(beginCap, `"metadata":[]`), "FIELD: " + capWhere + "metadata: [] is not an object"},
		"metadata null inside":  {with(beginCap, `"metadata":{"k":null}`), "FIELD: " + capWhere + `metadata: "k" is null, not a string`},
		"version of a cap":      {with(beginCap, `"version":-1`), "FIELD: " + capWhere + "version is -1, not an integer from 0 on"},
		"version null":          {with(beginCap, `"version":null`), "FIELD: " + capWhere + "version is null"},
		"abstract":              {with(beginCap, `"abstract":null`), "FIELD: " + capWhere + "abstract is null, not true or false"},
		"registered_by partial": {with(beginCap, `"registered_by":{"username":"u"}`), "FIELD: " + capWhere + "registered_by: registered_at is missing"},
		"model types":           {with(beginCap, `"supported_model_types":"x"`), "FIELD: " + capWhere + `supported_model_types is "x", not an array`},

		"an argument is null":    {instead(argJSON, `null`), "FIELD: " + capWhere + "args[0]: null is not an object"},
		"media_urn missing":      {instead(`"media_urn":"media:a",`, ``), "FIELD: " + capWhere + "args[0]: media_urn is missing"},
		"required missing":       {instead(`"required":true,`, ``), "FIELD: " + argWhere + "required is missing"},
		"required null":          {instead(`"required":true`, `"required":null`), "FIELD: " + argWhere + "required is null, not true or false"},
		"streaming null":         {with(beginArg, `"streaming":null`), "FIELD: " + argWhere + "streaming is null"},
		"is_sequence text":       {with(beginArg, `"is_sequence":"true"`), "FIELD: " + argWhere + `is_sequence is "true"`},
		"sources null":           {instead(`[{"stdin":"media:a"}]`, `null`), "FIELD: " + argWhere + "sources is null, not an array"},
		"RULE2 sources empty":    {instead(`[{"stdin":"media:a"}]`, `[]`), "RULE2: " + argWhere + "no source"},
		"RULE8 source is null":   {instead(`{"stdin":"media:a"}`, `null`), "RULE8: " + argWhere + "sources[0]: null is not an object"},
		"RULE8 source is text":   {instead(`{"stdin":"media:a"}`, `"stdin"`), "RULE8: "},
		"RULE8 stdin null":       {instead(`{"stdin":"media:a"}`, `{"stdin":null}`), "RULE8: " + argWhere + "sources[0]: stdin is null, not a string"},
		"RULE8 flag is a number": {instead(`{"stdin":"media:a"}`, `{"cli_flag":1}`), "RULE8: "},
		"RULE8 position is text": {instead(`{"stdin":"media:a"}`, `{"position":"0"}`), "RULE8: "},
		"RULE8 position 1e0":     {instead(`{"stdin":"media:a"}`, `{"position":1e0}`), "RULE8: "},
		"RULE8 slot too great":   {instead(`{"stdin":"media:a"}`, `{"slot":9223372036854775808}`), "RULE8: "},
		"RULE8 key in capitals":  {instead(`{"stdin":"media:a"}`, `{"Stdin":"media:a"}`), "RULE8: "},
		"RULE12 unknown key":     {with(beginArg, `"Streaming":true`), "RULE12: " + argWhere + `unknown key "Streaming"`},
		"RULE12 two texts":       {with(beginArg, `"description":"","arg_description":"x"`), "RULE12: "},
		"OUTPUT unknown key":     {with(beginOut, `"description":"x"`), "OUTPUT: " + capWhere + `output: unknown key "description"`},
		"output media_urn":       {instead(`"media_urn":"media:b",`, ``), "FIELD: " + capWhere + "output: media_urn is missing"},
		"output streaming":       {with(beginOut, `"streaming":null`), "FIELD: " + capWhere + "output: streaming is null"},
		"XV1 in two spellings":   {instead(idJSON, idJSON+`,{"urn":"cap:t;in=\"media:a\"","title":"","slug":"u"}`), "XV1: cap:in=media:a;t: "},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := manifest.Parse([]byte(c.in))
			require.Error(t, err)
			assert.Nil(t, m)
			assert.ErrorIs(t, err, manifest.ErrInvalid)
			assert.True(t, strings.HasPrefix(err.Error(), c.want), "%s\nwant %s", err, c.want)
			var problems manifest.Problems
			require.ErrorAs(t, err, &problems)
			assert.Len(t, problems, 1, err.Error())
		})
	}
	t.Run("every type fault is reported", func(t *testing.T) {
		_, err := manifest.Parse([]byte(`{"cap_groups":[{"caps":[{},1]}],"channel":"x","author":2}`))
		var problems manifest.Problems
		require.ErrorAs(t, err, &problems)
		var codes []manifest.Code
		for _, p := range problems {
			codes = append(codes, p.Code)
		}
		f := manifest.CodeField
		assert.Equal(t, []manifest.Code{f, f, f, f, manifest.CodeChannel, f, f, f, manifest.Rule13, f}, codes, err.Error())
	})
	t.Run("a long value is quoted in part", func(t *testing.T) {
		_, err := manifest.Parse([]byte(instead(`"name":"n"`, `"name":[`+strings.Repeat(`"ä", `, 1000)+`1]`)))
		assert.Less(t, len(err.Error()), 120)
		assert.Contains(t, err.Error(), `["ä","ä",`)
	})
	t.Run("the cause is kept", func(t *testing.T) {
		_, err := manifest.Parse([]byte(`{"name"`))
		assert.True(t, errors.As(err, new(*manifest.Error)))
	})
}

func TestDescriptionHasTwoSpellings(t *testing.T) {
	for _, key := range []string{"description", "arg_description"} {
		m, err := manifest.Parse([]byte(with(beginArg, `"`+key+`":"text"`)))
		require.NoError(t, err)
		c, _ := m.Lookup("t")
		assert.Equal(t, "text", c.Args[0].Description, key)
		written, err := m.JSON()
		require.NoError(t, err)
		assert.Contains(t, string(written), `"arg_description":"text"`, "written under the public name")
	}
}

func TestParseIsCanonical(t *testing.T) {
	in := strings.NewReplacer("cap:in=media:a;t", "CAP:T;in=\\\"media:z;a\\\"", `"media:a"`, `"MEDIA:z;a"`, `"media:b"`, `"media:y;b"`).Replace(
		with(beginGrp, `"adapter_urns":["media:x;fmt=json"]`))
	m, err := manifest.Parse([]byte(in))
	require.NoError(t, err)
	c, ok := m.Lookup("t")
	require.True(t, ok)
	assert.Equal(t, `cap:in="media:a;z";t`, c.URN)
	assert.Equal(t, "media:a;z", c.Args[0].MediaURN)
	assert.Equal(t, "media:a;z", c.Args[0].Sources[0].ContentURN())
	assert.Equal(t, "media:b;y", c.Output.MediaURN)
	assert.Equal(t, []string{"media:fmt=json;x"}, m.Groups[0].AdapterURNs)
}

func TestParseLenientHello(t *testing.T) {
	noSlug := instead(`"slug":"t"`, `"aliases":["first","second"]`)
	t.Run("RULE13 a host takes the first alias as the slug", func(t *testing.T) {
		m, warnings, err := manifest.ParseLenientHello([]byte(noSlug))
		require.NoError(t, err)
		assert.Equal(t, []string{`cap:in=media:a;t: no slug; its first alias "first" is taken`}, warnings)
		c, ok := m.Lookup("first")
		require.True(t, ok)
		assert.Equal(t, "first", c.Slug)
		assert.Equal(t, []string{"second"}, c.Aliases)
	})
	t.Run("RULE13 a null slug counts as none for a host", func(t *testing.T) {
		_, warnings, err := manifest.ParseLenientHello([]byte(instead(`"slug":"t"`, `"slug":null,"aliases":["t"]`)))
		require.NoError(t, err)
		assert.Len(t, warnings, 1)
	})
	t.Run("RULE13 nobody else does", func(t *testing.T) {
		_, err := manifest.Parse([]byte(noSlug))
		assert.ErrorContains(t, err, "RULE13: ")
	})
	t.Run("RULE13 a host is as strict about the rest", func(t *testing.T) {
		for _, in := range []string{
			instead(`,"slug":"t"`, ``),
			instead(`"slug":"t"`, `"aliases":[]`),
			instead(`"slug":"t"`, `"aliases":["UP"]`),
			instead(`"slug":"t"`, `"slug":"","aliases":["t"]`),
			instead(beginArg, beginArg+`,"x":1`),
			"",
		} {
			m, _, err := manifest.ParseLenientHello([]byte(in))
			assert.ErrorIs(t, err, manifest.ErrInvalid, in)
			assert.Nil(t, m)
		}
	})
	t.Run("a manifest with slugs gives no warning", func(t *testing.T) {
		_, warnings, err := manifest.ParseLenientHello([]byte(allJSON))
		require.NoError(t, err)
		assert.Empty(t, warnings)
	})
}

func TestUnmarshalJSON(t *testing.T) {
	var m manifest.Manifest
	require.NoError(t, json.Unmarshal([]byte(allJSON), &m))
	assert.Equal(t, "n", m.Name)
	assert.ErrorIs(t, json.Unmarshal([]byte(`{}`), &m), manifest.ErrInvalid)
	assert.Equal(t, "n", m.Name, "a bad manifest changes nothing")
}
