package host_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/host"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/pools"
)

// attachFake attaches a cartridge whose frames the test writes itself, live and with caps.
func attachFake(t *testing.T, h *host.Host, caps ...manifest.Cap) (*fake, host.ID) {
	t.Helper()
	return attachLimited(t, h, frame.DefaultLimits(), caps...)
}

// attachLimited is attachFake with limits of the cartridge's own.
func attachLimited(t *testing.T, h *host.Host, l frame.Limits, caps ...manifest.Cap) (*fake, host.ID) {
	t.Helper()
	f := newFake(t)
	type attached struct {
		id  host.ID
		err error
	}
	done := inBackground(func() attached {
		id, err := h.Attach(t.Context(), f.hostIn, f.hostOut)
		return attached{id, err}
	})
	f.want(frame.TypeHello)
	answer := cartridgetest.HelloFrame(l)
	answer.Meta()["manifest"], answer.Meta()["pools"] = manifestJSON(t, caps...), []byte(noPools)
	f.send(answer)
	f.answer(f.takeIdentity(), answerBytes("\x66bifaci")...)
	f.want(frame.TypePolicy)
	got := wait(t, done, "the cartridge to be attached")
	require.NoError(t, got.err)
	return f, got.id
}

func plainCap(slug string) manifest.Cap {
	return manifest.NewCap(named(slug), slug, slug).WithArgs(manifest.NewArg("media:", true, manifest.Stdin("media:"))).
		WithOutput(manifest.NewOutput("media:", slug))
}

// closing shuts a host down at the end of the test.
func closing(t *testing.T, opts ...host.Option) *host.Host {
	h := host.New(append([]host.Option{host.WithShutdownGrace(time.Second)}, opts...)...)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = h.Shutdown(ctx)
	})
	return h
}

// probed waits for the next probe and gives its id.
func (f *fake) probed() Frame {
	f.t.Helper()
	select {
	case got := <-f.got:
		require.Equal(f.t, frame.TypeHeartbeat, got.Type())
		return got
	case <-time.After(time.Hour): // virtual
		f.t.Fatal("the host sends no probe")
	}
	return nil
}

