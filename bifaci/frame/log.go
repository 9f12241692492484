package frame

import (
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

// LevelProgress is the level of a LOG that reports progress; all other levels are diagnostics (spec/wire.md 10.2).
const LevelProgress = "progress"

// LogRecord is what a LOG says.
type LogRecord struct {
	Level    string        // never blank
	Message  string        // may be blank on progress only
	Class    failure.Class // of diagnostics; empty on progress
	ArgURN   string        // media URN of the argument concerned, or empty; never on progress
	Progress float64       // on progress only: 0 to 1 when a runtime of ours sent it; unchecked, but never NaN
}

// IsProgress reports whether the record reports progress.
func (r LogRecord) IsProgress() bool { return r.Level == LevelProgress }

// Check tells what a receiver would refuse about r; the error is a [*SyntaxError] with the token bad-log.
func (r LogRecord) Check() error {
	blank := func(s string) bool { return strings.TrimSpace(s) == "" }
	switch {
	case blank(r.Level):
		return meaningf(TokenBadLog, "level is blank, want a word such as info")
	case r.IsProgress() && r.Class != "":
		return meaningf(TokenBadLog, "attribution_class %q on a progress report, which carries none", r.Class)
	case r.IsProgress() && r.ArgURN != "":
		return meaningf(TokenBadLog, "arg_urn %q on a progress report, which carries none", r.ArgURN)
	case r.IsProgress() && r.Progress != r.Progress:
		return meaningf(TokenBadLog, "progress is not a number")
	case r.IsProgress():
		return nil
	case blank(r.Message):
		return meaningf(TokenBadLog, "message is blank, which only a progress report may be")
	case !r.Class.Valid():
		return badClass(TokenBadLog, string(r.Class))
	case r.ArgURN != "" && blank(r.ArgURN):
		return meaningf(TokenBadLog, "arg_urn is blank, want a media URN or no arg_urn at all")
	}
	return nil
}

// LogRecord reads the meta of a LOG and judges it by spec/wire.md 10.2. The error is a [*SyntaxError] with the token
// bad-log; the request fails with it where the LOG is consumed.
func (f *Frame) LogRecord() (LogRecord, error) {
	var level, message, class, argURN, progress metaValue
	w := walkMeta(f)
	for key, v, ok := w.next(); ok; key, v, ok = w.next() {
		switch string(key) {
		case "level":
			level = v
		case "message":
			message = v
		case "attribution_class":
			class = v
		case "arg_urn":
			argURN = v
		case "progress":
			progress = v
		}
	}
	if w.broken {
		return LogRecord{}, meaningf(TokenBadLog, "meta cannot be read")
	}
	var (
		r  LogRecord
		ok bool
	)
	if r.Level, ok = level.text(); !ok {
		return LogRecord{}, meaningf(TokenBadLog, "level is missing or no text")
	}
	if r.Message, ok = message.text(); !ok {
		return LogRecord{}, meaningf(TokenBadLog, "message is missing or no text")
	}
	if r.IsProgress() {
		if class.present() || argURN.present() {
			return LogRecord{}, meaningf(TokenBadLog, "attribution on a progress report, which carries none")
		}
		if r.Progress, ok = progress.number(); !ok {
			return LogRecord{}, badProgress(progress)
		}
		return r, nil
	}
	if r.Class, r.ArgURN, ok = attribution(class, argURN); !ok {
		return LogRecord{}, badAttribution(TokenBadLog, class, argURN)
	}
	if err := r.Check(); err != nil {
		return LogRecord{}, err
	}
	return r, nil
}

// badProgress says what stands in the place of the number.
func badProgress(v metaValue) error {
	if !v.present() {
		return meaningf(TokenBadLog, "progress is missing, want a number")
	}
	return meaningf(TokenBadLog, "progress is %s, want a number", describe(v, 0))
}

// AppendLogMeta appends the meta of the LOG that says r: the progress form for level progress, with the number brought
// into 0 to 1, the diagnostic form for all others. It does not check r; see [LogRecord.Check].
func AppendLogMeta(dst []byte, r LogRecord) []byte {
	if r.IsProgress() {
		dst = putText(mapHead(dst, true, true, true), "level", LevelProgress)
		return putFloat(putText(dst, "message", r.Message), "progress", clampProgress(r.Progress))
	}
	dst = mapHead(dst, true, true, true, r.ArgURN != "")
	if r.ArgURN != "" {
		dst = putText(dst, "arg_urn", r.ArgURN)
	}
	dst = putText(dst, "attribution_class", string(r.Class))
	return putText(putText(dst, "level", r.Level), "message", r.Message)
}

// attribution reads the class and the optional argument of a LOG or ERR.
func attribution(class, argURN metaValue) (c failure.Class, arg string, ok bool) {
	text, _ := class.text()
	c = failure.Class(text)
	if argURN.present() {
		if arg, ok = argURN.words(); !ok {
			return "", "", false
		}
	}
	return c, arg, c.Valid()
}

// badAttribution says which of the two attribution refused.
func badAttribution(token string, class, argURN metaValue) error {
	text, ok := class.text()
	switch {
	case !class.present():
		return meaningf(token, "attribution_class is missing")
	case !ok:
		return meaningf(token, "attribution_class is %s, want text", describe(class, 0))
	case !failure.Class(text).Valid():
		return badClass(token, text)
	}
	return meaningf(token, "arg_urn is blank or no text, want a media URN or no arg_urn at all")
}

func badClass(token, class string) error {
	return meaningf(token, "attribution_class %.40q, want input, resource, environment, internal or user", class)
}
