package starter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// defaultGo is the Go version of a project that is not made from a checkout.
const defaultGo = "1.26"

// modules makes go.mod, and with a checkout go.sum, so that the first build needs nothing else. Without one the first build adds them.
func (p Project) modules() (map[string][]byte, error) {
	mod := &strings.Builder{}
	if p.Checkout == "" {
		fmt.Fprintf(mod, "module %s\n\ngo %s\n\nrequire %s %s\n", p.Module, defaultGo, Pipe, p.Version)
		return map[string][]byte{"go.mod": []byte(mod.String())}, nil
	}
	dir, err := filepath.Abs(p.Checkout)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is no checkout of %s: there is no go.mod", p.Checkout, Pipe)
	}
	if err != nil {
		return nil, err
	}
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		return nil, err
	}
	theirs := readModule(string(text))
	if theirs.path != Pipe {
		return nil, fmt.Errorf("%s is no checkout of %s: its module is %q", p.Checkout, Pipe, theirs.path)
	}
	fmt.Fprintf(mod, "module %s\n\ngo %s\n\nrequire %s v0.0.0\n\nreplace %s => %s\n", p.Module, theirs.language, Pipe, Pipe, quoted(dir))
	if len(theirs.requires) > 0 {
		mod.WriteString("\nrequire (\n")
		for _, r := range theirs.requires {
			fmt.Fprintf(mod, "\t%s // indirect\n", r)
		}
		mod.WriteString(")\n")
	}
	return map[string][]byte{"go.mod": []byte(mod.String()), "go.sum": sums}, nil
}

// quoted writes a path as go.mod wants it. As text of its own it must have no blank and nothing that begins a comment or a list.
func quoted(path string) string {
	if strings.ContainsAny(path, " \t\"'`,()[]{}\\") || strings.Contains(path, "//") {
		return strconv.Quote(path)
	}
	return path
}

// module is what a go.mod says.
type module struct {
	path, language string
	requires       []string // path and version
}

// readModule reads the go.mod of a checkout, which the go command has written.
func readModule(text string) (m module) {
	m.language = defaultGo
	block := false
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case block && words[0] == ")":
			block = false
		case block && len(words) == 2:
			m.requires = append(m.requires, words[0]+" "+words[1])
		case len(words) == 2 && words[0] == "module":
			m.path = words[1]
		case len(words) == 2 && words[0] == "go":
			m.language = words[1]
		case len(words) == 2 && words[0] == "require" && words[1] == "(":
			block = true
		case len(words) == 3 && words[0] == "require":
			m.requires = append(m.requires, words[1]+" "+words[2])
		}
	}
	return m
}
