// Package starter writes the first files of a cartridge's project. A reader meets first [Project], which says what to write, and
// [Project.Write]. Nothing here runs a program or opens a connection.
package starter

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// Pipe is the module that a project is built on.
const Pipe = "github.com/pipe-cartridge/pipe"

//go:embed files
var files embed.FS

// written are the files of a project and their templates.
var written = []struct{ name, template string }{
	{"main.go", "main.go.tmpl"}, {"cartridge.go", "cartridge.go.tmpl"}, {"cartridge_test.go", "cartridge_test.go.tmpl"},
	{"Makefile", "Makefile.tmpl"}, {"README.md", "README.md.tmpl"}, {".gitignore", "gitignore.tmpl"},
}

// Project is what to write.
type Project struct {
	Name   string // of the cartridge, its program, its cap and its folder; see [CheckName]
	Module string // path of the project's own module
	// Version of Pipe to require. It is of no use with Checkout.
	Version string
	// Checkout is a folder with the source of Pipe that is used in place of a published version; may be empty.
	Checkout string
}

// reserved are names that every cartridge gives to something else.
var reserved = map[string]bool{"manifest": true, "identity": true, "discard": true, "in": true, "out": true, "effect": true, "cap": true}

// CheckName says why a name will not do: it becomes a folder, a sub-command and a tag of a cap URN.
func CheckName(name string) error {
	bad := name == "" || len(name) > 64 || name[0] < 'a' || name[0] > 'z' || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
	switch {
	case bad:
		return fmt.Errorf("the name %q will not do: want up to 64 of a-z, 0-9 and -, a letter first", name)
	case reserved[name]:
		return fmt.Errorf("the name %q is taken: every cartridge has something of this name", name)
	}
	return nil
}

// Write makes the folder, which must not exist, and everything in it. When it fails nothing is left.
func (p Project) Write(folder string) (err error) {
	if err := CheckName(p.Name); err != nil {
		return err
	}
	contents, err := p.modules()
	if err != nil {
		return err
	}
	all, err := template.ParseFS(files, "files/*.tmpl")
	if err != nil {
		return err
	}
	for _, w := range written {
		var b bytes.Buffer
		if err := all.ExecuteTemplate(&b, w.template, map[string]string{"Name": p.Name, "Pipe": Pipe}); err != nil {
			return err
		}
		contents[w.name] = b.Bytes()
	}
	if err := os.Mkdir(folder, 0o777); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}()
	for name, content := range contents {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o666); err != nil {
			return err
		}
	}
	return nil
}
