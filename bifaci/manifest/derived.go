package manifest

import (
	"slices"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// source returns the first source of this kind.
func (a Arg) source(kind SourceKind) (Source, bool) {
	i := slices.IndexFunc(a.Sources, func(s Source) bool { return s.kind == kind })
	if i < 0 {
		return Source{}, false
	}
	return a.Sources[i], true
}

// HasStdin reports whether the argument may come from the input stream.
func (a Arg) HasStdin() bool {
	_, ok := a.source(KindStdin)
	return ok
}

// Flag is the flag of the argument, if it has one.
func (a Arg) Flag() (flag string, ok bool) {
	s, ok := a.source(KindCLIFlag)
	return s.text, ok
}

// ContentURN is the type of the argument's content: the URN of its stdin source, else of its file_path source, in
// canonical form (section 4.3). ok is false when it has neither.
func (a Arg) ContentURN() (mediaURN string, ok bool) {
	s, ok := a.source(KindStdin)
	if !ok {
		s, ok = a.source(KindFilePath)
	}
	return canonicalMedia(s.text), ok
}

// StreamURN labels the argument's input stream, and handlers look it up by this: the content URN, else MediaURN, in
// canonical form (section 4.3).
func (a Arg) StreamURN() string {
	if content, ok := a.ContentURN(); ok {
		return content
	}
	return canonicalMedia(a.MediaURN)
}

// IsPathReference reports whether the value on the command line is the path of a file (section 4.3).
func (a Arg) IsPathReference() bool {
	if _, ok := a.source(KindFilePath); ok {
		return true
	}
	m, err := urn.ParseMedia(a.MediaURN)
	return err == nil && m.ConformsTo(filePath)
}

// IsLiveReference reports whether the value selects a live feed (section 4.3).
func (a Arg) IsLiveReference() bool {
	m, err := urn.ParseMedia(a.MediaURN)
	return err == nil && m.IsLiveFeed()
}

// filePath describes every value that names a file.
var filePath = urn.MustMedia("media:file-path")

// IsMainInput reports whether a, an argument of the cap, is its main input: a stdin source has a URN equivalent to the
// cap's in. The place in the list plays no part (section 4.3).
func (c Cap) IsMainInput(a Arg) bool {
	u, err := urn.ParseCap(c.URN)
	return err == nil && isMainInput(u, a)
}

func isMainInput(u urn.Cap, a Arg) bool {
	for _, s := range a.Sources {
		if s.kind != KindStdin {
			continue
		}
		if m, err := urn.ParseMedia(s.text); err == nil && m.Equivalent(u.In()) {
			return true
		}
	}
	return false
}

// MainInput returns the main input of the cap, the first one when several arguments share its stream.
func (c Cap) MainInput() (Arg, bool) {
	u, err := urn.ParseCap(c.URN)
	if err != nil {
		return Arg{}, false
	}
	for _, a := range c.Args {
		if isMainInput(u, a) {
			return a, true
		}
	}
	return Arg{}, false
}

// SequenceShape tells whether the main input and the output are sequences; false where there is none (section 4.3).
func (c Cap) SequenceShape() (in, out bool) {
	main, _ := c.MainInput()
	return main.IsSequence, c.Output != nil && c.Output.IsSequence
}

// StreamingShape tells whether the main input and the output are streaming; false where there is none (section 4.3).
func (c Cap) StreamingShape() (in, out bool) {
	main, _ := c.MainInput()
	return main.IsStreaming, c.Output != nil && c.Output.IsStreaming
}

// EffectiveArgs are the arguments that CLI mode fills: those of the cap, or for a cap without arguments and with an input
// the one that it behaves as if it had declared, required and read from stdin (section 10.5).
func (c Cap) EffectiveArgs() []Arg {
	if len(c.Args) > 0 {
		return c.Args
	}
	u, err := urn.ParseCap(c.URN)
	if err != nil || u.In().IsVoid() {
		return nil
	}
	in := u.In().String()
	return []Arg{NewArg(in, true, Stdin(in))}
}

// PositionOf returns the index of the positional word that the argument with this index takes: its position, or for a
// lone file_path source the next one after all declared ones, in argument order (section 4.2). ok is false when it takes
// none.
func (c Cap) PositionOf(arg int) (position int, ok bool) {
	if s, ok := c.Args[arg].source(KindPosition); ok {
		return s.position, true
	}
	if !c.Args[arg].isLonePath() {
		return 0, false
	}
	for i, a := range c.Args {
		if _, declared := a.source(KindPosition); declared || i < arg && a.isLonePath() {
			position++ // declared positions are 0, 1, 2, … (RULE6), so counting them finds the first free one
		}
	}
	return position, true
}

// isLonePath reports a file_path source without a position or a flag that would say where the path stands.
func (a Arg) isLonePath() bool {
	_, path := a.source(KindFilePath)
	_, position := a.source(KindPosition)
	_, flag := a.source(KindCLIFlag)
	return path && !position && !flag
}
