package frame

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The tokens of refused frames (spec/wire.md section 17), grouped by the layer that judges.
const (
	// framing: the connection ends
	TokenTruncatedPrefix = "truncated-prefix"
	TokenTruncatedBody   = "truncated-body"
	TokenEmptyFrame      = "empty-frame"
	TokenFrameTooLarge   = "frame-too-large"
	// cbor: the connection ends
	TokenBadCBOR       = "bad-cbor"
	TokenTrailingBytes = "trailing-bytes"
	TokenNotAMap       = "not-a-map"
	TokenInvalidUTF8   = "invalid-utf8"
	TokenTooDeep       = "too-deep"
	TokenDuplicateKey  = "duplicate-key"
	TokenBadKey        = "bad-key"
	// frame: the connection ends (missing-field also at the request layer, where it costs the request only)
	TokenMissingField = "missing-field"
	TokenBadVersion   = "bad-version"
	TokenBadType      = "bad-type"
	TokenWrongType    = "wrong-type"
	TokenBadID        = "bad-id"
	// meaning: what it costs depends on the frame (spec/wire.md 2.3)
	TokenChecksumMismatch = "checksum-mismatch"
	TokenBadLog           = "bad-log"
	TokenBadErr           = "bad-err"
	TokenBadCredit        = "bad-credit"
	TokenBadHello         = "bad-hello"
	TokenZeroLimit        = "zero-limit"
	TokenVersionMismatch  = "version-mismatch"
	TokenBadPolicy        = "bad-policy"
	TokenBadHeartbeat     = "bad-heartbeat"
)

// Nowhere stands in [SyntaxError] for a key or an offset that does not apply.
const Nowhere = -1

// SyntaxError says why bytes are no frame, or why a frame does not mean what its type promises.
type SyntaxError struct {
	Token  string // one of the Token… constants
	Key    int    // the frame key concerned, or Nowhere
	Offset int    // where in the frame body (for a lone value: in the value), in bytes, or Nowhere
	Detail string // what was found and what would be right
	Err    error  // io.ErrUnexpectedEOF for the truncated tokens, otherwise usually nil
}

// Error is "token: key 14 (chunk_index), offset 33: detail".
func (e *SyntaxError) Error() string {
	var b strings.Builder
	b.WriteString(e.Token)
	sep := ": "
	if e.Key >= 0 {
		b.WriteString(sep + "key " + strconv.Itoa(e.Key))
		if e.Key < len(keyNames) {
			b.WriteString(" (" + keyNames[e.Key] + ")")
		}
		sep = ", "
	}
	if e.Offset >= 0 {
		b.WriteString(sep + "offset " + strconv.Itoa(e.Offset))
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	return b.String()
}

// Unwrap returns the cause, if there is one.
func (e *SyntaxError) Unwrap() error { return e.Err }

// TokenOf is the token of the first [SyntaxError] in err's chain, or nothing.
func TokenOf(err error) string {
	if e, ok := errors.AsType[*SyntaxError](err); ok {
		return e.Token
	}
	return ""
}

// syntaxf makes an error about the bytes at an offset; the key is filled in by whoever knows it.
func syntaxf(token string, offset int, format string, args ...any) *SyntaxError {
	return &SyntaxError{Token: token, Key: Nowhere, Offset: offset, Detail: fmt.Sprintf(format, args...)}
}

// meaningf makes an error about a frame whose bytes are in order; its meta does not say what it must.
func meaningf(token, format string, args ...any) *SyntaxError {
	return &SyntaxError{Token: token, Key: int(KeyMeta), Offset: Nowhere, Detail: fmt.Sprintf(format, args...)}
}

// truncatedf makes an error about input that ended too early.
func truncatedf(token, format string, args ...any) *SyntaxError {
	return &SyntaxError{Token: token, Key: Nowhere, Offset: Nowhere, Detail: fmt.Sprintf(format, args...),
		Err: io.ErrUnexpectedEOF}
}
