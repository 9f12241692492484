package bifaci

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

// cliValue is the value of one argument on the command line.
type cliValue struct {
	arg   manifest.Arg
	media string   // label of its stream
	bytes []byte   // the value itself
	files []string // the files that hold it; used when fromFiles
	live  *cliFeed // used when fromFeed
	kind  cliKind
}

type cliKind uint8

const (
	fromBytes cliKind = iota
	fromFiles
	fromStdin // streaming, as it comes
	fromFeed
)

// flagValue scans the words for a flag: the next word, or what follows "flag=" (spec/manifest-cli.md 10.1).
func flagValue(words []string, flag string) (value string, ok bool) {
	for i, w := range words {
		if w == flag {
			if i+1 < len(words) {
				return words[i+1], true
			}
			return "", false
		}
		if rest, found := strings.CutPrefix(w, flag+"="); found {
			return rest, true
		}
	}
	return "", false
}

// positionals lists the words that are neither flags nor their values.
func positionals(words []string) (free []string) {
	for i := 0; i < len(words); i++ {
		if !strings.HasPrefix(words[i], "-") {
			free = append(free, words[i])
		} else if !strings.Contains(words[i], "=") {
			i++ // a flag takes the next word with it
		}
	}
	return free
}

// wordFor is the value that the command line gives an argument: its sources in declared order, the first one present.
func wordFor(def *manifest.Cap, i int, arg manifest.Arg, words, free []string) (value string, ok bool) {
	for _, s := range arg.Sources {
		switch s.Kind() {
		case manifest.KindCLIFlag:
			if v, ok := flagValue(words, s.Flag()); ok {
				return v, true
			}
		case manifest.KindPosition, manifest.KindFilePath:
			if i >= len(def.Args) {
				continue // the implied argument has neither
			}
			if at, ok := def.PositionOf(i); ok && at < len(free) {
				return free[at], true
			}
		}
	}
	return "", false
}

// plan gives every argument its value: command line, then stdin, then default (spec/manifest-cli.md 10.2). The result is one
// set of values per run of the handler.
func (r *cliRun) plan(ctx context.Context, def *manifest.Cap, words []string) ([][]*cliValue, error) {
	args := def.EffectiveArgs()
	free := positionals(words)
	given := make([]*string, len(args))
	for i, a := range args {
		if v, ok := wordFor(def, i, a, words, free); ok {
			given[i] = &v
		}
	}
	fed, live, err := r.feedWords(def, args, words)
	if err != nil {
		return nil, err
	}
	// A streaming main input that nothing else gives takes stdin for itself (10.4).
	streaming := -1
	for i, a := range args {
		if i != fed && given[i] == nil && a.IsStreaming && def.IsMainInput(a) && r.stdin.available() {
			streaming = i
			break
		}
	}
	var values []*cliValue
	var missing []string
	for i, a := range args {
		if i == fed {
			values = append(values, live)
			continue
		}
		v, err := r.value(ctx, def, a, given[i], i == streaming, streaming < 0 && a.HasStdin(), len(words) > 0)
		if err != nil {
			return nil, err
		}
		if v != nil {
			values = append(values, v)
		} else if a.Required {
			missing = append(missing, describeArg(a))
		}
	}
	if len(missing) > 0 {
		return nil, &UsageError{MissingArgument, "missing required argument " + strings.Join(missing, ", required argument ")}
	}
	runs, err := expandRuns(values)
	if err != nil || streaming < 0 {
		return runs, err
	}
	return runs, r.openLive(ctx, values, len(runs))
}

// openLive makes standard input the live stream of the value that wants it. Several runs must have the same of it, which is possible only
// when it was read whole.
func (r *cliRun) openLive(ctx context.Context, values []*cliValue, runs int) error {
	if runs == 1 {
		r.stdin.setLive()
		return nil
	}
	b, err := r.stdin.readAll(ctx)
	for _, v := range values {
		if v.kind == fromStdin {
			v.kind, v.bytes = fromBytes, b
		}
	}
	return err
}

func describeArg(a manifest.Arg) string {
	if flag, ok := a.Flag(); ok {
		return fmt.Sprintf("%s (%s)", a.MediaURN, flag)
	}
	return a.MediaURN
}

// value finds one argument's value, or nil when it is absent.
func (r *cliRun) value(ctx context.Context, def *manifest.Cap, a manifest.Arg, given *string, streaming, mayRead, hasWords bool) (*cliValue, error) {
	v := &cliValue{arg: a, media: a.StreamURN()}
	switch {
	case given != nil:
		return v, r.fromText(def, v, []byte(*given))
	case streaming:
		v.kind = fromStdin
		return v, nil
	case mayRead && r.stdin.available():
		b, err := r.stdin.readAll(ctx)
		if err != nil {
			return nil, err
		}
		if len(b) > 0 || !hasWords {
			v.bytes = b
			return v, nil
		}
	}
	if a.DefaultValue == nil || string(a.DefaultValue) == "null" {
		return nil, nil
	}
	return v, r.fromText(def, v, defaultText(a.DefaultValue))
}

// defaultText is a default value as bytes: text without quotes, everything else as its JSON.
func defaultText(raw json.RawMessage) []byte {
	var text string
	if err := json.Unmarshal(raw, &text); err == nil {
		return []byte(text)
	}
	return raw
}

// fromText takes a value from the command line or a default: of a path reference with content it is the paths of files, of a live
// reference the selector of a feed.
func (r *cliRun) fromText(def *manifest.Cap, v *cliValue, text []byte) (err error) {
	_, content := v.arg.ContentURN()
	switch {
	case v.arg.IsLiveReference():
		v.kind = fromFeed
		v.media, v.live, err = r.liveFeed(def, v.arg.MediaURN, text)
		return err
	case !v.arg.IsPathReference() || !content:
		v.bytes = text
		return nil
	}
	patterns := []string{string(text)}
	if v.arg.IsSequence {
		patterns = pathLines(string(text))
	}
	files, err := expandPaths(patterns)
	if err != nil {
		return failure.Newf(failure.FilePath, failure.Input, "%w", err).ForArgument(v.arg.MediaURN)
	}
	v.kind, v.files = fromFiles, files
	return nil
}

// expandRuns makes one run per file of the one scalar path argument that has several (spec/manifest-cli.md 10.3).
func expandRuns(values []*cliValue) ([][]*cliValue, error) {
	several := -1
	for i, v := range values {
		if v.kind != fromFiles || v.arg.IsSequence || len(v.files) < 2 {
			continue
		}
		if several >= 0 {
			return nil, failure.Newf(failure.FilePath, failure.Input, "the arguments %s and %s both stand for several files; only one may",
				values[several].arg.MediaURN, v.arg.MediaURN).ForArgument(v.arg.MediaURN)
		}
		several = i
	}
	if several < 0 {
		return [][]*cliValue{values}, nil
	}
	var runs [][]*cliValue
	for _, file := range values[several].files {
		run := append([]*cliValue(nil), values...)
		one := *values[several]
		one.files = []string{file}
		run[several] = &one
		runs = append(runs, run)
	}
	return runs, nil
}
