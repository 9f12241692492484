package manifest_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
	"github.com/pipe-cartridge/pipe/pools"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	textURN = "media:enc=utf-8"
	voidCap = `cap:in=media:void;t;out="media:enc=utf-8"`
	textCap = `cap:in="media:enc=utf-8";t;out="media:enc=utf-8"`
)

// withCap is a manifest of the identity cap and one more.
func withCap(c manifest.Cap) *manifest.Manifest {
	return manifest.New("sample", "1.0.0", "A sample", manifest.DefaultGroup(manifest.IdentityCap(), c))
}

// voidArgs is a manifest with a cap that takes nothing from stdin and has these arguments.
func voidArgs(args ...manifest.Arg) *manifest.Manifest {
	return withCap(manifest.NewCap(voidCap, "T", "t").WithArgs(args...))
}

// textArgs is a manifest with a cap that takes text and has these arguments.
func textArgs(args ...manifest.Arg) *manifest.Manifest {
	return withCap(manifest.NewCap(textCap, "T", "t").WithArgs(args...))
}

func arg(mediaURN string, sources ...manifest.Source) manifest.Arg {
	return manifest.NewArg(mediaURN, false, sources...)
}

func TestValidate(t *testing.T) {
	input := arg(textURN, manifest.Stdin(textURN))
	for _, c := range []struct {
		name string
		m    *manifest.Manifest
		want []string // beginnings of the faults, or of their text behind the code
	}{
		{"a manifest without faults", textArgs(input.Streaming(true), arg("media:x", manifest.Position(1)),
			arg("media:y", manifest.Slot(0)), arg("media:z", manifest.CLIFlag("--z"))), nil},
		{"IDENTITY missing", manifest.New("n", "1", "", manifest.DefaultGroup(manifest.NewCap(voidCap, "T", "t"))),
			[]string{"IDENTITY: no cap is equivalent to cap:effect=none"}},
		{"IDENTITY is no cap that it merely conforms to", manifest.New("n", "1", "",
			manifest.DefaultGroup(manifest.NewCap("cap:effect=none;!x", "T", "t"))), []string{"IDENTITY: "}},
		{"IDENTITY is no cap that merely conforms to it", manifest.New("n", "1", "",
			manifest.DefaultGroup(manifest.NewCap("cap:effect=none;x", "T", "t"))), []string{"IDENTITY: "}},
		{"IDENTITY in any spelling", manifest.New("n", "1", "", manifest.DefaultGroup(
			manifest.Cap{URN: "CAP:out=*;Effect=NONE;in=media:;", Title: "I", Slug: "i"})), nil},
		{"IDENTITY in any group", manifest.New("n", "1", "", manifest.DefaultGroup(), manifest.Group{Name: "g",
			Caps: []manifest.Cap{manifest.IdentityCap()}}), nil},
		{"CU2 in is no media URN", withCap(manifest.NewCap("cap:in=text;t", "T", "t")),
			[]string{"URN: cap_groups[0].caps[1]: not a cap URN: "}},
		{"CU3 the effect contradicts in and out", withCap(manifest.NewCap(`cap:in="media:ext=pdf";out="media:enc=utf-8";effect=none`, "T", "t")),
			[]string{"URN: "}},
		{"CU3 the bare top form", withCap(manifest.NewCap("cap:", "T", "t")), []string{"URN: "}},
		{"RULE1 two spellings", voidArgs(arg("media:a;b", manifest.Position(0)), manifest.Arg{MediaURN: "media:b;a",
			Sources: []manifest.Source{manifest.CLIFlag("--x")}}), []string{"RULE1: cap:in=media:void;out=\"media:enc=utf-8\";t: argument media:b;a: "}},
		{"RULE1 in two caps is fine", manifest.New("n", "1", "", manifest.DefaultGroup(manifest.IdentityCap(),
			manifest.NewCap("cap:in=media:void;a", "A", "a").WithArgs(arg("media:x", manifest.Position(0))),
			manifest.NewCap("cap:in=media:void;b", "B", "b").WithArgs(arg("media:x", manifest.Position(0))))), nil},
		{"RULE2", voidArgs(arg("media:a")), []string{"RULE2: "}},
		{"RULE3 two stdin URNs", textArgs(input, arg("media:x", manifest.Stdin("media:x"))), []string{"RULE3: "}},
		{"RULE3 one URN in two spellings", withCap(manifest.NewCap(`cap:in="media:a;b";t`, "T", "t").WithArgs(
			arg("media:a;b", manifest.Stdin("media:a;b")), arg("media:x", manifest.Stdin("media:b;a")))), nil},
		{"RULE3 stdin and file_path of one argument", textArgs(arg(textURN, manifest.Stdin(textURN), manifest.FilePath("media:x"))),
			[]string{"RULE3: "}},
		{"RULE3 file_path before stdin", textArgs(arg(textURN, manifest.FilePath("media:x"), manifest.Stdin(textURN))),
			[]string{"RULE3: "}},
		{"RULE3 file_path of another argument is free", textArgs(input, arg("media:x", manifest.FilePath("media:x"))), nil},
		{"RULE4 stdin", textArgs(arg(textURN, manifest.Stdin(textURN), manifest.Stdin(textURN))), []string{"RULE4: "}},
		{"RULE4 position and slot", voidArgs(arg("media:a", manifest.Position(0), manifest.Slot(1))), []string{"RULE4: "}},
		{"RULE4 file_path", voidArgs(arg("media:a", manifest.FilePath("media:a"), manifest.FilePath("media:a"))), []string{"RULE4: "}},
		{"RULE5", voidArgs(arg("media:a", manifest.Position(0)), arg("media:b", manifest.Slot(0))),
			[]string{`RULE5: cap:in=media:void;out="media:enc=utf-8";t: argument media:b: position 0 is taken by argument media:a`}},
		{"RULE6 a gap", voidArgs(arg("media:a", manifest.Position(0)), arg("media:b", manifest.Position(3)), arg("media:c", manifest.Position(1))),
			[]string{`RULE6: cap:in=media:void;out="media:enc=utf-8";t: argument media:b: position 3, but no argument has position 2`}},
		{"RULE6 not from 0", voidArgs(arg("media:a", manifest.Position(1))), []string{"RULE6: "}},
		{"RULE6 order of arguments is free", voidArgs(arg("media:a", manifest.Position(1)), arg("media:b", manifest.Position(0))), nil},
		{"RULE7", voidArgs(arg("media:a", manifest.Position(0), manifest.CLIFlag("--a"))), []string{"RULE7: "}},
		{"RULE8 no source at all", voidArgs(arg("media:a", manifest.Source{})), []string{"RULE8: "}},
		{"RULE8 negative", voidArgs(arg("media:a", manifest.Position(-1))), []string{"RULE8: ", "RULE6: "}},
		{"RULE9", voidArgs(arg("media:a", manifest.CLIFlag("--x")), arg("media:b", manifest.CLIFlag("--x"))), []string{"RULE9: "}},
		{"RULE9 compares bytes", voidArgs(arg("media:a", manifest.CLIFlag("--x")), arg("media:b", manifest.CLIFlag("--X"))), nil},
		{"RULE10", voidArgs(arg("media:a", manifest.CLIFlag("-h")), arg("media:b", manifest.CLIFlag("manifest"))), []string{"RULE10: ", "RULE10: "}},
		{"RULE10 is exact", voidArgs(arg("media:a", manifest.CLIFlag("-V")), arg("media:b", manifest.CLIFlag("--helper"))), nil},
		{"RULE11 void takes no stdin", voidArgs(arg("media:a", manifest.Stdin("media:a"))), []string{"RULE11: "}},
		{"RULE11 somebody must take stdin", textArgs(arg("media:a", manifest.FilePath("media:a"))), []string{"RULE11: "}},
		{"RULE11 a cap without arguments is exempt", textArgs(), nil},
		{"RULE11 the stdin URN need not be in", textArgs(arg("media:a", manifest.Stdin("media:a"))), nil},
		{"RULE13 empty", withCap(manifest.NewCap(voidCap, "T", "")), []string{"RULE13: "}},
		{"RULE13 alias", withCap(manifest.NewCap(voidCap, "T", "t").WithAliases("ok", "Ä", "-x", "manifest", "")),
			[]string{"RULE13: ", "RULE13: ", "RULE13: ", "RULE13: "}},
		{"RULE13 all characters", withCap(manifest.NewCap(voidCap, "T", "0.a_z-9").WithAliases("_", ".")), nil},
		{"RULE14 side argument", textArgs(input, arg("media:x", manifest.CLIFlag("--x")).Streaming(true)),
			[]string{`RULE14: cap:in="media:enc=utf-8";out="media:enc=utf-8";t: argument media:x: `}},
		{"RULE14 no main input", textArgs(arg("media:a", manifest.Stdin("media:a")).Streaming(true)), []string{"RULE14: "}},
		{"RULE14 two main inputs", textArgs(input.Streaming(true), arg("media:x", manifest.Stdin(textURN)).Streaming(true)), nil},
		{"RULE14 leaves outputs alone", withCap(manifest.NewCap(voidCap, "T", "t").WithOutput(manifest.NewOutput(textURN, "").Streaming(true))), nil},
		{"MEDIA hides what depends on it", textArgs(arg("pdf", manifest.Stdin("x"))), []string{"MEDIA: ", "MEDIA: "}},
		{"MEDIA output", withCap(manifest.NewCap(voidCap, "T", "t").WithOutput(manifest.NewOutput("text", ""))),
			[]string{`MEDIA: cap:in=media:void;out="media:enc=utf-8";t: output: `}},
		{"MEDIA file_path", voidArgs(arg("media:a", manifest.FilePath("a"))), []string{"MEDIA: "}},
		{"MEDIA adapter", manifest.New("n", "1", "", manifest.DefaultGroup(manifest.IdentityCap()).WithAdapters("media:a", "b")),
			[]string{"MEDIA: group default: adapter "}},
		{"XV1 across groups", manifest.New("n", "1", "", manifest.DefaultGroup(manifest.IdentityCap()),
			manifest.DefaultGroup(manifest.NewCap("cap:in=media:;out=media:;effect=none", "I", "i"))), []string{"XV1: cap:effect=none: "}},
		{"FIELD empty name and version", manifest.New("", "", "", manifest.DefaultGroup(manifest.IdentityCap())),
			[]string{"FIELD: name ", "FIELD: version "}},
		{"FIELD a default that is no JSON", voidArgs(arg("media:a", manifest.Position(0)).Default(math.NaN())),
			[]string{`FIELD: cap:in=media:void;out="media:enc=utf-8";t: argument media:a: no JSON: default value: `}},
		{"FIELD a good default after a bad one", voidArgs(arg("media:a", manifest.Position(0)).Default(math.NaN()).Default(1)), nil},
		{"CHANNEL", withCap(manifest.NewCap(voidCap, "T", "t")).WithChannel("beta"), []string{`CHANNEL: channel: "beta" is neither release nor nightly`}},
		{"REGISTRY_URL", withCap(manifest.NewCap(voidCap, "T", "t")).WithRegistryURL("https://"), []string{"REGISTRY_URL: "}},
		{"all faults, in order", manifest.New("n", "1", "", manifest.DefaultGroup(
			manifest.NewCap(voidCap, "T", "T").WithArgs(arg("media:a")), manifest.NewCap(voidCap, "T", "t"))).
			WithPools(pools.Declarations{Pools: map[string][]string{"all": {voidCap}}}),
			[]string{"RULE13: ", "RULE2: ", "XV1: ", "POOL: ", "IDENTITY: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.m.Validate()
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, manifest.ErrInvalid)
			var problems manifest.Problems
			require.ErrorAs(t, err, &problems)
			require.Len(t, problems, len(c.want), err.Error())
			for i, want := range c.want {
				assert.True(t, strings.HasPrefix(problems[i].Error(), want), "%s\nwant %s", problems[i], want)
			}
		})
	}
}

