package bifaci

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// tree makes files, by slash paths, in a new folder that is the working directory of the test.
func tree(t *testing.T, files ...string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, name := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
}

func TestPathPatterns(t *testing.T) {
	tree(t, "a.wav", "b.wav", ".hidden.wav", "sub/c.wav", "sub/deep/d.wav", "sub/deep/e.txt", "odd/x[1]/f.wav", "odd/y/f.wav", "zz")
	require.NoError(t, os.Mkdir("folder.wav", 0o700))
	for pattern, want := range map[string][]string{
		"*.wav":        {".hidden.wav", "a.wav", "b.wav"},
		"?.wav":        {"a.wav", "b.wav"},
		"[ab].wav":     {"a.wav", "b.wav"},
		"[^a].wav":     {"b.wav"},
		"*/*.wav":      {"sub/c.wav"},
		"**/*.wav":     {".hidden.wav", "a.wav", "b.wav", "odd/x[1]/f.wav", "odd/y/f.wav", "sub/c.wav", "sub/deep/d.wav"},
		"sub/**":       {"sub/c.wav", "sub/deep/d.wav", "sub/deep/e.txt"},
		"sub/**/*.wav": {"sub/c.wav", "sub/deep/d.wav"},
		"**/deep/*":    {"sub/deep/d.wav", "sub/deep/e.txt"},
		"**/**/d.*":    {"sub/deep/d.wav"},
		"s*/**/[de].*": {"sub/deep/d.wav", "sub/deep/e.txt"},
		"**/**":        {".hidden.wav", "a.wav", "b.wav", "odd/x[1]/f.wav", "odd/y/f.wav", "sub/c.wav", "sub/deep/d.wav", "sub/deep/e.txt", "zz"},
		"o*/**/f.wav":  {"odd/x[1]/f.wav", "odd/y/f.wav"},
		"a**v":         {"a.wav"},
		"./?.wav":      {"a.wav", "b.wav"},
	} {
		t.Run("R-6.63 section 10.3 "+pattern, func(t *testing.T) {
			got, err := expandPaths([]string{pattern})
			require.NoError(t, err)
			for i := range got {
				got[i] = filepath.ToSlash(got[i])
			}
			assert.Equal(t, want, got)
		})
	}
	for pattern, want := range map[string]string{
		"nowhere":       "nowhere: not found",
		"sub":           "sub: not a regular file",
		"folder.wav":    "folder.wav: not a regular file",
		"folder*":       "folder*: no match", // folders do not count
		"nowhere/**":    "nowhere/**: no match",
		"a.wav/**":      "a.wav/**: no match",
		"*.mp3":         "*.mp3: no match",
		"[":             "[: bad pattern",
		"sub/**/[":      "sub/**/[: bad pattern",
		"[a-":           "[a-: bad pattern",
		"odd/x[1]/f.wa": "odd/x[1]/f.wa: no match", // a pattern, never a literal name
		os.DevNull:      os.DevNull + ": not a regular file",
	} {
		t.Run("R-6.65 section 10.3 error for "+pattern, func(t *testing.T) {
			if pattern == os.DevNull && runtime.GOOS == "windows" {
				want = os.DevNull + ": "
			}
			_, err := expandPaths([]string{"zz", pattern})
			assert.ErrorContains(t, err, want)
		})
	}
	t.Run("R-6.63 section 10.3 several, in the order given, twice when named twice", func(t *testing.T) {
		got, err := expandPaths([]string{"zz", "?.wav", "a.wav"})
		require.NoError(t, err)
		assert.Equal(t, []string{"zz", "a.wav", "b.wav", "a.wav"}, got)
	})
}

