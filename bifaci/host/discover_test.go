package host_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/host"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

// installs is a folder of installed cartridges.
type installs struct {
	t    *testing.T
	root string
	th   *theatre
}

func newInstalls(t *testing.T) *installs { return &installs{t, t.TempDir(), newTheatre(t)} }

// put writes an install and lets its program play; change spoils its record.
func (i *installs) put(slug, channel, name, version string, change func(record map[string]any)) (dir string) {
	i.t.Helper()
	registry := any(nil)
	if slug != "dev" {
		registry = "https://" + slug + "/v2/manifest"
	}
	record := map[string]any{"name": name, "version": version, "channel": channel, "registry_url": registry, "entry": "bin/run", "installed_at": "2026-04-12T10:00:00Z"}
	if change != nil {
		change(record)
	}
	dir = filepath.Join(i.root, slug, "v2", channel, name, version)
	i.file(filepath.Join(dir, "bin", "run"), "the program of "+name+" "+version, 0o755)
	b, err := json.Marshal(record)
	require.NoError(i.t, err)
	i.file(filepath.Join(dir, "cartridge.json"), string(b), 0o644)
	path, err := filepath.EvalSymlinks(filepath.Join(dir, "bin", "run"))
	require.NoError(i.t, err)
	i.play(path, name, nil)
	return dir
}

func (i *installs) play(path, name string, change func(*manifest.Manifest)) {
	i.th.on(path, serve(func() *bifaci.Cartridge {
		m := manifest.New(name, "1.0.0", "installed", manifest.DefaultGroup(capsOf([]capability{{urn: named(name)}})...))
		m.Channel = "release"
		if change != nil {
			change(m)
		}
		c := bifaci.Must(bifaci.New(m))
		c.HandleFunc(named(name), answerWith(path))
		return c
	}))
}

