package manifest

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
)

// InstallFile is the name of the install record in the folder of an installed version (section 8.1).
const InstallFile = "cartridge.json"

// DevSlug is the registry slug of development builds.
const DevSlug = "dev"

// Install is the record of an installed cartridge (section 8.3). Name to InstalledAt are required.
type Install struct {
	Name        string
	Version     string
	Channel     string    // Release or Nightly
	RegistryURL string    // empty for a development build
	Entry       string    // path of the program, relative to the version folder, with / between its parts
	InstalledAt time.Time // whole seconds, UTC

	InstalledFrom         string // registry, dev, bundle, app_installer, or any other text
	SourceURL             string
	PackageSHA256         string // hexadecimal
	PackageSize           uint64 // bytes
	FabricManifestVersion uint64
}

// installTime is RFC 3339 in UTC to the second.
const installTime = "2006-01-02T15:04:05Z"

// ParseInstall reads cartridge.json. Unknown keys are ignored; registry_url must be there, null for a development build. An
// entry that is absolute or leads out of its folder is a fault. The error is a [Problems]. Whether the folders agree, and
// whether the entry exists, is for whoever walks them.
func ParseInstall(b []byte) (*Install, error) {
	keys, members, err := parseObject(b)
	if err != nil {
		return nil, Problems{{Code: CodeJSON, Detail: InstallFile + " is one JSON object", Err: err}}
	}
	var problems Problems
	o := object{InstallFile, members, keys, &problems}
	// required reads a string that must be there and right; fault says why it is not.
	required := func(key string, code Code, fault func(s string) error) string {
		before := len(problems)
		s := o.requiredText(key)
		if len(problems) == before {
			if err := fault(s); err != nil {
				problems.addErr(code, within(InstallFile, key), "not usable", err)
			}
		}
		return s
	}
	r := &Install{
		Name:                  required("name", CodeField, notEmpty),
		Version:               required("version", CodeField, notEmpty),
		Channel:               required("channel", CodeChannel, channelFault),
		Entry:                 required("entry", CodeField, entryFault),
		PackageSize:           o.unsigned("package_size"),
		FabricManifestVersion: o.unsigned("fabric_manifest_version"),
	}
	required("installed_at", CodeField, func(s string) (err error) {
		r.InstalledAt, err = time.Parse(installTime, s)
		if err == nil && s != r.InstalledAt.Format(installTime) { // Parse lets fractions of a second pass
			return fmt.Errorf("%q is not a time in UTC to the second, like 2026-04-12T10:00:00Z", s)
		}
		return err
	})
	if raw, ok := o.require("registry_url", "a string or null"); ok && !isNull(raw) {
		r.RegistryURL = required("registry_url", CodeRegistryURL, func(s string) error {
			if s == "" {
				return errors.New("it is empty; null is a development build")
			}
			_, err := Slug(s)
			return err
		})
	}
	r.InstalledFrom, _ = o.text("installed_from")
	r.SourceURL, _ = o.text("source_url")
	r.PackageSHA256, _ = o.text("package_sha256")
	if err := problems.orNil(); err != nil {
		return nil, err
	}
	return r, nil
}

// JSON writes the record, indented by two spaces and ended by a newline.
func (r *Install) JSON() ([]byte, error) {
	w := struct {
		Name                  string  `json:"name"`
		Version               string  `json:"version"`
		Channel               string  `json:"channel"`
		RegistryURL           *string `json:"registry_url"`
		Entry                 string  `json:"entry"`
		InstalledAt           string  `json:"installed_at"`
		InstalledFrom         string  `json:"installed_from,omitempty"`
		SourceURL             string  `json:"source_url,omitempty"`
		PackageSHA256         string  `json:"package_sha256,omitempty"`
		PackageSize           uint64  `json:"package_size,omitempty"`
		FabricManifestVersion uint64  `json:"fabric_manifest_version,omitempty"`
	}{
		r.Name, r.Version, r.Channel, nil, r.Entry, r.InstalledAt.UTC().Format(installTime),
		r.InstalledFrom, r.SourceURL, r.PackageSHA256, r.PackageSize, r.FabricManifestVersion,
	}
	if r.RegistryURL != "" {
		w.RegistryURL = &r.RegistryURL
	}
	b, err := encodeJSON(w)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", InstallFile, err)
	}
	return Indent(b)
}

// MarshalJSON is [Install.JSON].
func (r *Install) MarshalJSON() ([]byte, error) { return r.JSON() }

// UnmarshalJSON is [ParseInstall].
func (r *Install) UnmarshalJSON(b []byte) error {
	parsed, err := ParseInstall(b)
	if err == nil {
		*r = *parsed
	}
	return err
}

func notEmpty(s string) error {
	if s == "" {
		return errors.New("it is empty")
	}
	return nil
}

func channelFault(s string) error {
	if !isChannel(s) {
		return fmt.Errorf(channelRule, s)
	}
	return nil
}

// entryFault refuses a path that does not stay below the folder that it starts from.
func entryFault(p string) error {
	clean := path.Clean(p)
	if p == "" || path.IsAbs(p) || clean == "." || clean == ".." || strings.HasPrefix(clean, "../") {
		return fmt.Errorf("%q is not a path inside the folder of the version", p)
	}
	return nil
}

// Slug is the folder name of a registry (section 8.2): [DevSlug] for the empty URL of development builds, else the host and
// port of the URL in lower case, with - for every character outside a-z 0-9 . -. A URL whose slug would be empty, ".", ".."
// or "dev" is an error, because it would share a folder with something else or leave the root.
func Slug(registryURL string) (string, error) {
	if registryURL == "" {
		return DevSlug, nil
	}
	rest := registryURL
	if _, after, ok := strings.Cut(registryURL, "://"); ok {
		rest = after
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	slug := strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + ('a' - 'A')
		case isRegistrySlugRune(r):
			return r
		default:
			return '-'
		}
	}, rest)
	switch slug {
	case "", ".", "..", DevSlug:
		return "", fmt.Errorf("registry URL %q has the slug %q, which cannot be a folder of its own", registryURL, slug)
	}
	return slug, nil
}

func isRegistrySlugRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-'
}

// IsRegistrySlug reports whether a folder name is the slug of a registry: not empty, not "dev", and of those characters
// only. The names . and .. are no slugs, as no URL has them.
func IsRegistrySlug(folder string) bool {
	return folder != "" && folder != DevSlug && folder != "." && folder != ".." &&
		!strings.ContainsFunc(folder, func(r rune) bool { return !isRegistrySlugRune(r) })
}