func TestPathPatternsOnUnix(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("names and links that Windows does not have")
	}
	t.Run("section 10.3 names that look like patterns", func(t *testing.T) {
		tree(t, `a*b/f`, `a\b/f`, `ab/f`, `q?/[x]/f`)
		got, err := expandPaths([]string{"**/f"})
		require.NoError(t, err)
		assert.Equal(t, []string{`a*b/f`, `a\b/f`, `ab/f`, `q?/[x]/f`}, got)
	})
	t.Run("section 10.3 links are followed to files and to the folder that is searched", func(t *testing.T) {
		tree(t, "real/deep/f.txt")
		require.NoError(t, os.Symlink("real", "link"))
		require.NoError(t, os.Symlink(filepath.Join("deep", "f.txt"), filepath.Join("real", "g.txt")))
		require.NoError(t, os.Symlink("nowhere", filepath.Join("real", "broken.txt")))
		require.NoError(t, os.Symlink(".", filepath.Join("real", "circle")))
		for _, base := range []string{"real", "link"} {
			got, err := expandPaths([]string{base + "/**/*.txt"})
			require.NoError(t, err)
			assert.Equal(t, []string{base + "/deep/f.txt", base + "/g.txt"}, got)
		}
		got, err := expandPaths([]string{"link/g.txt"})
		require.NoError(t, err)
		assert.Equal(t, []string{"link/g.txt"}, got)
		_, err = expandPaths([]string{"real/broken.txt"})
		assert.ErrorContains(t, err, "real/broken.txt: not found")
	})
}

func TestPathLines(t *testing.T) {
	assert.Equal(t, []string{"a", "b c", "d"}, pathLines(" a\t\n\n  \r\nb c\r\nd"))
	assert.Empty(t, pathLines(""))
}

// TestGlobFindsWhatANaiveMatcherFinds compares glob with a matcher that looks at every file.
func TestGlobFindsWhatANaiveMatcherFinds(t *testing.T) {
	names := []string{"a", "b", "ab", "ba"}
	var files []string
	for i, one := range names {
		files = append(files, "f"+one)
		for j, two := range names {
			if (i+j)%2 == 0 {
				files = append(files, one+"/"+two+"/f"+one, one+"/f"+two)
			}
		}
	}
	tree(t, files...)
	component := rapid.SampledFrom([]string{"**", "*", "a", "a*", "?", "[ab]*", "fa", "f*", "*b", "ab"})
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(component, 1, 5).Draw(t, "parts")
		pattern := strings.Join(parts, "/")
		if !isPattern(pattern) {
			return
		}
		var want []string
		for _, f := range files {
			if naiveMatch(parts, strings.Split(f, "/")) {
				want = append(want, filepath.FromSlash(f))
			}
		}
		slices.Sort(want)
		got, err := glob(pattern)
		if len(want) == 0 {
			if err == nil || !strings.Contains(err.Error(), "no match") {
				t.Fatalf("%s: got %q and error %v, want no match", pattern, got, err)
			}
			return
		}
		if err != nil || !slices.Equal(want, got) {
			t.Fatalf("%s: got %q and error %v, want %q", pattern, got, err, want)
		}
	})
}

// naiveMatch takes ** for any number of folders; at the end, of folders and one file.
func naiveMatch(pattern, path []string) bool {
	switch {
	case len(pattern) == 0:
		return len(path) == 0
	case pattern[0] == "**" && len(pattern) == 1:
		return len(path) > 0
	case pattern[0] == "**":
		return naiveMatch(pattern[1:], path) || len(path) > 0 && naiveMatch(pattern, path[1:])
	case len(path) == 0:
		return false
	}
	ok, err := filepath.Match(pattern[0], path[0])
	return err == nil && ok && naiveMatch(pattern[1:], path[1:])
}

// FuzzGlob: a pattern of a stranger gives files or an error, and only files that are there.
func FuzzGlob(f *testing.F) {
	for _, seed := range []string{"*", "**", "a/**/b", "[", "[a-b]*", `\*`, "**/**/**", "/**", "", "a[", "**/[", "./**", "../*"} {
		f.Add(seed)
	}
	root := f.TempDir()
	for _, name := range []string{"a", "b/c", "b/d/e"} {
		path := filepath.Join(root, filepath.FromSlash(name))
		require.NoError(f, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(f, os.WriteFile(path, nil, 0o600))
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		if strings.Contains(pattern, "..") {
			return // would leave the folder
		}
		files, err := glob(filepath.Join(root, pattern))
		if err != nil {
			require.Empty(t, files)
			return
		}
		require.NotEmpty(t, files)
		for _, name := range files {
			info, err := os.Stat(name)
			require.NoError(t, err)
			require.Equal(t, fs.FileMode(0), info.Mode().Type())
		}
	})
}