func (i *installs) file(path, content string, mode os.FileMode) {
	i.t.Helper()
	require.NoError(i.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(i.t, os.WriteFile(path, []byte(content), mode))
}

func (i *installs) discover() []host.Discovered {
	i.t.Helper()
	before := len(i.th.runs)
	found, err := host.Discover(i.t.Context(), i.root, host.Client{Channel: "release"}, host.WithStandIns(i.th.launch))
	require.NoError(i.t, err)
	for _, r := range i.th.runs[before:] {
		select {
		case <-r.done:
		default:
			i.t.Errorf("the program %s still runs", r.path)
		}
	}
	return found
}

// one discovers the only install there is.
func (i *installs) one() host.Discovered {
	i.t.Helper()
	found := i.discover()
	require.Len(i.t, found, 1)
	return found[0]
}

func wantKind(t *testing.T, d host.Discovered, kind host.Kind, says string) {
	t.Helper()
	require.NotNil(t, d.Err)
	assert.Equal(t, kind, d.Err.Kind, d.Err)
	assert.Contains(t, d.Err.Message, says)
	assert.NotZero(t, d.Err.DetectedAtUnixSeconds)
}

func TestDiscover(t *testing.T) {
	virtual(t, "R-12.92 every registry's folder, the host's version and channel only", func(t *testing.T) {
		i := newInstalls(t)
		i.put("dev", "release", "alpha", "1.0.0", nil)
		i.put("cartridges.example.com", "release", "beta", "2.0.0", nil)
		i.put("cartridges.example.com", "nightly", "gamma", "1.0.0", nil)
		i.file(filepath.Join(i.root, "dev", "v1", "release", "old", "1.0.0", "cartridge.json"), "{}", 0o644)
		i.file(filepath.Join(i.root, "README"), "stray", 0o644)
		i.file(filepath.Join(i.root, "dev", "v2", "release", "stray"), "stray", 0o644)
		i.file(filepath.Join(i.root, "Not A Slug", "v2", "release", "x", "1.0.0", "cartridge.json"), "{}", 0o644)
		var names []string
		for _, d := range i.discover() {
			assert.Nil(t, d.Err)
			names = append(names, d.Identity.RegistryURL+" "+d.Identity.Channel+" "+d.Identity.Name+" "+d.Identity.Version)
			assert.NotNil(t, d.Manifest)
			assert.FileExists(t, d.Path)
		}
		assert.Equal(t, []string{"https://cartridges.example.com/v2/manifest release beta 2.0.0", " release alpha 1.0.0"}, names)
	})
	t.Run("R-12.92 a root that is not there holds nothing, one that cannot be read is an error", func(t *testing.T) {
		found, err := host.Discover(t.Context(), filepath.Join(t.TempDir(), "missing"), host.Client{Channel: "release"})
		require.NoError(t, err)
		assert.Empty(t, found)
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o644))
		_, err = host.Discover(t.Context(), file, host.Client{Channel: "release"})
		require.ErrorContains(t, err, "discovery")
	})
	virtual(t, "R-12.93 the folder is the slug of the registry", func(t *testing.T) {
		for url, slug := range map[string]string{"https://CARTRIDGES.example.com/manifest?v=1": "cartridges.example.com", "https://localhost:8080/x": "localhost-8080",
			"https://u@h:1/x": "u-h-1", "https://[::1]:8080/": "---1--8080"} {
			i := newInstalls(t)
			i.put(slug, "release", "a", "1.0.0", func(r map[string]any) { r["registry_url"] = url })
			assert.Nil(t, i.one().Err, "%s", url)
		}
		for _, url := range []string{"https://dev/x", "https:///x", "https://../x"} {
			i := newInstalls(t)
			i.put("x", "release", "a", "1.0.0", func(r map[string]any) { r["registry_url"] = url })
			wantKind(t, i.one(), host.KindManifestInvalid, "registry_url")
		}
	})
	virtual(t, "R-12.94 the newest version, as numbers, then as text", func(t *testing.T) {
		for want, others := range map[string][]string{
			"1.10.0": {"1.9.0", "1.2.30"}, "2.0.0": {"2.0.0-rc.1", "1.99.99"}, "1.0.0-rc.10": {"1.0.0-rc.9", "1.0.0-beta", "1.0.0-rc"},
			"0.0.1": {"latest", "9"}, "newer": {"latest", "9"},
		} {
			i := newInstalls(t)
			i.put("dev", "release", "a", want, nil)
			for _, v := range others {
				i.put("dev", "release", "a", v, nil)
			}
			assert.Equal(t, want, i.one().Identity.Version)
		}
	})
	virtual(t, "R-12.95 the record: what is required, what may be there, what is kept", func(t *testing.T) {
		i := newInstalls(t)
		i.put("dev", "release", "a", "1.0.0", func(r map[string]any) { r["installed_from"], r["unknown"] = "a friend", 1 })
		d := i.one()
		require.Nil(t, d.Err)
		assert.Equal(t, "a friend", d.Install.InstalledFrom)
		assert.Zero(t, d.Install.FabricManifestVersion)
		for _, key := range []string{"name", "version", "channel", "registry_url", "entry", "installed_at"} {
			i := newInstalls(t)
			i.put("dev", "release", "a", "1.0.0", func(r map[string]any) { delete(r, key) })
			wantKind(t, i.one(), host.KindManifestInvalid, key)
		}
	})
	spoiled := map[string]struct {
		kind   host.Kind
		says   string
		record func(map[string]any)
		spoil  func(i *installs, dir string)
	}{
		"no record":             {kind: host.KindManifestInvalid, says: "cartridge.json", spoil: func(i *installs, dir string) { require.NoError(i.t, os.Remove(filepath.Join(dir, "cartridge.json"))) }},
		"a record that is none": {kind: host.KindManifestInvalid, spoil: func(i *installs, dir string) { i.file(filepath.Join(dir, "cartridge.json"), "[", 0o644) }},
		"no entry":              {kind: host.KindManifestInvalid, says: "entry", record: func(r map[string]any) { r["entry"] = "bin/other" }},
		"an entry outside":      {kind: host.KindManifestInvalid, record: func(r map[string]any) { r["entry"] = "../../x" }},
		"a link that leads outside": {kind: host.KindManifestInvalid, says: "leads out", spoil: func(i *installs, dir string) {
			outside := filepath.Join(i.root, "outside")
			i.file(outside, "", 0o755)
			require.NoError(i.t, os.Remove(filepath.Join(dir, "bin", "run")))
			require.NoError(i.t, os.Symlink(outside, filepath.Join(dir, "bin", "run")))
		}},
		"an entry that is a folder":    {kind: host.KindManifestInvalid, record: func(r map[string]any) { r["entry"] = "bin" }},
		"an entry that nobody may run": {kind: host.KindManifestInvalid, says: "executable", spoil: func(i *installs, dir string) { require.NoError(i.t, os.Chmod(filepath.Join(dir, "bin", "run"), 0o644)) }},
		"another registry":             {kind: host.KindBadInstallation, says: "registry", record: func(r map[string]any) { r["registry_url"] = "https://elsewhere.example.com/" }},
		"another channel":              {kind: host.KindBadInstallation, says: "channel", record: func(r map[string]any) { r["channel"] = "nightly" }},
		"another name":                 {kind: host.KindBadInstallation, says: "name", record: func(r map[string]any) { r["name"] = "b" }},
		"another version":              {kind: host.KindBadInstallation, says: "version", record: func(r map[string]any) { r["version"] = "1.0.1" }},
		"a bundle with other content":  {kind: host.KindBadInstallation, says: "hash", record: func(r map[string]any) { r["installed_from"], r["package_sha256"] = "bundle", strings.Repeat("0", 64) }},
		"no https":                     {kind: host.KindIncompatible, says: "https", record: func(r map[string]any) { r["registry_url"] = "http://r.example.com/" }},
		"another fabric":               {kind: host.KindFabricVersionMismatch, says: "version 7", record: func(r map[string]any) { r["fabric_manifest_version"] = 7 }},
		"a program that ends": {kind: host.KindHandshakeFailed, says: "exit status 4; standard error: no library", spoil: func(i *installs, dir string) {
			i.replay(dir, func(_ context.Context, r *run) int { fmt.Fprintln(r.err, "no library"); return 4 })
		}},
		"a program that says nothing": {kind: host.KindHandshakeFailed, says: "within 15s", spoil: func(i *installs, dir string) {
			i.replay(dir, func(ctx context.Context, _ *run) int { <-ctx.Done(); return 0 })
		}},
		"a bad manifest": {kind: host.KindHandshakeFailed, says: "manifest", spoil: func(i *installs, dir string) {
			i.replay(dir, func(ctx context.Context, r *run) int {
				return sayHello(ctx, r, func(meta map[string]any) { meta["manifest"] = []byte("{}") })
			})
		}},
		"a manifest of another registry": {kind: host.KindBadInstallation, says: "registry", spoil: func(i *installs, dir string) {
			i.play(i.resolved(dir), "a", func(m *manifest.Manifest) { m.RegistryURL = "https://elsewhere.example.com/" })
		}},
		"a manifest of another channel": {kind: host.KindBadInstallation, says: "channel", spoil: func(i *installs, dir string) {
			i.play(i.resolved(dir), "a", func(m *manifest.Manifest) { m.Channel = "nightly" })
		}},
	}
	for name, c := range spoiled {
		virtual(t, "R-12.96 "+name, func(t *testing.T) {
			if runtime.GOOS == "windows" && strings.Contains(name, "nobody may run") {
				t.Skip("this system has no such permission")
			}
			i := newInstalls(t)
			slug := "r.example.com"
			dir := i.put(slug, "release", "a", "1.0.0", c.record)
			if c.spoil != nil {
				c.spoil(i, dir)
			}
			i.put(slug, "release", "good", "1.0.0", nil)
			found := i.discover()
			require.Len(t, found, 2, "nothing is skipped silently")
			wantKind(t, found[0], c.kind, c.says)
			assert.Nil(t, found[1].Err, "the others are not concerned")
		})
	}
	virtual(t, "R-12.96 a name without a version", func(t *testing.T) {
		i := newInstalls(t)
		require.NoError(t, os.MkdirAll(filepath.Join(i.root, "dev", "v2", "release", "empty"), 0o755))
		wantKind(t, i.one(), host.KindBadInstallation, "no version")
	})
	t.Run("R-12.97 the hash of a folder", func(t *testing.T) {
		i := newInstalls(t)
		i.file(filepath.Join(i.root, "cartridge.json"), "not counted", 0o644)
		i.file(filepath.Join(i.root, "b.txt"), "two", 0o644)
		i.file(filepath.Join(i.root, "b", "a"), "one", 0o644)
		i.file(filepath.Join(i.root, "b", "cartridge.json"), "counted", 0o644)
		sum := sha256.Sum256([]byte("b.txttwo" + "b/aone" + "b/cartridge.jsoncounted"))
		got, err := host.HashDir(i.root)
		require.NoError(t, err)
		assert.Equal(t, hex.EncodeToString(sum[:]), got)
		_, err = host.HashDir(filepath.Join(i.root, "missing"))
		require.Error(t, err)
	})
	t.Run("R-12.99 a registry is used for its own fabric and version only", func(t *testing.T) {
		client := host.Client{FabricRegistryURL: "https://fabric.example.com"}
		good := []byte(`{"fabricRegistryUrl":"https://fabric.example.com"}`)
		require.NoError(t, host.CheckRegistry("https://r.example.com/v2/manifest", good, client))
		require.ErrorContains(t, host.CheckRegistry("https://r.example.com/v1/manifest", good, client), "/v2/manifest")
		require.ErrorContains(t, host.CheckRegistry("https://r.example.com/v2/manifest", []byte(`{"fabricRegistryUrl":"https://other.example.com"}`), client), "other")
		require.ErrorContains(t, host.CheckRegistry("https://r.example.com/v2/manifest", []byte(`{}`), client), "none")
		require.Error(t, host.CheckRegistry("https://r.example.com/v2/manifest", []byte(`[`), client))
	})
}