func TestHeartbeats(t *testing.T) {
	virtual(t, "R-12.40 a probe every 30 s from going live, with fresh ids; answered ones keep it alive", func(t *testing.T) {
		h := closing(t)
		f, id := attachFake(t, h, plainCap("a"))
		live := time.Now()
		ids := map[frame.ID]bool{}
		for n := 1; n <= 5; n++ {
			p := f.probed()
			assert.Equal(t, time.Duration(n)*30*time.Second, time.Since(live))
			assert.False(t, ids[p.ID()])
			ids[p.ID()] = true
			_, uuid := p.ID().UUID()
			assert.True(t, uuid)
			time.Sleep(9 * time.Second)
			f.send(pulse(p, noPools, nil))
		}
		synctest.Wait()
		r := record(t, h, id)
		assert.Equal(t, host.Live, r.Lifecycle)
		assert.Equal(t, time.Now().Unix(), r.Stats.LastHeartbeatUnix)
	})
	virtual(t, "R-12.40 R-12.41 R-12.50 one that is not answered within 10 s kills, not at the next probe", func(t *testing.T) {
		h := closing(t)
		f, _ := attachFake(t, h, plainCap("a"))
		call, err := h.Call(t.Context(), named("a"))
		require.NoError(t, err)
		f.want(frame.TypeReq)
		begun := time.Now()
		f.probed()
		_, err = call.Response().Next(t.Context())
		got := wantFailure(t, err, failure.CartridgeUnhealthy, failure.Environment)
		assert.Contains(t, got.Message, "10s")
		assert.Equal(t, 40*time.Second, time.Since(begun))
		synctest.Wait()
		assert.Empty(t, h.Cartridges())
	})
	virtual(t, "R-12.40 a silent process is killed and dead, the next request starts it again", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host(host.WithHeartbeat(5*time.Second, 2*time.Second))
		id := register(t, h, th.cartridge("a", capability{urn: named("wait"), handler: hold(nil, "")}))
		call, err := h.Call(t.Context(), named("wait"))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, host.Live, record(t, h, id).Lifecycle, "our cartridges answer")
		th.latest("a").in.hold(true) // it reads nothing any more
		begun := time.Now()
		_, err = call.Response().Next(t.Context())
		wantFailure(t, err, failure.CartridgeUnhealthy, failure.Environment)
		assert.LessOrEqual(t, time.Since(begun), 7*time.Second)
		assert.Equal(t, host.Dead, record(t, h, id).Lifecycle)
		assert.True(t, th.latest("a").status.killed)
		require.NoError(t, h.Spawn(t.Context(), id))
		assert.Equal(t, uint64(1), record(t, h, id).Stats.Restarts)
	})
	virtual(t, "R-12.42 an ERR in place of the reply proves life; a refused capacity kills nobody", func(t *testing.T) {
		h := closing(t)
		f, id := attachFake(t, h, plainCap("a"))
		done := inBackground(func() error {
			_, err := h.ApplyCapacities(t.Context(), id, pools.Desired{"gpu": 1})
			return err
		})
		p := f.probed()
		f.send(cartridgetest.ErrFrame(failure.UnknownPool, failure.Internal, "unknown pool 'gpu'").With(frame.KeyID, p[frame.KeyID]))
		got := wantFailure(t, <-done, failure.UnknownPool, failure.Internal)
		assert.Contains(t, got.Message, "gpu")
		time.Sleep(29 * time.Second)
		synctest.Wait()
		assert.Equal(t, host.Live, record(t, h, id).Lifecycle)
	})
	virtual(t, "R-12.19 R-12.50 a reply without pools ends the cartridge with PROTOCOL_ERROR", func(t *testing.T) {
		h := closing(t)
		f, _ := attachFake(t, h, plainCap("a"))
		call, err := h.Call(t.Context(), named("a"))
		require.NoError(t, err)
		f.want(frame.TypeReq)
		p := f.probed()
		f.send(cartridgetest.HeartbeatFrame(nil).With(frame.KeyID, p[frame.KeyID]))
		_, err = call.Response().Next(t.Context())
		wantFailure(t, err, failure.ProtocolError, failure.Internal)
	})
}

func TestApplyCapacities(t *testing.T) {
	pooled := func(th *theatre, gate <-chan struct{}) host.Spec {
		m := func() *manifest.Manifest {
			return manifest.New("a", "1.0.0", "pools", manifest.DefaultGroup(capsOf([]capability{{urn: named("wait")}})...)).
				WithPools(pools.Declarations{Pools: map[string][]string{"gpu": {named("wait")}}, Capacities: map[string]uint64{"gpu": 1}})
		}
		th.on("a", serve(func() *bifaci.Cartridge {
			c := bifaci.Must(bifaci.New(m()))
			c.HandleFunc(named("wait"), hold(gate, "done"))
			return c
		}))
		return host.Spec{Path: "a", Groups: m().Groups}
	}
	virtual(t, "R-12.43 of a live cartridge they are answered at once, and admit", func(t *testing.T) {
		th := newTheatre(t)
		gate := make(chan struct{})
		h := th.host()
		id := register(t, h, pooled(th, gate))
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() {
				_, err := h.CallBytes(t.Context(), named("wait"))
				assert.NoError(t, err)
			})
		}
		synctest.Wait()
		begun := time.Now()
		states, err := h.ApplyCapacities(t.Context(), id, pools.Desired{"gpu": 2})
		require.NoError(t, err)
		assert.Zero(t, time.Since(begun))
		assert.Equal(t, uint64(2), states["gpu"].Configured)
		assert.Equal(t, states, record(t, h, id).Stats.Pools)
		_, err = h.ApplyCapacities(t.Context(), id, pools.Desired{"gpu": 9, "tpu": 1})
		got := wantFailure(t, err, failure.UnknownPool, failure.Internal)
		assert.Contains(t, got.Message, "tpu")
		states, err = h.ApplyCapacities(t.Context(), id, nil)
		require.NoError(t, err)
		assert.Equal(t, uint64(2), states["gpu"].Configured, "all or nothing")
		assert.Equal(t, uint64(2), states["gpu"].Active)
		close(gate)
		calls.Wait()
		_, err = h.ApplyCapacities(t.Context(), 99, nil)
		require.ErrorIs(t, err, host.ErrUnknownCartridge)
	})
	virtual(t, "R-12.43 of one that does not run they ride a probe right behind the policy, every time it starts", func(t *testing.T) {
		th := newTheatre(t)
		gate := make(chan struct{})
		close(gate)
		h := th.host()
		id := register(t, h, pooled(th, gate))
		states, err := h.ApplyCapacities(t.Context(), id, pools.Desired{"gpu": 7})
		require.NoError(t, err)
		assert.Nil(t, states)
		assert.Equal(t, 0, th.count("a"), "nothing is started for it")
		for range 2 {
			require.NoError(t, h.Spawn(t.Context(), id))
			synctest.Wait()
			assert.Equal(t, uint64(7), record(t, h, id).Stats.Pools["gpu"].Configured)
			var order []string
			for _, line := range th.latest("a").check.Trace() {
				for _, what := range []string{"policy", "heartbeat"} {
					if strings.HasPrefix(line, cartridgetest.ToCartridge.String()+" "+what) {
						order = append(order, what)
					}
				}
			}
			assert.Equal(t, []string{"policy", "heartbeat"}, order)
			th.latest("a").kill()
			synctest.Wait()
		}
	})
}