func TestURNFaults(t *testing.T) {
	for name, c := range map[string]struct {
		urn  string
		want urn.Reason
	}{
		"CU1 an empty in cannot occur: in is required to be a media URN": {"cap:in=;t", ""},
		"CU2 in is neither a media URN nor *":                            {"cap:in=text;t", urn.InvalidInSpec},
		"CU2 out is neither a media URN nor *":                           {"cap:out=text;t", urn.InvalidOutSpec},
		"CU3 effect none with in that does not conform to out":           {`cap:in="media:a";out="media:b";effect=none`, urn.IllegalDeclaration},
		"CU3 the bare top form":                                          {"cap:in=media:;out=*", urn.IllegalDeclaration},
	} {
		t.Run(name, func(t *testing.T) {
			err := withCap(manifest.NewCap(c.urn, "T", "t")).Validate()
			var fault *manifest.Error
			require.ErrorAs(t, err, &fault)
			assert.Equal(t, manifest.CodeURN, fault.Code)
			if c.want != "" {
				assert.ErrorIs(t, err, c.want, "the parser's reason shows through")
			}
		})
	}
	t.Run("CU1 in and out have defaults", func(t *testing.T) {
		assert.NoError(t, withCap(manifest.NewCap("cap:t", "T", "t")).Validate())
	})
}

