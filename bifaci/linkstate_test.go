package bifaci_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// anyFrame is one frame of each type that has a row in table 3.1, for an id that no request has.
func anyFrame(typ frame.Type) cartridgetest.Frame {
	var f cartridgetest.Frame
	switch typ {
	case frame.TypeHello:
		return cartridgetest.HelloFrame(frame.DefaultLimits()).With(frame.KeyID, uint64(77))
	case frame.TypePolicy:
		return cartridgetest.PolicyFrame(bifaci.Policy{Name: "second"})
	case frame.TypeReq:
		f = cartridgetest.ReqFrame(capNamed("one"))
	case frame.TypeStreamStart:
		f = cartridgetest.StartFrame("s", "media:")
	case frame.TypeChunk:
		f = cartridgetest.ChunkFrame("s", 0, cartridgetest.Bytes("x"))
	case frame.TypeStreamEnd:
		f = cartridgetest.StreamEndFrame("s", 0)
	case frame.TypeEnd:
		f = cartridgetest.EndFrame(false)
	case frame.TypeErr:
		f = cartridgetest.ErrFrame("X", failure.Input, "x")
	case frame.TypeLog:
		f = cartridgetest.LogFrame("info", failure.Internal, "x")
	case frame.TypeHeartbeat:
		f = cartridgetest.HeartbeatFrame(nil)
	case frame.TypeCredit:
		f = cartridgetest.CreditFrame(frame.CreditResponse, "s", 1)
	case frame.TypeCancel:
		f = cartridgetest.CancelFrame(failure.UserCancel())
	case frame.TypeCloseStream:
		f = cartridgetest.CloseStreamFrame("s")
	default: // the relay frames
		f = cartridgetest.HeartbeatFrame(nil).With(frame.KeyType, uint64(typ)).With(frame.KeyPayload, []byte("x"))
	}
	return f.With(frame.KeyID, uint64(77))
}

// allTypes are the types of version 6.
func allTypes() (types []frame.Type) {
	for typ := frame.TypeHello; typ <= frame.TypePolicy; typ++ {
		if typ != 2 {
			types = append(types, typ)
		}
	}
	return types
}

func TestPolicyGate(t *testing.T) {
	virtual(t, "R-3.2 the exemption is for equivalents of identity and nothing broader", func(t *testing.T) {
		c, err := bifaci.New(manifestOf())
		require.NoError(t, err)
		h := cartridgetest.Start(t, c, cartridgetest.WithoutPolicy())
		for _, u := range []string{"cap:effect=none", `cap:effect="none"`, `cap:out=media:;effect=none;in=media:`} {
			h.Request(u).Chunk("x").End().WantItems("x").WantEnd()
		}
		for _, u := range []string{"cap:in=media:;effect=none;other", `cap:effect=none;in="media:enc=utf-8"`, urn.Discard, "nonsense", ""} {
			h.RequestFrame(cartridgetest.ReqFrame(u)).WantErr(failure.ProtocolViolation, failure.Internal)
		}
	})
	virtual(t, "R-3.3 without a policy it goes on like that for ever", func(t *testing.T) {
		c := cartridgeOf(t, nil, nil, answers("one"))
		h := cartridgetest.Start(t, c, cartridgetest.WithoutPolicy())
		for range 100 {
			h.RequestFrame(cartridgetest.ReqFrame(capNamed("one"))).WantErr(failure.ProtocolViolation, failure.Internal)
			h.Probe()
			h.Request(urn.Identity).End().WantEnd()
		}
		h.WantIdle()
		h.CloseInput()
		require.NoError(t, h.Wait())
	})
}

func TestRequestChecks(t *testing.T) {
	req := cartridgetest.ReqFrame(capNamed("one"))
	for _, tc := range []struct {
		name    string
		f       cartridgetest.Frame
		code    string
		class   failure.Class
		policed bool
	}{
		{"no cap", req.Without(frame.KeyCap), failure.InvalidRequest, failure.Internal, true},
		{"no cap comes before the policy gate", req.Without(frame.KeyCap), failure.InvalidRequest, failure.Internal, false},
		{"the policy gate comes before the lookup", cartridgetest.ReqFrame(capNamed("other")), failure.ProtocolViolation, failure.Internal, false},
		{"the lookup comes before the payload",
			cartridgetest.ReqFrame(capNamed("other")).With(frame.KeyPayload, []byte("x")), failure.NoHandler, failure.Environment, true},
		{"a payload", req.With(frame.KeyPayload, []byte("x")), failure.ProtocolError, failure.Internal, true},
	} {
		start := func(t *testing.T) (*cartridgetest.Host, *bifaci.Cartridge) {
			var opts []cartridgetest.Option
			if !tc.policed {
				opts = append(opts, cartridgetest.WithoutPolicy())
			}
			c := cartridgeOf(t, nil, nil, answers("one"))
			return cartridgetest.Start(t, c, opts...), c
		}
		virtual(t, "R-3.4 "+tc.name, func(t *testing.T) {
			h, _ := start(t)
			h.RequestFrame(tc.f).WantErr(tc.code, tc.class)
			h.WantIdle()
		})
		virtual(t, "R-3.5 the ERR carries the routing id: "+tc.name, func(t *testing.T) {
			h, _ := start(t)
			for _, xid := range []frame.ID{frame.UintID(5), frame.NewUUID(), {}} {
				r := h.RequestFrame(tc.f, cartridgetest.WithRouting(xid))
				r.WantErr(tc.code, tc.class)
				assert.Equal(t, xid, r.Terminal().Routing())
				assert.Equal(t, !xid.IsZero(), r.Terminal().Has(frame.KeyRoutingID))
			}
		})
		virtual(t, "R-3.6 what follows straggles and is not answered: "+tc.name, func(t *testing.T) {
			h, c := start(t)
			r := h.RequestFrame(tc.f)
			r.WantErr(tc.code, tc.class)
			r.Send(cartridgetest.StartFrame("s", "media:"), cartridgetest.ChunkFrame("s", 0, cartridgetest.Bytes("x")),
				cartridgetest.StreamEndFrame("s", 1), cartridgetest.EndFrame(false), cartridgetest.CancelFrame(failure.UserCancel()))
			h.Probe()
			synctest.Wait()
			assert.EqualValues(t, 5, c.Stragglers().Total)
			assert.Zero(t, c.Drops().Total)
			assert.Len(t, r.Frames(), 1)
		})
	}
	virtual(t, "R-3.4 an empty payload is as good as none", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, answers("one")))
		h.RequestFrame(req.Without(frame.KeyPayload)).WantItems("one").WantEnd()
	})
	virtual(t, "R-3.4 a duplicate is found first, or its refusal would be a second terminal", func(t *testing.T) {
		g := newGate()
		c := cartridgeOf(t, nil, nil, served{"one", g.handle})
		h := cartridgetest.Start(t, c)
		r := h.Request(capNamed("one"))
		<-g.started
		r.Send(cartridgetest.ReqFrame("nonsense").With(frame.KeyPayload, []byte("x")))
		h.Probe()
		synctest.Wait()
		assert.Nil(t, r.Terminal(), "nothing before the handler has returned")
		g.open()
		r.WantErr(failure.ProtocolError, failure.Internal)
		h.WantIdle()
	})
}
