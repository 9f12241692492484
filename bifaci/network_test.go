package bifaci_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/host"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

var reaches = []bifaci.Reach{bifaci.ReachThirdParty, bifaci.ReachOurServices, bifaci.ReachTelemetry}

// allowed says which reaches a handle allows.
func allowed(n bifaci.NetworkAccess) (yes string) {
	for _, r := range reaches {
		if n.Allow(r) == nil {
			yes += fmt.Sprint(r, ";")
		}
	}
	return yes
}

const everything = "third-party services;our services;telemetry;"

func TestPolicy(t *testing.T) {
	// handle gives a running handler's access.
	handle := func(t *testing.T, opts ...cartridgetest.Option) (*cartridgetest.Host, *cartridgetest.Request, bifaci.NetworkAccess) {
		t.Helper()
		handles := make(chan bifaci.NetworkAccess, 1)
		h := cartridgetest.Start(t, cartridgetest.Serving(t, workCap, func(ctx context.Context, r *bifaci.Request) error {
			handles <- r.Network()
			<-ctx.Done()
			return nil
		}), opts...)
		req := h.Request(workCap)
		return h, req, <-handles
	}
	for name, c := range map[string]struct {
		policy bifaci.Policy
		want   string
	}{
		"online":       {host.Online(), everything},
		"no-telemetry": {host.NoTelemetry(), "third-party services;our services;"},
		"our-services": {host.OurServices(), "our services;"},
		"offline":      {host.Offline(), ""},
	} {
		t.Run("R-8.55 the ready-made policy "+name, func(t *testing.T) {
			assert.Equal(t, name, c.policy.Name)
			_, _, n := handle(t, cartridgetest.WithPolicy(c.policy))
			assert.Equal(t, c.want, allowed(n))
		})
	}
	t.Run("R-8.55 the permissions decide, whatever the name says", func(t *testing.T) {
		_, _, n := handle(t, cartridgetest.WithPolicy(bifaci.Policy{Name: "offline", ThirdParty: true}))
		assert.Equal(t, "third-party services;", allowed(n))
	})
	virtual(t, "R-8.50 handles and copies of running handlers see a new policy at their next check", func(t *testing.T) {
		h, req, n := handle(t)
		copied := n
		assert.Equal(t, everything, allowed(n))
		h.Policy(host.Offline())
		synctest.Wait()
		assert.Empty(t, allowed(n))
		assert.Empty(t, allowed(copied))
		h.Policy(host.OurServices())
		synctest.Wait()
		assert.Equal(t, "our services;", allowed(copied))
		req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
		h.Policy(host.Online())
		synctest.Wait()
		assert.Equal(t, everything, allowed(n), "R-8.52: also after the request")
	})
	t.Run("R-8.50 R-8.52 policies change while many ask: each answer is one policy's, whole", func(t *testing.T) {
		h, _, n := handle(t)
		done := make(chan struct{})
		var askers sync.WaitGroup
		for range 4 {
			askers.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					var refused *bifaci.NetworkRefused
					if err := n.Allow(bifaci.ReachTelemetry); err != nil && (!errors.As(err, &refused) || refused.Policy != "offline") {
						t.Errorf("got %v", err)
						return
					}
				}
			})
		}
		for range 200 {
			h.Policy(host.Offline())
			h.Policy(host.Online())
		}
		h.Probe()
		close(done)
		askers.Wait()
	})
	t.Run("R-8.51 a refusal names the reach and the policy", func(t *testing.T) {
		_, _, n := handle(t, cartridgetest.WithPolicy(host.Offline()))
		for _, reach := range reaches {
			err := n.Allow(reach)
			var refused *bifaci.NetworkRefused
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, bifaci.NetworkRefused{Reach: reach, Policy: "offline"}, *refused)
			assert.ErrorContains(t, err, "offline")
			assert.ErrorContains(t, err, reach.String())
			f := failure.From(fmt.Errorf("fetching the model: %w", err))
			assert.Equal(t, "NETWORK_POLICY", f.Code)
			assert.Equal(t, failure.User, f.Class)
			assert.Contains(t, f.Message, "offline")
		}
		assert.Error(t, n.Allow(0), "no reach")
		assert.Error(t, n.Allow(99), "an unknown reach is never allowed")
	})
	t.Run("R-8.53 before any policy every reach is refused", func(t *testing.T) {
		c, err := bifaci.New(manifestOf())
		require.NoError(t, err)
		require.NoError(t, c.RegisterFunc(urn.Identity, func(ctx context.Context, r *bifaci.Request) error {
			return r.Output().EmitItem(ctx, allowed(r.Network()), nil)
		}))
		h := cartridgetest.Start(t, c, cartridgetest.WithoutPolicy())
		req := h.Request(urn.Identity).End()
		req.WantItems("")
		req.WantEnd()
		h.Policy(host.Online())
		req = h.Request(urn.Identity).End()
		req.WantItems(everything)
		req.WantEnd()
	})
	t.Run("R-8.53 on the command line everything is allowed, unless the author says otherwise", func(t *testing.T) {
		for want, opts := range map[string][]bifaci.Option{everything: nil, "our services;": {bifaci.WithCLIPolicy(host.OurServices())}} {
			var out logLines
			c := cartridgetest.Serving(t, workCap, func(_ context.Context, r *bifaci.Request) error {
				_, err := r.Output().Write([]byte(allowed(r.Network())))
				return err
			}, opts...)
			require.NoError(t, c.RunCLI(t.Context(), []string{"under-test"}, strings.NewReader("x"), &out, io.Discard))
			assert.Equal(t, want, out.String())
		}
	})
	for name, meta := range map[string]any{
		"no meta":              nil,
		"no name":              map[string]any{"network": map[string]any{"third_party": true, "our_services": true, "telemetry": true}},
		"an empty name":        map[string]any{"network": map[string]any{"name": "", "third_party": true, "our_services": true, "telemetry": true}},
		"a permission missing": map[string]any{"network": map[string]any{"name": "n", "third_party": true, "our_services": true}},
		"a permission of text": map[string]any{"network": map[string]any{"name": "n", "third_party": "yes", "our_services": true, "telemetry": true}},
		"no map":               map[string]any{"network": "online"},
	} {
		t.Run("R-8.54 R-2.32 a malformed POLICY is broken input: "+name, func(t *testing.T) {
			h, req, n := handle(t)
			f := cartridgetest.PolicyFrame(host.Offline()).Without(frame.KeyMeta)
			if meta != nil {
				f = f.With(frame.KeyMeta, meta)
			}
			h.Send(f)
			req.WantErr("PROTOCOL_ERROR", failure.Internal)
			assert.Error(t, h.Wait())
			assert.Equal(t, everything, allowed(n), "what was sent before stands")
		})
	}
}