// resolved is the path of an install's program.
func (i *installs) resolved(dir string) string {
	path, err := filepath.EvalSymlinks(filepath.Join(dir, "bin", "run"))
	require.NoError(i.t, err)
	return path
}

// replay replaces the program of an install.
func (i *installs) replay(dir string, p play) { i.th.on(i.resolved(dir), p) }

func TestSync(t *testing.T) {
	virtual(t, "R-12.98 R-12.20 it adds, keeps and retires; what was registered otherwise is left alone", func(t *testing.T) {
		i := newInstalls(t)
		one := i.put("dev", "release", "one", "1.0.0", nil)
		i.put("dev", "release", "two", "1.0.0", nil)
		h := i.th.host()
		own := register(t, h, i.th.cartridge("own", capability{urn: named("own"), handler: answerWith("mine")}))
		require.NoError(t, h.Sync(i.discover()))
		require.Len(t, h.Cartridges(), 3)
		wantAnswer(t, h, named("one"), i.resolved(one))
		kept := h.Cartridges()[1]
		require.Equal(t, "one", kept.Name)
		runs := i.th.count(i.resolved(one))

		newer := i.put("dev", "release", "two", "1.10.0", nil)
		require.NoError(t, h.Sync(i.discover()))
		synctest.Wait()
		var names []string
		for _, r := range h.Cartridges() {
			names = append(names, r.Name+" "+r.Version)
		}
		assert.Equal(t, []string{" ", "one 1.0.0", "two 1.10.0"}, names)
		assert.Equal(t, kept.Cartridge, h.Cartridges()[1].Cartridge)
		assert.Equal(t, host.Live, h.Cartridges()[1].Lifecycle, "its process is kept")
		assert.Equal(t, runs+1, i.th.count(i.resolved(one)), "only the discovery has started another")
		wantAnswer(t, h, named("two"), i.resolved(newer))

		require.NoError(t, os.RemoveAll(filepath.Join(i.root, "dev")))
		require.NoError(t, h.Sync(i.discover()))
		synctest.Wait()
		require.Len(t, h.Cartridges(), 1)
		assert.Equal(t, own, h.Cartridges()[0].Cartridge)
		wantAnswer(t, h, named("own"), "mine")
	})
	virtual(t, "R-12.98 R-12.91 what is incompatible is in the inventory with its reason until it is mended", func(t *testing.T) {
		i := newInstalls(t)
		dir := i.put("dev", "release", "one", "1.0.0", nil)
		i.replay(dir, func(context.Context, *run) int { return 1 })
		h := i.th.host()
		require.NoError(t, h.Sync(i.discover()))
		r := h.Cartridges()[0]
		assert.Equal(t, host.Failed, r.Lifecycle)
		require.NotNil(t, r.AttachmentError)
		assert.Equal(t, host.KindHandshakeFailed, r.AttachmentError.Kind)
		require.Error(t, h.Reset(r.Cartridge))
		i.play(i.resolved(dir), "one", nil)
		require.NoError(t, h.Sync(i.discover()))
		assert.Equal(t, host.Registered, h.Cartridges()[0].Lifecycle)
		wantAnswer(t, h, named("one"), i.resolved(dir))
	})
}