func TestKill(t *testing.T) {
	for name, c := range map[string]struct {
		cause host.KillCause
		code  string
		class failure.Class
	}{
		"memory":      {host.OutOfMemory, failure.OOMKilled, failure.Resource},
		"unexplained": {host.Unexplained, failure.CartridgeDied, failure.Environment},
	} {
		virtual(t, "R-12.50 killed by the host: "+name, func(t *testing.T) {
			th := newTheatre(t)
			h := th.host()
			id := register(t, h, th.cartridge("a", capability{urn: named("wait"), handler: hold(nil, "")}))
			require.NoError(t, h.Kill(id, c.cause), "there is nothing to kill yet")
			calls := make([]*host.Call, 5)
			for i := range calls {
				var err error
				calls[i], err = h.Call(t.Context(), named("wait"))
				require.NoError(t, err)
			}
			require.NoError(t, h.Kill(id, c.cause))
			for _, call := range calls {
				_, err := call.Response().Next(t.Context())
				got := wantFailure(t, err, c.code, c.class)
				assert.Contains(t, got.Message, "signal: killed")
			}
			assert.Equal(t, host.Dead, record(t, h, id).Lifecycle)
			require.ErrorIs(t, h.Kill(99, c.cause), host.ErrUnknownCartridge)
		})
	}
	virtual(t, "R-12.17 R-12.16 who calls after the decision to kill meets a new process", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		id := register(t, h, th.cartridge("a", capability{urn: named("wait"), handler: hold(nil, "")}, capability{urn: named("greet"), handler: answerWith("hello")}))
		reason := failure.UserCancel()
		reason.ForceKill = true
		for n := range 20 {
			call, err := h.Call(t.Context(), named("wait"))
			require.NoError(t, err)
			if n%2 == 0 {
				require.NoError(t, h.Kill(id, host.OutOfMemory))
			} else {
				call.Cancel(reason)
			}
			wantAnswer(t, h, named("greet"), "hello")
			assert.Equal(t, n+2, th.count("a"))
		}
	})
	virtual(t, "R-12.81 R-12.50 a cancel by force kills: the request has the reason, the others are collateral", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		id := register(t, h, th.cartridge("a", capability{urn: named("wait"), handler: hold(nil, "")}))
		other, err := h.Call(t.Context(), named("wait"))
		require.NoError(t, err)
		stubborn, err := h.Call(t.Context(), named("wait"))
		require.NoError(t, err)
		reason := failure.UserCancel()
		reason.ForceKill = true
		stubborn.Cancel(reason)
		_, err = stubborn.Response().Next(t.Context())
		wantFailure(t, err, failure.Cancelled, failure.User)
		_, err = other.Response().Next(t.Context())
		wantFailure(t, err, failure.AbortedCollateral, failure.Environment)
		assert.Equal(t, host.Dead, record(t, h, id).Lifecycle)
		assert.True(t, th.latest("a").status.killed)
	})
}