// roundTripper answers without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// closeChecker is a body that remembers that it was closed.
type closeChecker struct {
	io.Reader
	closed bool
}

func (c *closeChecker) Close() error { c.closed = true; return nil }

func TestTransport(t *testing.T) {
	virtual(t, "R-8.56 it asks before every request, and closes the body of a refused one", func(t *testing.T) {
		answered := 0
		base := roundTripper(func(*http.Request) (*http.Response, error) {
			answered++
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})
		transports := make(chan http.RoundTripper, 1)
		h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
			transports <- r.Network().Transport(bifaci.ReachThirdParty, base)
			<-ctx.Done()
			return nil
		})
		h.Request(workCap)
		client := http.Client{Transport: <-transports}
		post := func() (*closeChecker, error) {
			body := &closeChecker{Reader: strings.NewReader("hello")}
			res, err := client.Post("https://example.invalid/", "text/plain", body)
			if err == nil {
				err = res.Body.Close()
			}
			return body, err
		}
		_, err := post()
		require.NoError(t, err)
		h.Policy(host.OurServices())
		synctest.Wait()
		body, err := post()
		var refused *bifaci.NetworkRefused
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, bifaci.ReachThirdParty, refused.Reach)
		assert.True(t, body.closed)
		assert.Equal(t, 1, answered)
		_, err = client.Get("https://example.invalid/")
		assert.ErrorAs(t, err, &refused, "without a body too")
		h.Policy(host.Online())
		synctest.Wait()
		_, err = post()
		require.NoError(t, err)
		assert.Equal(t, 2, answered)
	})
}

func TestPolicyEndsAHandler(t *testing.T) {
	virtual(t, "R-8.57 R-8.51 a handler in a loop of Allow and fetch ends NETWORK_POLICY/user when the host forbids", func(t *testing.T) {
		turn := make(chan struct{})
		h := worker(t, 32, func(ctx context.Context, r *bifaci.Request) error {
			for i := 0; ; i++ {
				if err := r.Network().Allow(bifaci.ReachThirdParty); err != nil {
					return fmt.Errorf("fetch %d: %w", i, err)
				}
				if err := r.Output().EmitItem(ctx, fmt.Sprint("fetched ", i), nil); err != nil {
					return err
				}
				<-turn
			}
		})
		req := h.Request(workCap)
		req.WantItems("fetched 0")
		turn <- struct{}{}
		req.WantItems("fetched 1")
		h.Policy(host.Offline())
		synctest.Wait()
		turn <- struct{}{}
		got := req.WantErr("NETWORK_POLICY", failure.User)
		assert.Contains(t, got.Message, "offline")
		assert.Len(t, chunks(req), 2)
	})
}
