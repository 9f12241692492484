package failure

import "strings"

// CancelReason is what a CANCEL says about itself (spec/wire.md 11.1). Every field is optional; a blank or unknown
// value counts as absent. The zero value is the unattributed cancel.
type CancelReason struct {
	Code      string
	Class     Class
	Message   string
	ForceKill bool // acted on by a host only; a cartridge treats it as false
}

// Unattributed is a cancel that names nobody.
func Unattributed() CancelReason { return CancelReason{} }

// UserCancel is a person's decision: CANCELLED/user.
func UserCancel() CancelReason {
	return CancelReason{Code: Cancelled, Class: User, Message: "Cancelled by user"}
}

// Collateral is a cancel because something else in the run failed; class is that failure's.
func Collateral(class Class, detail string) CancelReason {
	return CancelReason{Code: AbortedCollateral, Class: class, Message: detail}
}

// HostAbort is the host's own decision.
func HostAbort(class Class, detail string) CancelReason {
	return CancelReason{Code: Aborted, Class: class, Message: detail}
}

// Terminal is the failure that ends the cancelled request: the table of spec/wire.md 11.1, word for word.
func (r CancelReason) Terminal() *Failure {
	code, message := present(r.Code), present(r.Message)
	class := r.Class
	if !class.Valid() {
		class = Internal
	}
	f := &Failure{Code: code, Class: class}
	switch {
	case code == "":
		f.Code, f.Message = Cancelled, prefixed("Request cancelled", message)
	case code == AbortedCollateral:
		f.Message = prefixed("Request aborted as collateral of a failure elsewhere in the run", message)
	case code == Aborted:
		f.Message = prefixed("Request aborted by the host", message)
	case message == "":
		f.Message = "Request cancelled (" + code + ")"
	case code == Cancelled:
		f.Message = message
	default:
		f.Message = code + ": " + message
	}
	return f
}

// CancelledError is the cause of a context that ended because its request was cancelled; Reason says by whom.
type CancelledError struct{ Reason CancelReason }

// Error is the terminal's text.
func (e *CancelledError) Error() string { return e.Reason.Terminal().Error() }

// Unwrap gives the terminal, so that a handler that returns the cause declares the reason's identity.
func (e *CancelledError) Unwrap() error { return e.Reason.Terminal() }

// present returns s, or nothing when it is blank.
func present(s string) string {
	if strings.TrimSpace(s) == "" {
		return ""
	}
	return s
}

func prefixed(prefix, message string) string {
	if message == "" {
		return prefix
	}
	return prefix + ": " + message
}