func TestInventory(t *testing.T) {
	virtual(t, "R-12.90 a record tells identity, caps, state and numbers", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		spec := th.cartridge("a", capability{urn: named("through"), handler: through(named("wait"))})
		spec.Identity = host.Identity{RegistryURL: "https://r.example.com/v2/manifest", Channel: "release", Name: "a", Version: "1.2.3"}
		spec.SHA256 = "abc"
		id := register(t, h, spec)
		gate := make(chan struct{})
		other := register(t, h, th.cartridge("b", capability{urn: named("wait"), handler: hold(gate, "done")}))
		call, err := h.Call(t.Context(), named("through"))
		require.NoError(t, err)
		out := call.Arg("media:")
		_, err = out.Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, call.Finish(t.Context()))
		time.Sleep(31 * time.Second)
		synctest.Wait()
		b, err := json.Marshal(record(t, h, id))
		require.NoError(t, err)
		var got map[string]any
		require.NoError(t, json.Unmarshal(b, &got))
		assert.Equal(t, "https://r.example.com/v2/manifest", got["registry_url"])
		assert.Equal(t, "release", got["channel"])
		assert.Equal(t, "a", got["id"])
		assert.Equal(t, "1.2.3", got["version"])
		assert.Equal(t, "abc", got["sha256"])
		assert.Equal(t, "live", got["lifecycle"])
		assert.Nil(t, got["attachment_error"])
		assert.Contains(t, fmt.Sprint(got["cap_groups"]), "through")
		stats := got["runtime_stats"].(map[string]any)
		assert.Equal(t, true, stats["running"])
		assert.Equal(t, 1.0, stats["active_request_count"])
		assert.Equal(t, 1.0, stats["peer_request_count"])
		assert.Equal(t, 0.0, stats["restart_count"])
		assert.Equal(t, float64(time.Now().Unix()-1), stats["last_heartbeat_unix_seconds"])
		pool := stats["pools"].(map[string]any)["all"].(map[string]any)
		assert.Equal(t, 1.0, pool["active"], "of the latest heartbeat reply")
		for _, key := range []string{"pid", "memory_footprint_mb", "memory_rss_mb"} {
			assert.Greater(t, stats[key], 0.0, key)
		}
		for _, key := range []string{"protocol_drops_total", "protocol_stragglers_total", "protocol_overruns_total"} {
			assert.Equal(t, 0.0, stats[key], key)
		}
		assert.Equal(t, 1, record(t, h, other).Stats.ActiveRequests)
		close(gate)
		_, err = call.Response().CollectBytes(t.Context())
		require.NoError(t, err)
	})
}