func TestMisbehaviour(t *testing.T) {
	breaches := map[string]func(f *fake){
		"HELLO after the handshake": func(f *fake) { f.send(hello(f.t)) },
		"POLICY":                    func(f *fake) { f.send(cartridgetest.PolicyFrame(host.Offline())) },
		"a REQ with a routing id": func(f *fake) {
			f.send(cartridgetest.ReqFrame(named("b")).With(frame.KeyID, idBytes(frame.NewUUID())).With(frame.KeyRoutingID, uint64(9)))
		},
		"a relay frame": func(f *fake) { f.send(Frame{frame.KeyVersion: uint64(6), frame.KeyType: uint64(frame.TypeRelayState)}) },
		"no frame":      func(f *fake) { f.sendBytes([]byte{0, 0, 0, 2, 0xff, 0xff}) },
	}
	for name, breach := range breaches {
		virtual(t, "R-12.19 R-12.50 "+name+" ends this cartridge with PROTOCOL_ERROR and harms nobody else", func(t *testing.T) {
			h := closing(t)
			bad, _ := attachFake(t, h, plainCap("bad"))
			good, goodID := attachFake(t, h, plainCap("good"))
			call, err := h.Call(t.Context(), named("bad"))
			require.NoError(t, err)
			bad.want(frame.TypeReq)
			fine, err := h.Call(t.Context(), named("good"))
			require.NoError(t, err)
			req := good.want(frame.TypeReq)
			breach(bad)
			_, err = call.Response().Next(t.Context())
			wantFailure(t, err, failure.ProtocolError, failure.Internal)
			bad.wantEnd()
			good.answer(req, answerBytes("whole")...)
			got, err := fine.Response().CollectBytes(t.Context())
			require.NoError(t, err)
			assert.Equal(t, "whole", string(got))
			synctest.Wait()
			require.Len(t, h.Cartridges(), 1)
			assert.Equal(t, goodID, h.Cartridges()[0].Cartridge)
		})
	}
	virtual(t, "R-12.45 who floods the host and reads nothing stops itself", func(t *testing.T) {
		h := closing(t, host.WithHeartbeat(0, 0))
		good, _ := attachFake(t, h, plainCap("good"))
		flooder, _ := attachFake(t, h, plainCap("bad"))
		flooder.check.ExcuseBytes() // its own frames do not pass the judge
		flooder.stopReading()
		sent := 0
		flooded := make(chan struct{})
		go func() { // ends when the pipe is broken at the end of the test
			defer close(flooded)
			for {
				f := cartridgetest.ReqFrame("cap:nobody-serves-this").With(frame.KeyID, idBytes(frame.NewUUID())).With(frame.KeySeq, uint64(0))
				if _, err := flooder.out.Write(encodeFrame(f)); err != nil {
					return
				}
				sent++
			}
		}()
		synctest.Wait() // everybody waits: the flooder too
		assert.Less(t, sent, 20_000)
		assert.Greater(t, sent, 1000)
		fine, err := h.Call(t.Context(), named("good"))
		require.NoError(t, err)
		good.answer(good.want(frame.TypeReq), answerBytes("whole")...)
		got, err := fine.Response().CollectBytes(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "whole", string(got))
		_ = flooder.out.Close()
		<-flooded
	})
}

// idBytes is an id as a frame of a test holds it.
func idBytes(id frame.ID) []byte {
	b, _ := id.UUID()
	return b[:]
}
