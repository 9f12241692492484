package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/stages"
)

// RegistryVersion is the version of the cartridge registry that this host speaks.
const RegistryVersion = 2

// maxInstallFile bounds cartridge.json, bytes.
const maxInstallFile = 1 << 20

// probesAtOnce is how many programs a discovery tries at the same time.
const probesAtOnce = 4

// Client is for whom installs are discovered.
type Client struct {
	Channel           string // manifest.Release or manifest.Nightly
	FabricVersion     uint64 // of the fabric's manifest that the client was built with
	FabricRegistryURL string // of the client, for [CheckRegistry]
}

// Discovered is one installed cartridge: attachable, or incompatible for a reason.
type Discovered struct {
	Identity Identity // as the folders say it; the registry URL as cartridge.json does
	Dir      string   // of the version
	Path     string   // of the program, with symbolic links resolved; empty when incompatible before that
	SHA256   string   // of the folder; see [HashDir]
	Install  *manifest.Install
	Manifest *manifest.Manifest // as the program has said it
	Err      *AttachmentError   // nil when it is attachable
}

// Discover looks through the installs under root, {slug}/v2/{channel}/{name}/{version}/cartridge.json, and tries the newest version
// of every name: its program is started, has to say HELLO within the handshake timeout, and is ended. A root that
// is not there holds nothing; one that cannot be read is an error, and so is the end of ctx. Nothing that runs is touched; it may be
// called again at any time. Options are those of processes.
func Discover(ctx context.Context, root string, client Client, opts ...Option) ([]Discovered, error) {
	o := newOptions(opts)
	slugs, err := os.ReadDir(root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("host: discovery: %w", err)
	}
	var found []Discovered
	for _, slug := range slugs {
		path := filepath.Join(root, slug.Name())
		if !isDir(path) || slug.Name() != manifest.DevSlug && !manifest.IsRegistrySlug(slug.Name()) {
			o.log.Warn("no folder of a registry", "path", path)
			continue
		}
		channel := filepath.Join(path, fmt.Sprintf("v%d", RegistryVersion), client.Channel)
		names, err := os.ReadDir(channel)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // nothing of this version and channel
		case err != nil:
			found = append(found, Discovered{Dir: channel, Err: trouble(KindManifestInvalid, err)})
			continue
		}
		for _, name := range names {
			dir := filepath.Join(channel, name.Name())
			if !isDir(dir) {
				o.log.Warn("a stray file among the installs", "path", dir)
				continue
			}
			found = append(found, newest(dir, slug.Name(), client, &o))
		}
	}
	return found, probeAll(ctx, found, &o)
}

func trouble(kind Kind, err error) *AttachmentError {
	return &AttachmentError{Kind: kind, Message: err.Error(), DetectedAtUnixSeconds: time.Now().Unix()}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// newest looks at the newest version of a name.
func newest(dir, slug string, client Client, o *options) Discovered {
	d := Discovered{Dir: dir, Identity: Identity{Channel: client.Channel, Name: filepath.Base(dir)}}
	versions, err := os.ReadDir(dir)
	if err != nil {
		d.Err = trouble(KindManifestInvalid, err)
		return d
	}
	best := ""
	for _, v := range versions {
		switch {
		case !isDir(filepath.Join(dir, v.Name())):
			o.log.Warn("a stray file among the versions", "path", filepath.Join(dir, v.Name()))
		case best == "" || compareVersions(v.Name(), best) > 0:
			best = v.Name()
		}
	}
	if best == "" {
		d.Err = trouble(KindBadInstallation, errors.New("there is no version of it"))
		return d
	}
	d.Dir, d.Identity.Version = filepath.Join(dir, best), best
	if kind, err := d.inspect(slug, client); err != nil {
		d.Err = trouble(kind, err)
	}
	return d
}

// inspect makes the checks of that need no process.
func (d *Discovered) inspect(slug string, client Client) (Kind, error) {
	b, err := readBounded(filepath.Join(d.Dir, manifest.InstallFile))
	if err != nil {
		return KindManifestInvalid, err
	}
	in, err := manifest.ParseInstall(b)
	if err != nil {
		return KindManifestInvalid, err
	}
	d.Install, d.Identity.RegistryURL = in, in.RegistryURL
	theirs, err := manifest.Slug(in.RegistryURL)
	if err != nil {
		return KindManifestInvalid, err
	}
	for _, check := range []struct{ what, says, folder string }{
		{"registry", theirs, slug}, {"channel", in.Channel, client.Channel}, {"name", in.Name, d.Identity.Name}, {"version", in.Version, d.Identity.Version},
	} {
		if check.says != check.folder {
			return KindBadInstallation, fmt.Errorf("%s says %s %q, its folder %q", manifest.InstallFile, check.what, check.says, check.folder)
		}
	}
	if in.RegistryURL != "" && !strings.HasPrefix(strings.ToLower(in.RegistryURL), "https://") {
		return KindIncompatible, fmt.Errorf("the registry %s is not reached through https", in.RegistryURL)
	}
	if d.Path, err = entryPoint(d.Dir, in.Entry); err != nil {
		return KindManifestInvalid, err
	}
	if in.FabricManifestVersion != client.FabricVersion {
		return KindFabricVersionMismatch, fmt.Errorf("it is made for version %d of the fabric's manifest, this host for %d", in.FabricManifestVersion, client.FabricVersion)
	}
	if d.SHA256, err = HashDir(d.Dir); err != nil {
		return KindBadInstallation, err
	}
	if in.InstalledFrom == "bundle" && in.PackageSHA256 != "" && !strings.EqualFold(in.PackageSHA256, d.SHA256) {
		return KindBadInstallation, fmt.Errorf("the bundle's content has the hash %s, %s says %s", d.SHA256, manifest.InstallFile, in.PackageSHA256)
	}
	return "", nil
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxInstallFile:
		return nil, fmt.Errorf("%s is no file of at most %d bytes", path, maxInstallFile)
	}
	return os.ReadFile(path)
}

