package bifaci_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/pools"
)

// plain is the seed's JSON: no channel, no registry.
const plain = `{"name":"plain","version":"1.0.0","description":"d","cap_groups":[{"name":"g","caps":[` +
	`{"urn":"cap:effect=none","title":"Identity","slug":"identity","args":[],"output":null}],"adapter_urns":[]}]}`

func TestConstruction(t *testing.T) {
	t.Run("R-1.1 from a manifest value and from JSON bytes, never without", func(t *testing.T) {
		_, err := bifaci.New(manifestOf())
		require.NoError(t, err)
		_, err = bifaci.NewFromJSON([]byte(plain))
		require.NoError(t, err)
		_, err = bifaci.New(nil)
		require.ErrorIs(t, err, bifaci.ErrManifestInvalid)
		_, err = bifaci.NewFromJSON(nil)
		require.ErrorIs(t, err, bifaci.ErrManifestInvalid)
	})
	t.Run("R-1.2 without the identity cap construction fails", func(t *testing.T) {
		m := manifest.New("n", "1.0.0", "d", manifest.DefaultGroup(defined("one")))
		c, err := bifaci.New(m)
		require.ErrorIs(t, err, bifaci.ErrIdentityMissing)
		assert.Nil(t, c)
		assert.Panics(t, func() { bifaci.MustNew(m) })
		b, err := m.JSON()
		require.NoError(t, err)
		_, err = bifaci.NewFromJSON(b)
		require.ErrorIs(t, err, bifaci.ErrIdentityMissing)
	})
	t.Run("R-1.3 identity is found by equivalence", func(t *testing.T) {
		for spelling, ok := range map[string]bool{
			`cap:effect=none`:                       true,
			`cap:effect="none"`:                     true,
			`cap:out=media:;in=media:;effect=none`:  true,
			`cap:`:                                  false,
			`cap:in="media:";effect=none;something`: false,
		} {
			m := manifest.New("n", "1.0.0", "d", manifest.DefaultGroup(manifest.NewCap(spelling, "Identity", "identity")))
			_, err := bifaci.New(m)
			assert.Equal(t, ok, err == nil, "%s: %v", spelling, err)
			if !ok {
				assert.ErrorIs(t, err, bifaci.ErrIdentityMissing, spelling)
			}
		}
	})
	t.Run("R-1.4 JSON that is no manifest", func(t *testing.T) {
		for _, b := range []string{``, `{`, `[]`, `{}`, plain + `x`, strings.Replace(plain, `"plain"`, `7`, 1)} {
			c, err := bifaci.NewFromJSON([]byte(b))
			require.ErrorIs(t, err, bifaci.ErrManifestInvalid, b)
			assert.Nil(t, c)
		}
	})
	t.Run("R-1.8 only the main input may stream", func(t *testing.T) {
		side := manifest.NewArg("media:side", true, manifest.CLIFlag("--side"))
		def := defined("one").WithArgs(side.Streaming(true))
		_, err := bifaci.New(manifest.New("n", "1.0.0", "d", manifest.DefaultGroup(manifest.IdentityCap(), def)))
		require.ErrorIs(t, err, bifaci.ErrManifestInvalid)
		assert.ErrorContains(t, err, "media:side")
		_, err = bifaci.New(manifest.New("n", "1.0.0", "d",
			manifest.DefaultGroup(manifest.IdentityCap(), defined("one").WithArgs(side))))
		require.NoError(t, err, "the main input of the cap streams and may")
	})
}

// hello is what a cartridge says of itself.
func hello(t *testing.T, c *bifaci.Cartridge) (manifestJSON []byte, pool map[string]cartridgetest.Pool) {
	t.Helper()
	meta := cartridgetest.Start(t, c).Hello().Meta()
	manifestJSON, _ = meta["manifest"].([]byte)
	raw, ok := meta["pools"].([]byte)
	require.True(t, ok)
	require.NoError(t, json.Unmarshal(raw, &pool))
	return manifestJSON, pool
}

