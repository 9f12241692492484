package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/pools"
)

// ErrIdentity is what a failed identity check matches.
var ErrIdentity = errors.New("host: identity check failed")

// HandshakeResult is what the two HELLOs agreed on.
type HandshakeResult struct {
	Limits   frame.Limits
	Manifest *manifest.Manifest
	JSON     []byte // the manifest as it came
	Pools    pools.States
	Warnings []string // what a lenient reading of the manifest let pass
}

// frameReader is the reading end of a link before it is live.
type frameReader interface {
	Next() (*frame.Frame, error)
	SetMaxFrame(uint64)
}

// Handshake makes the first exchange of a link: the host's HELLO out, the cartridge's HELLO in, checked against every refusal of
// spec/wire.md 6.1. Both ends of the codec have the negotiated limits when it returns. It ends early with ctx only where
// the reader does.
func Handshake(ctx context.Context, r *frame.Reader, w *frame.Writer, proposal frame.Limits) (HandshakeResult, error) {
	res, err := handshake(ctx, plainReader{r}, flushed(w), proposal)
	if err == nil {
		w.SetLimits(res.Limits)
	}
	return res, err
}

// flushed writes one frame at once: the other end waits for it.
func flushed(w *frame.Writer) func(*frame.Frame) error {
	return func(f *frame.Frame) error {
		if err := w.Write(f); err != nil {
			return err
		}
		return w.Flush()
	}
}

// plainReader is a frame.Reader as a frameReader.
type plainReader struct{ r *frame.Reader }

func (p plainReader) Next() (*frame.Frame, error) { return p.r.Read() }
func (p plainReader) SetMaxFrame(n uint64)        { p.r.SetLimits(frame.Limits{MaxFrame: n}) }

func handshake(ctx context.Context, r frameReader, write func(*frame.Frame) error, proposal frame.Limits) (res HandshakeResult, err error) {
	if err := write(frame.HostHello(proposal)); err != nil {
		return res, fmt.Errorf("%w: writing hello: %w", bifaci.ErrHandshake, err)
	}
	f, err := r.Next()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return res, fmt.Errorf("%w: waiting for the cartridge's hello: %w", bifaci.ErrHandshake, err)
	}
	h, agreed, err := frame.AcceptHello(f, frame.RoleCartridge, proposal)
	if err != nil {
		return res, fmt.Errorf("%w: %w", bifaci.ErrHandshake, err)
	}
	res = HandshakeResult{Limits: agreed, JSON: bytes.Clone(h.Manifest)}
	if res.Pools, err = pools.DecodeStates(h.Pools); err != nil {
		return res, fmt.Errorf("%w: pools: %w", bifaci.ErrHandshake, err)
	}
	if res.Manifest, res.Warnings, err = manifest.ParseLenientHello(res.JSON); err == nil {
		err = res.Manifest.Validate()
	}
	if err != nil {
		return res, fmt.Errorf("%w: %w: %w", bifaci.ErrHandshake, errManifest, err)
	}
	r.SetMaxFrame(agreed.MaxFrame)
	return res, nil
}

// VerifyIdentity asks the cartridge to echo a nonce through cap:effect=none and checks ids, checksums, the bytes and the
// successful END. CREDIT, LOG and HEARTBEAT are tolerated, the last is answered; anything else fails it. It
// ends early with ctx only where the reader does.
func VerifyIdentity(ctx context.Context, r *frame.Reader, w *frame.Writer) error {
	return verifyIdentity(ctx, plainReader{r}, flushed(w))
}

func verifyIdentity(ctx context.Context, r frameReader, write func(*frame.Frame) error) error {
	check := identityCheck{id: frame.NewUUID()}
	for _, f := range frame.IdentityRequest(check.id, frame.UintID(0)) {
		if err := write(f); err != nil {
			return fmt.Errorf("%w: %w", ErrIdentity, err)
		}
	}
	for {
		f, err := r.Next()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			} else if errors.Is(err, io.EOF) {
				err = fmt.Errorf("the cartridge ended: %w", err)
			}
			return fmt.Errorf("%w: %w", ErrIdentity, err)
		}
		if f.Type == frame.TypeHeartbeat {
			var reply frame.Frame
			reply.Reset(frame.TypeHeartbeat, f.ID)
			if err := write(&reply); err != nil {
				return fmt.Errorf("%w: %w", ErrIdentity, err)
			}
			continue
		}
		done, err := check.take(f)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrIdentity, err)
		}
		if done {
			return nil
		}
	}
}

// identityCheck follows the answer to the identity request.
type identityCheck struct {
	id      frame.ID
	started bool
	got     []byte
}

func (c *identityCheck) take(f *frame.Frame) (done bool, err error) {
	switch f.Type {
	case frame.TypeCredit, frame.TypeLog:
		return false, nil
	case frame.TypeStreamStart, frame.TypeChunk, frame.TypeStreamEnd, frame.TypeEnd, frame.TypeErr:
	default:
		return false, fmt.Errorf("a %s frame in the answer", f.Type)
	}
	if f.ID != c.id {
		return false, fmt.Errorf("a %s frame of request %s, not of %s", f.Type, f.ID, c.id)
	}
	switch f.Type {
	case frame.TypeStreamStart:
		c.started = true
	case frame.TypeChunk:
		inner, ok := frame.InnerBytes(f.Payload)
		switch {
		case !c.started:
			return false, errors.New("a chunk before its stream has started")
		case f.Checksum != frame.Checksum(f.Payload):
			return false, fmt.Errorf("chunk %d has the wrong checksum", f.ChunkIndex)
		case !ok:
			return false, fmt.Errorf("chunk %d is not a byte string", f.ChunkIndex)
		case len(c.got)+len(inner) > len(frame.IdentityNonce()):
			return false, errors.New("more bytes came back than were sent")
		}
		c.got = append(c.got, inner...)
	case frame.TypeErr:
		e, err := f.Failure()
		if err != nil {
			return false, err
		}
		return false, e
	case frame.TypeEnd:
		status, err := f.EndStatus()
		switch {
		case err != nil:
			return false, err
		case !status.Success():
			return false, errors.New("the answer's END has no exit_code 0")
		case !bytes.Equal(c.got, frame.IdentityNonce()):
			return false, fmt.Errorf("% x came back, % x was sent", c.got, frame.IdentityNonce())
		}
		return true, nil
	}
	return false, nil
}
