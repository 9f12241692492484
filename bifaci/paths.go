package bifaci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// pathLines are the paths of a sequence argument: one a line, blanks around trimmed, empty lines skipped.
func pathLines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// expandPaths resolves paths and patterns, in order, to regular files; every one of them exists, links are followed (R-6.63,
// spec/manifest-cli.md 10.3).
func expandPaths(patterns []string) (files []string, err error) {
	for _, p := range patterns {
		if isPattern(p) {
			matches, err := glob(p)
			if err != nil {
				return nil, err
			}
			files = append(files, matches...)
			continue
		}
		if err := regular(p); err != nil {
			return nil, err
		}
		files = append(files, p)
	}
	return files, nil
}

// isPattern reports whether a path is a pattern, never a literal name.
func isPattern(path string) bool { return strings.ContainsAny(path, "*?[") }

// regular says what is wrong with a path that is to be read.
func regular(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: not found", path)
	case err != nil:
		return fmt.Errorf("%s: unreadable: %w", path, err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: not a regular file", path)
	}
	return nil
}

// glob finds the regular files that match a pattern, sorted. A component ** stands for any number of folders.
func glob(pattern string) ([]string, error) {
	if _, err := filepath.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("%s: bad pattern", pattern)
	}
	candidates := []string{pattern}
	if base, rest, ok := cutDoubleStar(pattern); ok {
		var err error
		if candidates, err = folders(base, rest); err != nil {
			return nil, err
		}
	}
	var files []string
	for _, c := range candidates {
		if _, _, again := cutDoubleStar(c); again {
			more, err := glob(c)
			if err != nil && !errors.Is(err, errNoMatch) {
				return nil, err
			}
			files = append(files, more...)
			continue
		}
		matches, err := filepath.Glob(c)
		if err != nil {
			return nil, fmt.Errorf("%s: bad pattern", pattern)
		}
		for _, m := range matches {
			if regular(m) == nil {
				files = append(files, m)
			}
		}
	}
	slices.Sort(files)
	files = slices.Compact(files)
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: %w", pattern, errNoMatch)
	}
	return files, nil
}

var errNoMatch = errors.New("no match")

// cutDoubleStar cuts a pattern at its first component **.
func cutDoubleStar(pattern string) (base, rest string, ok bool) {
	parts := strings.Split(filepath.ToSlash(pattern), "/")
	i := slices.Index(parts, "**")
	if i < 0 {
		return "", "", false
	}
	base = strings.Join(parts[:i], "/")
	if base == "" && i > 0 {
		base = "/"
	}
	for i+1 < len(parts) && parts[i+1] == "**" {
		i++ // any number of folders, twice, is any number of folders
	}
	return base, strings.Join(parts[i+1:], "/"), true
}

// folders gives the pattern rest in the folders that match base and in every folder below them.
func folders(base, rest string) (patterns []string, err error) {
	if rest == "" {
		rest = "*"
	}
	roots := []string{base}
	if base == "" {
		roots = []string{"."}
	} else if isPattern(base) {
		if roots, err = filepath.Glob(base); err != nil {
			return nil, fmt.Errorf("%s: bad pattern", base)
		}
	}
	for _, root := range roots {
		if info, err := os.Stat(root); err != nil || !info.IsDir() {
			continue // nothing below it can match
		}
		// The separator behind the root makes a link to a folder a folder; links below it are not followed, as they may form circles.
		err := filepath.WalkDir(root+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return fmt.Errorf("%s: unreadable: %w", path, err)
			}
			if d.IsDir() {
				patterns = append(patterns, filepath.Join(quoteMeta(path), rest))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return patterns, nil
}

// quoteMeta makes a folder's own name literal in a pattern.
func quoteMeta(path string) string {
	var b strings.Builder
	for i := range len(path) {
		switch c := path[i]; {
		case c == '\\' && filepath.Separator != '\\':
			b.WriteString(`\\`) // where it separates nothing it quotes
		case strings.IndexByte("*?[", c) >= 0:
			b.Write([]byte{'[', c, ']'})
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
