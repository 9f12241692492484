package host

import (
	"errors"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Kind says what is wrong with a cartridge that cannot be used.
type Kind string

// The kinds of.
const (
	KindIncompatible          Kind = "incompatible"
	KindManifestInvalid       Kind = "manifest_invalid"
	KindHandshakeFailed       Kind = "handshake_failed"
	KindIdentityRejected      Kind = "identity_rejected"
	KindEntryPointMissing     Kind = "entry_point_missing"
	KindQuarantined           Kind = "quarantined"
	KindBadInstallation       Kind = "bad_installation"
	KindDisabled              Kind = "disabled"
	KindRegistryUnreachable   Kind = "registry_unreachable"
	KindFabricVersionMismatch Kind = "fabric_manifest_version_mismatch"
)

// AttachmentError is why a cartridge cannot be used. The first failure's kind and message are kept.
type AttachmentError struct {
	Kind                  Kind   `json:"kind"`
	Message               string `json:"message"`
	DetectedAtUnixSeconds int64  `json:"detected_at_unix_seconds"`
}

// Error is "kind: message".
func (e *AttachmentError) Error() string { return string(e.Kind) + ": " + e.Message }

// startError is a SPAWN_FAILED with the kind for the inventory.
type startError struct {
	*failure.Failure
	kind Kind
}

// Unwrap gives the failure, so that errors.As finds it.
func (e *startError) Unwrap() error { return e.Failure }

// kindOf names what went wrong before a link was live.
func kindOf(err error) Kind {
	switch {
	case errors.Is(err, ErrIdentity):
		return KindIdentityRejected
	case errors.Is(err, errManifest):
		return KindManifestInvalid
	case frame.TokenOf(err) == frame.TokenVersionMismatch:
		return KindIncompatible
	}
	return KindHandshakeFailed
}

// errManifest marks a HELLO whose manifest is not accepted.
var errManifest = errors.New("manifest")
