package host_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/host"
)

func TestObserver(t *testing.T) {
	virtual(t, "R-12.12 every step is told, in order", func(t *testing.T) {
		th := newTheatre(t)
		var steps []string
		h := th.host(host.WithIdleTimeout(time.Minute), host.WithObserver(func(e host.Event) {
			steps = append(steps, e.From.String()+"→"+e.To.String())
		}))
		id := register(t, h, th.cartridge("a", capability{urn: named("greet"), handler: answerWith("hello")}))
		wantAnswer(t, h, named("greet"), "hello")
		time.Sleep(2 * time.Minute)
		wantAnswer(t, h, named("greet"), "hello")
		require.NoError(t, h.Kill(id, host.Unexplained))
		synctest.Wait()
		assert.Equal(t, []string{"registered→spawning", "spawning→handshaking", "handshaking→live", "live→registered",
			"registered→spawning", "spawning→handshaking", "handshaking→live", "live→dead"}, steps)
	})
	virtual(t, "R-12.45 an observer that hangs holds back nobody", func(t *testing.T) {
		th := newTheatre(t)
		free := make(chan struct{})
		lost := 0
		h := th.host(host.WithObserver(func(e host.Event) { <-free; lost += e.Lost }))
		id := register(t, h, th.cartridge("a", capability{urn: named("greet"), handler: answerWith("hello")}))
		for range 270 {
			wantAnswer(t, h, named("greet"), "hello")
			require.NoError(t, h.Kill(id, host.Unexplained))
		}
		close(free)
		synctest.Wait()
		wantAnswer(t, h, named("greet"), "hello")
		synctest.Wait()
		assert.Positive(t, lost)
	})
}

// TestLifecycleModel lets everything happen to two cartridges in any order: every step that is made is an allowed one, as an illegal
// one panics, every call ends once with a code that fits, and in the end nothing is left.
func TestLifecycleModel(t *testing.T) {
	t.Run("R-12.12 R-12.63 R-12.17 whatever happens, in any order", func(t *testing.T) {
		for seed := range uint64(20) {
			random := rand.New(rand.NewPCG(seed, 12))
			ops := make([]int, 1+random.IntN(40))
			for i := range ops {
				ops[i] = random.IntN(10)
			}
			synctest.Test(t, func(t *testing.T) { playLife(t, ops) })
		}
	})
}

func playLife(t *testing.T, ops []int) {
	th := newTheatre(t)
	h := th.host(host.WithIdleTimeout(3*time.Second), host.WithRetireLimit(5*time.Second), host.WithHeartbeat(4*time.Second, time.Second))
	gate := make(chan struct{})
	spec := th.cartridge("a", capability{urn: named("greet"), handler: answerWith("hello")}, capability{urn: named("wait"), handler: hold(gate, "waited")},
		capability{urn: named("through"), handler: through(named("far"))})
	spec.Identity = host.Identity{Channel: "release", Name: "a", Version: "1.0.0"}
	id := register(t, h, spec)
	register(t, h, th.cartridge("far", capability{urn: named("far"), handler: echo}))
	fits := map[string]bool{failure.CartridgeDied: true, failure.OOMKilled: true, failure.CartridgeRetired: true, failure.AbortedCollateral: true,
		failure.NoHandler: true, failure.Cancelled: true, failure.SpawnFailed: true} // the last when it is killed during the handshake
	var calls sync.WaitGroup
	call := func(capURN string) {
		calls.Go(func() {
			_, err := h.CallBytes(t.Context(), capURN, host.Argument{MediaURN: "media:", Value: []byte("x")})
			if err != nil && !fits[failure.From(err).Code] {
				t.Errorf("%v: a call of %s ended with %v", ops, capURN, err)
			}
		})
	}
	ignore := func(error) {} // the cartridge may be gone
	for _, op := range ops {
		switch op {
		case 0:
			call(named("greet"))
		case 1:
			call(named("wait"))
		case 2:
			call(named("through"))
		case 3:
			ignore(h.Kill(id, host.OutOfMemory))
		case 4:
			if th.count("a") > 0 {
				th.latest("a").kill()
			}
		case 5:
			ignore(h.Retire(id))
		case 6:
			if again, err := h.Register(spec); err == nil {
				id = again
			}
		case 7:
			time.Sleep(3 * time.Second)
		case 8:
			synctest.Wait()
		case 9:
			if c, err := h.Call(t.Context(), named("wait")); err == nil {
				c.Cancel(failure.CancelReason{Code: failure.Cancelled, ForceKill: true})
			}
		}
	}
	close(gate)
	calls.Wait()
	synctest.Wait()
	for _, r := range h.Cartridges() {
		assert.Zero(t, r.Stats.ActiveRequests, "%v: %s", ops, r.Path)
		assert.Zero(t, r.Stats.PeerRequests, "%v: %s", ops, r.Path)
	}
	ignore(h.Reset(id)) // it has failed if it was killed during the handshake
	if _, err := h.Register(spec); err != nil {
		require.ErrorContains(t, err, "registered already")
	}
	wantAnswer(t, h, named("greet"), "hello")
	wantAnswer(t, h, named("far"), "")
}
