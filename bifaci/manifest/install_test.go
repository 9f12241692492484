package manifest_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const installJSON = `{"name":"n","version":"1.0.0","channel":"release","registry_url":null,"entry":"bin/n","installed_at":"2026-04-12T10:00:00Z"}`

func TestInstallRoundTrip(t *testing.T) {
	r := &manifest.Install{
		Name: "n", Version: "1.0.0", Channel: manifest.Nightly, RegistryURL: "https://r.example/m?a&b", Entry: "bin/n",
		InstalledAt:   time.Date(2026, 4, 12, 12, 0, 0, 0, time.FixedZone("", 7200)),
		InstalledFrom: "bundle", SourceURL: "https://s", PackageSHA256: "00ff", PackageSize: 12, FabricManifestVersion: 3,
	}
	text, err := r.JSON()
	require.NoError(t, err)
	assert.Equal(t, `{
  "name": "n",
  "version": "1.0.0",
  "channel": "nightly",
  "registry_url": "https://r.example/m?a&b",
  "entry": "bin/n",
  "installed_at": "2026-04-12T10:00:00Z",
  "installed_from": "bundle",
  "source_url": "https://s",
  "package_sha256": "00ff",
  "package_size": 12,
  "fabric_manifest_version": 3
}
`, string(text))
	again, err := manifest.ParseInstall(text)
	require.NoError(t, err)
	r.InstalledAt = r.InstalledAt.UTC()
	assert.Equal(t, r, again)

	small, err := manifest.ParseInstall([]byte(installJSON))
	require.NoError(t, err)
	compact, err := json.Marshal(small)
	require.NoError(t, err)
	assert.Equal(t, installJSON, string(compact), "nothing is written that was not said")
	var decoded manifest.Install
	require.NoError(t, json.Unmarshal(compact, &decoded))
	assert.Equal(t, *small, decoded)
	assert.Error(t, json.Unmarshal([]byte(`{}`), &decoded))
}

func TestParseInstall(t *testing.T) {
	with := func(old, other string) string { return strings.Replace(installJSON, old, other, 1) }
	for name, in := range map[string]string{
		"unknown keys":        with(`"name"`, `"x":1,"name"`),
		"null where optional": with(`"name"`, `"source_url":null,"package_sha256":null,"installed_from":null,"name"`),
		"any source":          with(`"name"`, `"installed_from":"floppy","name"`),
		"entry with dots":     with(`bin/n`, `./a/../n..x`),
		"a registry":          with(`null`, `"https://r.example"`),
	} {
		t.Run("accepts "+name, func(t *testing.T) {
			_, err := manifest.ParseInstall([]byte(in))
			assert.NoError(t, err)
		})
	}
	for name, c := range map[string]struct{ in, want string }{
		"nothing":              {"", "JSON: cartridge.json is one JSON object: unexpected EOF"},
		"no name":              {with(`"name":"n",`, ``), "FIELD: cartridge.json: name is missing"},
		"an empty version":     {with(`1.0.0`, ``), "FIELD: cartridge.json: version: not usable: it is empty"},
		"another channel":      {with(`release`, `beta`), `CHANNEL: cartridge.json: channel: not usable: "beta" is neither`},
		"no channel":           {with(`"channel":"release",`, ``), "FIELD: cartridge.json: channel is missing"},
		"no registry_url":      {with(`"registry_url":null,`, ``), "FIELD: cartridge.json: registry_url is missing"},
		"an empty registry":    {with(`null`, `""`), "REGISTRY_URL: cartridge.json: registry_url: not usable: it is empty"},
		"a registry named dev": {with(`null`, `"https://dev/x"`), "REGISTRY_URL: "},
		"a registry number":    {with(`null`, `1`), "FIELD: cartridge.json: registry_url is 1, not a string"},
		"a local time":         {with(`:00Z`, `:00+02:00`), "FIELD: cartridge.json: installed_at: "},
		"half a second":        {with(`:00Z`, `:00.5Z`), "FIELD: cartridge.json: installed_at: "},
		"a negative size":      {with(`"name"`, `"package_size":-1,"name"`), "FIELD: cartridge.json: package_size is -1"},
		"an empty entry":       {with(`bin/n`, ``), "FIELD: cartridge.json: entry: "},
		"the folder itself":    {with(`bin/n`, `a/..`), "FIELD: cartridge.json: entry: "},
		"the folder above":     {with(`bin/n`, `a/../../n`), "FIELD: cartridge.json: entry: "},
		"an absolute entry":    {with(`bin/n`, `/bin/n`), "FIELD: cartridge.json: entry: "},
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			r, err := manifest.ParseInstall([]byte(c.in))
			require.ErrorIs(t, err, manifest.ErrInvalid)
			assert.Nil(t, r)
			assert.True(t, strings.HasPrefix(err.Error(), c.want), "%s\nwant %s", err, c.want)
		})
	}
}

func TestSlug(t *testing.T) {
	for url, want := range map[string]string{
		"": "dev",
		"https://cartridges.machinefabric.com/v2/manifest":  "cartridges.machinefabric.com",
		"https://CARTRIDGES.machinefabric.com/manifest?v=1": "cartridges.machinefabric.com",
		"http://localhost:8080/manifest":                    "localhost-8080",
		"https://u@h:1/x":                                   "u-h-1",
		"http://[::1]:8080/":                                "---1--8080",
		"https://h#f":                                       "h",
		"https://h?q":                                       "h",
		"h/x":                                               "h",
		"https://ä/":                                        "-",
		"a://b://c":                                         "b-",
		"https://a_b":                                       "a-b",
		"https://.../":                                      "...",
	} {
		got, err := manifest.Slug(url)
		require.NoError(t, err, url)
		assert.Equal(t, want, got, url)
		assert.Equal(t, url != "", manifest.IsRegistrySlug(got), url)
	}
	for _, url := range []string{"https://", "https:///x", "https://./x", "https://..", "https://DEV", "/"} {
		_, err := manifest.Slug(url)
		assert.Error(t, err, url)
	}
	for _, folder := range []string{"", "dev", ".", "..", "A", "a_b", "a b", "ä"} {
		assert.False(t, manifest.IsRegistrySlug(folder), folder)
	}
}