func TestErrors(t *testing.T) {
	t.Run("R-1.2 only a missing identity matches ErrIdentityMissing", func(t *testing.T) {
		missing := manifest.New("n", "1", "", manifest.DefaultGroup()).Validate()
		assert.ErrorIs(t, missing, manifest.ErrIdentityMissing)
		assert.ErrorIs(t, missing, manifest.ErrInvalid)
		other := voidArgs(arg("media:a")).Validate()
		assert.NotErrorIs(t, other, manifest.ErrIdentityMissing)
		both := manifest.New("", "1", "", manifest.DefaultGroup()).Validate()
		assert.ErrorIs(t, both, manifest.ErrIdentityMissing, "not the first fault")
	})
	t.Run("R-1.3 the identity cap is found by equivalence", func(t *testing.T) {
		for _, spelling := range []string{"cap:effect=none", "cap:in=media:;out=media:;effect=none", "cap:out=*;effect=none;in=*"} {
			m := manifest.New("n", "1", "", manifest.DefaultGroup(manifest.Cap{URN: spelling, Title: "I", Slug: "i"}))
			assert.NoError(t, m.Validate(), spelling)
		}
	})
	t.Run("several faults are one line, and errors.As finds the first", func(t *testing.T) {
		err := voidArgs(arg("media:a"), arg("media:b")).Validate()
		var first *manifest.Error
		require.ErrorAs(t, err, &first)
		assert.Equal(t, manifest.Rule2, first.Code)
		assert.Contains(t, first.Where, "media:a")
		assert.Equal(t, 1, strings.Count(err.Error(), " | RULE2: "))
	})
	t.Run("the text tells ten faults, the value has all", func(t *testing.T) {
		var args []manifest.Arg
		for i := range 12 {
			args = append(args, arg(fmt.Sprintf("media:a%d", i)))
		}
		err := voidArgs(args...).Validate()
		var problems manifest.Problems
		require.ErrorAs(t, err, &problems)
		assert.Len(t, problems, 12)
		assert.Equal(t, 10, strings.Count(err.Error(), "RULE2: "))
		assert.True(t, strings.HasSuffix(err.Error(), " | and 2 more"), err.Error())
	})
	t.Run("errors without a place", func(t *testing.T) {
		e := &manifest.Error{Code: manifest.CodeJSON, Detail: "a\nb", Err: errors.New("c")}
		assert.EqualError(t, e, "JSON: a b: c")
	})
}

