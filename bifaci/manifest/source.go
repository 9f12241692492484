package manifest

import (
	"errors"
	"fmt"
)

// SourceKind says where the value of an argument comes from in CLI mode.
type SourceKind uint8

// The kinds of sources (section 4.2). The zero value is no source at all.
const (
	KindStdin SourceKind = iota + 1
	KindPosition
	KindCLIFlag
	KindFilePath
)

// key is the JSON key of the kind.
func (k SourceKind) key() string {
	switch k {
	case KindStdin:
		return "stdin"
	case KindPosition:
		return "position"
	case KindCLIFlag:
		return "cli_flag"
	case KindFilePath:
		return "file_path"
	default:
		return ""
	}
}

// String is the JSON key.
func (k SourceKind) String() string {
	if key := k.key(); key != "" {
		return key
	}
	return fmt.Sprintf("SourceKind(%d)", uint8(k))
}

// Source is one place where the value of an argument may come from. It is made by [Stdin], [Position], [Slot], [CLIFlag]
// or [FilePath]; there are no others. Sources are comparable.
type Source struct {
	kind     SourceKind
	text     string // the URN or the flag
	position int
}

// Stdin is the input stream; the media URN is the type of its content.
func Stdin(contentURN string) Source {
	return Source{kind: KindStdin, text: canonicalMedia(contentURN)}
}

// Position is the n-th positional word of the command line, from 0.
func Position(n int) Source { return Source{kind: KindPosition, position: n} }

// Slot is [Position] under its second name.
func Slot(n int) Source { return Position(n) }

// CLIFlag is the word after this word of the command line, or the text behind flag and "=". The flag is taken as written,
// dashes included.
func CLIFlag(flag string) Source { return Source{kind: KindCLIFlag, text: flag} }

// FilePath says that the value on the command line is the path of a file whose content has this type. With a Position or a
// CLIFlag beside it that is where the path stands; alone it takes a positional word of its own, see [Cap.PositionOf].
func FilePath(contentURN string) Source {
	return Source{kind: KindFilePath, text: canonicalMedia(contentURN)}
}

// Kind says which of the four it is.
func (s Source) Kind() SourceKind { return s.kind }

// ContentURN is the media URN of a Stdin or FilePath source, else empty.
func (s Source) ContentURN() string {
	if s.kind == KindStdin || s.kind == KindFilePath {
		return s.text
	}
	return ""
}

// Position is the index of a Position source, else 0.
func (s Source) Position() int { return s.position }

// Flag is the flag of a CLIFlag source, else empty.
func (s Source) Flag() string {
	if s.kind == KindCLIFlag {
		return s.text
	}
	return ""
}

var errNoSource = errors.New("not a source; use Stdin, Position, Slot, CLIFlag or FilePath")

// check finds what has no JSON.
func (s Source) check() error {
	if s.kind.key() == "" {
		return errNoSource
	}
	if s.position < 0 {
		return fmt.Errorf("position is %d, not an integer from 0 on", s.position)
	}
	return nil
}
