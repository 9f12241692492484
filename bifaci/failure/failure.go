package failure

import (
	"errors"
	"fmt"
	"strings"
)

// Failure is an error that declares how it goes onto the wire: as an ERR frame with this code, class, message and
// argument. The zero value is not useful; see [New].
type Failure struct {
	Code    string // not blank on the wire; blank becomes HANDLER_ERROR
	Class   Class
	Message string // not blank on the wire; blank becomes the code
	ArgURN  string // media URN of the argument to blame, or empty
	Err     error  // the cause for errors.Is and errors.As; never on the wire; may be nil
}

// New makes a failure of the given identity.
func New(code string, class Class, message string) *Failure {
	return &Failure{Code: code, Class: class, Message: message}
}

// Newf is [New] with a formatted message; a %w verb in format is wrapped.
func Newf(code string, class Class, format string, args ...any) *Failure {
	err := fmt.Errorf(format, args...)
	return &Failure{Code: code, Class: class, Message: err.Error(), Err: errors.Unwrap(err)}
}

// ForArgument returns a copy of f that blames the argument with this media URN.
func (f *Failure) ForArgument(argURN string) *Failure {
	g := *f
	g.ArgURN = argURN
	return &g
}

// Error is "CODE: message".
func (f *Failure) Error() string { return f.Code + ": " + f.Message }

// Unwrap returns the cause, if there is one.
func (f *Failure) Unwrap() error { return f.Err }

// Classified is what an error of another package implements to declare its own identity on the wire.
type Classified interface {
	error
	FailureCode() string
	FailureClass() Class
	FailureMessage() string
	FailureArgURN() string
}

// FailureCode implements [Classified].
func (f *Failure) FailureCode() string { return f.Code }

// FailureClass implements [Classified].
func (f *Failure) FailureClass() Class { return f.Class }

// FailureMessage implements [Classified].
func (f *Failure) FailureMessage() string { return f.Message }

// FailureArgURN implements [Classified].
func (f *Failure) FailureArgURN() string { return f.ArgURN }

// Remote is a failure that the other end of the link declared: the requester's ERR on a body, or the answer of a
// peer call. It keeps code, class, message and argument, and passes on unchanged.
type Remote struct{ Failure }

// Error is "remote CODE: message".
func (r *Remote) Error() string { return "remote " + r.Failure.Error() }

// From gives the wire identity of any error: that of the first [Classified] error in its chain, otherwise
// HANDLER_ERROR/internal with the error's text. Code, class and message of the result are never blank and
// the class is never guessed from text: an invalid class becomes internal. From(nil) is nil.
func From(err error) *Failure {
	if err == nil {
		return nil
	}
	f := &Failure{Code: HandlerError, Class: Internal, Message: err.Error(), Err: err}
	var c Classified
	if errors.As(err, &c) {
		f.Code, f.Class, f.Message, f.ArgURN = c.FailureCode(), c.FailureClass(), c.FailureMessage(), c.FailureArgURN()
	}
	if strings.TrimSpace(f.Code) == "" {
		f.Code = HandlerError
	}
	if !f.Class.Valid() {
		f.Class = Internal
	}
	if strings.TrimSpace(f.Message) == "" {
		f.Message = f.Code
	}
	if strings.TrimSpace(f.ArgURN) == "" {
		f.ArgURN = ""
	}
	return f
}
