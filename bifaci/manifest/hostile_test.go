package manifest_test

import (
	"strings"
	"testing"

	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Manifests come from strangers in a HELLO of up to three and a half megabytes. Work that grows with the square of it
// would make these cases, which are smaller, run for minutes; they are here to be noticed, not to be timed.
func TestHostileSizes(t *testing.T) {
	const bytes = 128 << 10
	repeat := func(piece string) string { return strings.TrimSuffix(strings.Repeat(piece, bytes/len(piece)), ",") }
	args := func(list string) string { return instead(`[`+argJSON+`]`, `[`+list+`]`) }
	for name, c := range map[string]struct{ in, want string }{
		"arguments":         {args(repeat(argJSON + ",")), "RULE1: "},
		"sources":           {instead(`[{"stdin":"media:a"}]`, `[`+repeat(`{"stdin":"media:a"},`)+`]`), "RULE4: "},
		"caps":              {instead(idJSON, repeat(idJSON+",")), "XV1: "},
		"aliases":           {with(beginCap, `"aliases":[`+repeat(`"a",`)+`]`), ""},
		"members of a pool": {with(beginMan, `"pool_declarations":{"pools":{"p":[`+repeat(`"cap:effect=none",`)+`]}}`), "POOL: "},
		"groups":            {instead(`"cap_groups":[`, `"cap_groups":[`+repeat(`{"name":"","caps":[]},`)+`,`), ""},
		"wrong types":       {instead(`"cap_groups":[`, `"cap_groups":[`+repeat(`1,`)+`,`), "FIELD: "},
		"depth":             {with(beginCap, `"metadata_json":`+strings.Repeat("[", bytes/2)+strings.Repeat("]", bytes/2)), "JSON: "},
		"one name":          {instead(`"name":"n"`, `"name":"`+strings.Repeat("n", bytes)+`"`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := manifest.Parse([]byte(c.in))
			if c.want == "" {
				require.NoError(t, err)
				m.Warnings()
				return
			}
			require.Error(t, err)
			assert.True(t, strings.HasPrefix(err.Error(), c.want), "%.200s", err)
			assert.Less(t, len(err.Error()), 10_000)
			// Each of the passes keeps a thousand at most.
			var problems manifest.Problems
			require.ErrorAs(t, err, &problems)
			assert.LessOrEqual(t, len(problems), 2000, "a thousand of each pass")
		})
	}
}
