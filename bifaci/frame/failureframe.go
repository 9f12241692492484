package frame

import (
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

// Failure reads the meta of an ERR and judges it by spec/wire.md 10.3. The error is a [*SyntaxError] with the token
// bad-err: an ERR that does not say who has to act is a protocol violation and nothing is put in the missing place.
func (f *Frame) Failure() (*failure.Failure, error) {
	code, class, message, argURN, broken := identity(f)
	if broken {
		return nil, meaningf(TokenBadErr, "meta cannot be read")
	}
	var (
		e  failure.Failure
		ok bool
	)
	if e.Code, ok = code.words(); !ok {
		return nil, meaningf(TokenBadErr, "code is missing, blank or no text")
	}
	if e.Message, ok = message.words(); !ok {
		return nil, meaningf(TokenBadErr, "message is missing, blank or no text")
	}
	if e.Class, e.ArgURN, ok = attribution(class, argURN); !ok {
		return nil, badAttribution(TokenBadErr, class, argURN)
	}
	return &e, nil
}

// AppendErrMeta appends the meta of the ERR that carries f. Blanks are filled as [failure.From] fills them, so the
// result is never refused.
func AppendErrMeta(dst []byte, f *failure.Failure) []byte {
	f = failure.From(f)
	dst = mapHead(dst, true, true, true, f.ArgURN != "")
	if f.ArgURN != "" {
		dst = putText(dst, "arg_urn", f.ArgURN)
	}
	dst = putText(dst, "attribution_class", string(f.Class))
	return putText(putText(dst, "code", f.Code), "message", f.Message)
}

// CancelReason reads what a CANCEL says about itself. Nothing here is ever an error: what is blank, unknown or of the
// wrong type counts as absent (spec/wire.md 11.1).
func (f *Frame) CancelReason() failure.CancelReason {
	code, class, message, _, broken := identity(f)
	r := failure.CancelReason{ForceKill: f.Has.Has(KeyForceKill) && f.ForceKill}
	if broken {
		return r
	}
	if s, ok := code.words(); ok {
		r.Code = s
	}
	if s, ok := message.words(); ok {
		r.Message = s
	}
	if s, _ := class.text(); failure.Class(s).Valid() {
		r.Class = failure.Class(s)
	}
	return r
}

// AppendCancelMeta appends the meta of the CANCEL with reason r; what is blank or invalid is left out. A reason with
// nothing to say has no meta: then dst comes back unchanged, and key 5 should not be set.
func AppendCancelMeta(dst []byte, r failure.CancelReason) []byte {
	code, message := strings.TrimSpace(r.Code) != "", strings.TrimSpace(r.Message) != ""
	class := r.Class.Valid()
	if !code && !message && !class {
		return dst
	}
	dst = mapHead(dst, code, message, class)
	if class {
		dst = putText(dst, "attribution_class", string(r.Class))
	}
	if code {
		dst = putText(dst, "code", r.Code)
	}
	if message {
		dst = putText(dst, "message", r.Message)
	}
	return dst
}

// identity finds the four entries that ERR and CANCEL share.
func identity(f *Frame) (code, class, message, argURN metaValue, broken bool) {
	w := walkMeta(f)
	for key, v, ok := w.next(); ok; key, v, ok = w.next() {
		switch string(key) {
		case "code":
			code = v
		case "attribution_class":
			class = v
		case "message":
			message = v
		case "arg_urn":
			argURN = v
		}
	}
	return code, class, message, argURN, w.broken
}