func TestWhatHelloSays(t *testing.T) {
	t.Run("R-1.5 exactly the bytes it was made from", func(t *testing.T) {
		odd := strings.Replace(plain, `"name":"plain"`, "\n \"name\" : \"plain\", \"some_unknown\": {\"b\":1,\"a\":2}", 1)
		c, err := bifaci.NewFromJSON([]byte(odd))
		require.NoError(t, err)
		got, _ := hello(t, c)
		assert.Equal(t, odd, string(got))
	})
	t.Run("R-1.5 the JSON of the value it was made from", func(t *testing.T) {
		m := manifestOf("one")
		want, err := m.JSON()
		require.NoError(t, err)
		c, err := bifaci.New(m)
		require.NoError(t, err)
		got, _ := hello(t, c)
		assert.JSONEq(t, string(want), string(got))
	})
	t.Run("R-1.6 the version-4 identity fields are optional", func(t *testing.T) {
		for _, extra := range []string{"", `,"channel":"release"`, `,"registry_url":"https://r.example","author":"a","page_url":"https://p.example"`} {
			_, err := bifaci.NewFromJSON([]byte(strings.TrimSuffix(plain, "}") + extra + "}"))
			require.NoError(t, err, extra)
		}
		_, err := bifaci.NewFromJSON([]byte(strings.Replace(plain, `,"adapter_urns":[]`, "", 1)))
		require.NoError(t, err, "adapter_urns are optional")
	})
	t.Run("R-1.7 both members of the pool declarations are optional", func(t *testing.T) {
		one, two := capNamed("one"), capNamed("two")
		for name, d := range map[string]pools.Declarations{
			"none":       {},
			"pools":      {Pools: map[string][]string{"gpu": {one, two}}},
			"capacities": {Capacities: map[string]uint64{one: 3, "all": 0}},
			"both":       {Pools: map[string][]string{"gpu": {one}}, Capacities: map[string]uint64{"gpu": 2, "all": 5}},
		} {
			t.Run(name, func(t *testing.T) {
				c, err := bifaci.New(manifestOf("one", "two").WithPools(d))
				require.NoError(t, err)
				require.NoError(t, c.RegisterFunc(one, echoes))
				require.NoError(t, c.RegisterFunc(two, echoes))
				_, got := hello(t, c)
				for pool, members := range d.Pools {
					assert.Len(t, got[pool].Caps, len(members))
				}
				for pool, state := range got {
					want := d.Capacities[pool]
					if p, err := canonical(pool); err == nil {
						for key, n := range d.Capacities {
							if k, err := canonical(key); err == nil && k == p {
								want = n
							}
						}
					}
					assert.Equal(t, want, state.Declared, pool)
					assert.Equal(t, want, state.Configured, pool)
				}
			})
		}
	})
	t.Run("R-1.30 HELLO carries the state of every pool", func(t *testing.T) {
		c := cartridgeOf(t, bounded(map[string]uint64{"all": 7}), nil, answers("one"))
		_, got := hello(t, c)
		assert.Len(t, got, 5, "one, three standard handlers, all: %v", got)
		assert.EqualValues(t, 7, got["all"].Declared)
		assert.Len(t, got["all"].Caps, 4)
	})
}

func TestPoolDeclarationErrors(t *testing.T) {
	one := capNamed("one")
	for _, tc := range []struct {
		name, offender string
		d              pools.Declarations
	}{
		{"a pool named all", "all", pools.Declarations{Pools: map[string][]string{"all": {one}}}},
		{"a pool named like a cap", "cap:effect=none", pools.Declarations{Pools: map[string][]string{"cap:effect=none": {one}}}},
		{"no members", "gpu", pools.Declarations{Pools: map[string][]string{"gpu": {}}}},
		{"a member twice", "gpu", pools.Declarations{Pools: map[string][]string{"gpu": {one, one}}}},
		{"a member twice in two spellings", "gpu",
			pools.Declarations{Pools: map[string][]string{"gpu": {one, `cap:one;out="media:";in="media:"`}}}},
		{"a member that is no URN", "nonsense", pools.Declarations{Pools: map[string][]string{"gpu": {"nonsense"}}}},
		{"a member that is no cap of the manifest", "other", pools.Declarations{Pools: map[string][]string{"gpu": {capNamed("other")}}}},
		{"a capacity of nothing", "nonsense", pools.Declarations{Capacities: map[string]uint64{"nonsense": 1}}},
		{"a capacity of no cap of the manifest", "other", pools.Declarations{Capacities: map[string]uint64{capNamed("other"): 1}}},
		{"a capacity in two spellings", "one",
			pools.Declarations{Capacities: map[string]uint64{one: 1, `cap:one;out="media:";in="media:"`: 2}}},
	} {
		t.Run("R-1.31 at construction: "+tc.name, func(t *testing.T) {
			_, err := bifaci.New(manifestOf("one").WithPools(tc.d))
			require.ErrorIs(t, err, bifaci.ErrManifestInvalid)
			assert.ErrorContains(t, err, tc.offender)
		})
	}
	for name, d := range map[string]pools.Declarations{
		"a member that is not registered":            {Pools: map[string][]string{"gpu": {one}}},
		"a capacity of a cap that is not registered": {Capacities: map[string]uint64{one: 1}},
	} {
		t.Run("R-1.31 at start: "+name, func(t *testing.T) {
			c, err := bifaci.New(manifestOf("one").WithPools(d))
			require.NoError(t, err)
			var out strings.Builder
			err = c.Serve(t.Context(), unreadable{t}, &out)
			require.Error(t, err)
			assert.ErrorContains(t, err, "one")
			assert.Empty(t, out.String(), "nothing is written")
		})
	}
}

// unreadable fails the test when somebody reads.
type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the input was read")
	return 0, errors.New("no")
}

func TestCapacitiesAreCanonical(t *testing.T) {
	virtual(t, "R-1.32 a capacity keyed by another spelling bounds the cap", func(t *testing.T) {
		g := newGate()
		c := cartridgeOf(t, bounded(map[string]uint64{`cap:one;out="media:";in="media:"`: 1}), nil, served{"one", g.handle})
		h := cartridgetest.Start(t, c)
		first, second := h.Request(capNamed("one")).End(), h.Request(capNamed("one")).End()
		second.WantLog("queued")
		assert.Nil(t, first.Terminal())
		g.open()
		first.WantEnd()
		second.WantEnd()
		h.WantIdle()
	})
}
