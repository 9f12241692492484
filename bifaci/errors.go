package bifaci

import (
	"errors"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/stages"
)

// States that a caller branches on. Errors that carry data are [*failure.Failure], [*failure.Remote] and
// [*failure.CancelledError].
var (
	ErrIdentityMissing = manifest.ErrIdentityMissing // the manifest does not declare cap:effect=none
	ErrManifestInvalid = manifest.ErrInvalid         // the manifest does not parse or breaks a rule
	ErrRunning         = errors.New("bifaci: handlers cannot be registered after the start")
	ErrAlreadyRun      = errors.New("bifaci: a cartridge runs once")
	ErrHandshake       = errors.New("bifaci: handshake failed")
	ErrOutputClosed    = errors.New("bifaci: the frame output failed")
	ErrNoHandler       = errors.New("bifaci: no handler")

	ErrInputTaken      = errors.New("bifaci: the input was taken already")
	ErrUnbounded       = errors.New("bifaci: the stream is unbounded")
	ErrStreamEmpty     = errors.New("bifaci: the stream has no item")
	ErrMissingArgument = errors.New("bifaci: missing argument")
	ErrNotStreaming    = errors.New("bifaci: the cap declares no streaming output")
	ErrPeerUnsupported = errors.New("bifaci: there is no host to call other caps with")
	ErrNotRunning      = errors.New("bifaci: the cartridge does not run")

	ErrNotStarted = errors.New("bifaci: the stream is not started")
	ErrStarted    = stages.ErrStarted
	ErrClosed     = stages.ErrClosed
	ErrStreamMode = stages.ErrStreamMode

	ErrValueTooLarge = stages.ErrValueTooLarge
)

// errConnectionClosed is what waits fail with when the input ended before they could be met.
func errConnectionClosed(what string) *failure.Failure {
	return failure.New(failure.ConnectionClosed, failure.Environment, "the input of the link ended before "+what)
}