// entryPoint finds the program of an install: inside of its folder, wherever links lead, and executable.
func entryPoint(dir, entry string) (string, error) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(dir, filepath.FromSlash(entry)))
	if err != nil {
		return "", fmt.Errorf("entry point: %w", err)
	}
	if rel, err := filepath.Rel(root, path); err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("entry point %s leads out of %s", entry, dir)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("entry point: %w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("entry point %s is no file", entry)
	case runtime.GOOS != "windows" && info.Mode()&0o111 == 0:
		return "", fmt.Errorf("entry point %s is not executable", entry)
	}
	return path, nil
}

// probeAll tries the programs of what is attachable so far.
func probeAll(ctx context.Context, found []Discovered, o *options) error {
	var probes sync.WaitGroup
	slots := make(chan struct{}, probesAtOnce)
	for i := range found {
		d := &found[i]
		if d.Err != nil {
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			probes.Wait()
			return context.Cause(ctx)
		}
		probes.Go(func() {
			defer func() { <-slots }()
			hello, err := probeInstall(ctx, d.Path, *o)
			if err != nil {
				d.Err = trouble(KindHandshakeFailed, err)
				return
			}
			d.Manifest = hello.Manifest
			switch m := hello.Manifest; {
			case m.RegistryURL != "" && m.RegistryURL != d.Identity.RegistryURL:
				d.Err = trouble(KindBadInstallation, fmt.Errorf("its manifest names the registry %q, %s %q", m.RegistryURL, manifest.InstallFile, d.Identity.RegistryURL))
			case m.Channel != "" && m.Channel != d.Identity.Channel:
				d.Err = trouble(KindBadInstallation, fmt.Errorf("its manifest names the channel %q, %s %q", m.Channel, manifest.InstallFile, d.Identity.Channel))
			}
		})
	}
	probes.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// probeInstall starts a program, exchanges HELLOs and kills it.
func probeInstall(ctx context.Context, path string, o options) (hello HandshakeResult, err error) {
	child, err := o.launch(path, &o)
	if err != nil {
		return hello, err
	}
	p := &Process{child: child, drained: make(chan struct{})}
	go p.drain() // ends with the process's standard error, which is waited for below
	var pool stages.Pool
	dec := &frameDecoder{d: stages.NewDecoder(child.out, &pool, frame.DefaultLimits().MaxFrame)}
	write := func(f *frame.Frame) error {
		_, err := child.in.Write(frame.Append(nil, f))
		return err
	}
	err = within(ctx, o.helloTimeout, errors.New("no handshake"), "the cartridge sent no hello", func(ctx context.Context) (err error) {
		got, err := handshake(ctx, dec, write, o.limits)
		if err == nil {
			hello = got
		}
		return err
	})
	killed := child.kill()
	state, waitErr := child.wait()
	p.awaitStderr()
	if err != nil {
		err = fmt.Errorf("%w (%s%s)", err, state, p.tail.quoted())
	}
	if closed := errors.Join(killed, waitErr, child.close()); closed != nil {
		o.log.Debug("ending a probed program", "path", path, "error", closed)
	}
	return hello, err
}
