package host

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

// HashDir is the identity of an install's content: the hexadecimal SHA-256 over its files in the order of their relative paths, each
// path with / between its parts followed by the file's content, the cartridge.json at the top left out. Links are followed.
func HashDir(dir string) (string, error) {
	var files []string
	err := walk(dir, "", 0, func(rel string) { files = append(files, rel) })
	if err != nil {
		return "", err
	}
	slices.Sort(files)
	sum := sha256.New()
	for _, rel := range files {
		if rel == manifest.InstallFile {
			continue
		}
		if _, err := io.WriteString(sum, rel); err != nil {
			return "", err
		}
		f, err := os.Open(filepath.Join(dir, filepath.FromSlash(rel)))
		if err != nil {
			return "", err
		}
		_, err = io.Copy(sum, f)
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// maxInstallDepth bounds how deep folders of an install may nest, links that lead back included.
const maxInstallDepth = 64

// walk names all files below dir/rel, through links.
func walk(dir, rel string, depth int, file func(rel string)) error {
	if depth > maxInstallDepth {
		return fmt.Errorf("%s is nested deeper than %d folders", rel, maxInstallDepth)
	}
	entries, err := os.ReadDir(filepath.Join(dir, filepath.FromSlash(rel)))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(rel, e.Name())
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name)))
		switch {
		case err != nil:
			return err
		case info.IsDir():
			if err := walk(dir, name, depth+1, file); err != nil {
				return err
			}
		case info.Mode().IsRegular():
			file(name)
		default:
			return fmt.Errorf("%s is neither a file nor a folder", name)
		}
	}
	return nil
}

// compareVersions orders versions as semantic versions; what is none comes before those that are, in the order of text.
func compareVersions(a, b string) int {
	va, okA := parseVersion(a)
	vb, okB := parseVersion(b)
	switch {
	case okA != okB:
		if okA {
			return 1
		}
		return -1
	case !okA:
		return strings.Compare(a, b)
	}
	for i := range va.numbers {
		if c := compareNumbers(va.numbers[i], vb.numbers[i]); c != 0 {
			return c
		}
	}
	if c := comparePre(va.pre, vb.pre); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

// version is a semantic version; numbers are kept as text, of any length.
type version struct {
	numbers [3]string
	pre     []string
}

func parseVersion(s string) (v version, ok bool) {
	s, _, _ = strings.Cut(s, "+")
	core, pre, hasPre := strings.Cut(s, "-")
	parts := strings.Split(core, ".")
	if len(parts) != 3 {
		return v, false
	}
	for i, p := range parts {
		if !isNumber(p) || len(p) > 1 && p[0] == '0' {
			return v, false
		}
		v.numbers[i] = p
	}
	if hasPre {
		v.pre = strings.Split(pre, ".")
		for _, p := range v.pre {
			if p == "" || isNumber(p) && len(p) > 1 && p[0] == '0' || strings.Trim(p, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
				return v, false
			}
		}
	}
	return v, true
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// compareNumbers compares decimal numbers without leading zeros.
func compareNumbers(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// comparePre orders pre-releases: none is the highest, numbers are below texts, fewer parts below more.
func comparePre(a, b []string) int {
	switch {
	case len(a) == 0 && len(b) == 0:
		return 0
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	for i := range min(len(a), len(b)) {
		na, nb := isNumber(a[i]), isNumber(b[i])
		c := 0
		switch {
		case na && nb:
			c = compareNumbers(a[i], b[i])
		case na:
			c = -1
		case nb:
			c = 1
		default:
			c = strings.Compare(a[i], b[i])
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// CheckRegistry says why a cartridge registry must not be used by a client: its manifest, found at manifestURL, has to name the
// client's own fabric registry, and its path the registry version. Nothing is fetched.
func CheckRegistry(manifestURL string, registryManifest []byte, client Client) error {
	u, err := url.Parse(manifestURL)
	if err != nil {
		return fmt.Errorf("host: registry: %w", err)
	}
	if want := fmt.Sprintf("/v%d/manifest", RegistryVersion); !strings.HasSuffix(u.Path, want) {
		return fmt.Errorf("host: registry %s: its path has to end with %s", manifestURL, want)
	}
	var m struct {
		FabricRegistryURL *string `json:"fabricRegistryUrl"`
	}
	if err := json.Unmarshal(registryManifest, &m); err != nil {
		return fmt.Errorf("host: registry %s: %w", manifestURL, err)
	}
	if m.FabricRegistryURL == nil || *m.FabricRegistryURL != client.FabricRegistryURL {
		says := "none"
		if m.FabricRegistryURL != nil {
			says = *m.FabricRegistryURL
		}
		return fmt.Errorf("host: registry %s: its fabric registry is %s, this host's %s", manifestURL, says, client.FabricRegistryURL)
	}
	return nil
}