func TestValidateChangesNothing(t *testing.T) {
	m := manifest.New("n", "1", "", manifest.DefaultGroup(manifest.Cap{URN: "cap:in=media:;effect=none", Title: "I", Slug: "i"})).
		WithPools(pools.Declarations{Capacities: map[string]uint64{"cap:in=media:;effect=none": 2}})
	require.NoError(t, m.Validate())
	assert.Equal(t, "cap:in=media:;effect=none", m.Groups[0].Caps[0].URN)
	assert.Equal(t, map[string]uint64{"cap:in=media:;effect=none": 2}, m.Pools.Capacities)
}

func TestWarnings(t *testing.T) {
	m := manifest.New("n", "1", "", manifest.DefaultGroup(manifest.IdentityCap(),
		manifest.NewCap("cap:a", "A", "a").WithAliases("x"),
		manifest.NewCap("cap:b", "B", "a"),
		manifest.NewCap("cap:c", "C", "c").WithAliases("x", "a", "c")))
	require.NoError(t, m.Validate())
	assert.Equal(t, []string{
		`cap:b: "a" is the sub-command of cap:a already`,
		`cap:c: "x" is the sub-command of cap:a already`,
		`cap:c: "a" is the sub-command of cap:a already`,
	}, m.Warnings())
	assert.Empty(t, withCap(manifest.NewCap("cap:a", "A", "a")).Warnings())
}
