package host_test

import (
	"context"
	"errors"
	"fmt"
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
)

func TestStates(t *testing.T) {
	// The table of, with the ways back of.
	allowed := map[string]bool{
		"registered→spawning": true, "spawning→handshaking": true, "handshaking→live": true, "spawning→failed": true, "handshaking→failed": true,
		"live→draining": true, "live→dead": true, "draining→dead": true, "dead→spawning": true, "live→registered": true,
		"failed→registered": true, "draining→live": true,
	}
	seen := 0
	for _, from := range host.AllStates() {
		for _, to := range host.AllStates() {
			name := from.String() + "→" + to.String()
			t.Run("R-12.12 "+name, func(t *testing.T) {
				assert.Equal(t, allowed[name], host.CanBecome(from, to))
				if allowed[name] {
					seen++
					assert.Equal(t, to, host.Step(from, to))
					return
				}
				assert.Panics(t, func() { host.Step(from, to) }, "an illegal step is impossible")
			})
		}
	}
	assert.Equal(t, len(allowed), seen, "every transition exists")
}

func TestRegister(t *testing.T) {
	virtual(t, "R-12.10 nothing is started before the first request", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		id := register(t, h, th.cartridge("a", capability{urn: named("greet"), handler: answerWith("hello")}))
		synctest.Wait()
		assert.Equal(t, 0, th.count("a"))
		assert.Equal(t, host.Registered, record(t, h, id).Lifecycle)
		wantAnswer(t, h, named("greet"), "hello")
		assert.Equal(t, 1, th.count("a"))
		wantAnswer(t, h, named("greet"), "hello")
		assert.Equal(t, 1, th.count("a"), "it is started once")
		assert.Equal(t, host.Live, record(t, h, id).Lifecycle)
	})
	virtual(t, "R-12.10 known caps route until the first HELLO, whose manifest replaces them", func(t *testing.T) {
		th := newTheatre(t)
		spec := th.cartridge("a", capability{urn: named("new"), handler: answerWith("new")})
		spec.Groups = []manifest.Group{manifest.DefaultGroup(manifest.NewCap(named("old"), "old", "old"))}
		h := th.host()
		register(t, h, spec)
		_, err := h.CallBytes(t.Context(), named("new"))
		wantFailure(t, err, failure.NoHandler, failure.Environment)
		_, err = h.CallBytes(t.Context(), named("old")) // starts it, and it does not serve that
		wantFailure(t, err, failure.NoHandler, failure.Environment)
		assert.Equal(t, 1, th.count("a"))
		wantAnswer(t, h, named("new"), "new")
		_, _, err = h.Definition(named("old"))
		wantFailure(t, err, failure.NoHandler, failure.Environment)
	})
	virtual(t, "R-12.10 an identity is registered once, a path is needed", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		spec := th.cartridge("a", capability{urn: named("greet"), handler: answerWith("hello")})
		spec.Identity = host.Identity{Channel: "release", Name: "greeter", Version: "1.0.0"}
		register(t, h, spec)
		_, err := h.Register(spec)
		require.ErrorContains(t, err, "greeter 1.0.0 is registered already")
		_, err = h.Register(host.Spec{})
		require.ErrorContains(t, err, "path")
	})
	virtual(t, "R-12.60 the nearest cap wins, then who was registered first; a preferred or named cartridge wins over both", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		wide := `cap:in="media:";out="media:";say`
		narrow := `cap:in="media:enc=utf-8";out="media:";say`
		first := register(t, h, th.cartridge("first", capability{urn: wide, handler: answerWith("first")}))
		second := register(t, h, th.cartridge("second", capability{urn: wide, handler: answerWith("second")}))
		register(t, h, th.cartridge("narrow", capability{urn: narrow, handler: answerWith("narrow")}))
		wantAnswer(t, h, wide, "first")
		wantAnswer(t, h, narrow, "narrow")
		say := func(capURN string, opts ...host.CallOption) (string, error) {
			call, err := h.Call(t.Context(), capURN, opts...)
			if err != nil {
				return "", err
			}
			require.NoError(t, call.Finish(t.Context()))
			got, err := call.Response().CollectBytes(t.Context())
			return string(got), err
		}
		got, err := say(wide, host.WithTarget(second))
		require.NoError(t, err)
		assert.Equal(t, "second", got)
		got, err = say(narrow, host.WithPreferred(wide))
		require.NoError(t, err)
		assert.Equal(t, "first", got)
		_, err = say(wide, host.WithTarget(77))
		wantFailure(t, err, failure.CartridgeNotFound, failure.Environment)
		_, err = say(named("unknown"))
		got2 := wantFailure(t, err, failure.NoHandler, failure.Environment)
		assert.Contains(t, got2.Message, named("unknown"))
		_, err = say("cap:out=")
		require.Error(t, err, "no URN")
		def, id, err := h.Definition(wide)
		require.NoError(t, err)
		assert.Equal(t, first, id)
		assert.Equal(t, "say", def.Slug)
	})
	virtual(t, "R-12.60 R-12.15 a failed cartridge that is asked for by name is unavailable", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		id := register(t, h, host.Spec{Path: "nowhere", Groups: []manifest.Group{manifest.DefaultGroup(manifest.NewCap(named("x"), "x", "x"))}})
		require.Error(t, h.Spawn(t.Context(), id))
		_, err := h.Call(t.Context(), named("x"), host.WithTarget(id))
		wantFailure(t, err, failure.CartridgeUnavail, failure.Environment)
	})
	virtual(t, "R-12.60 a group whose adapters overlap another's is not routable", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		group := func(path, slug string, adapters ...string) host.Spec {
			spec := th.cartridge(path, capability{urn: named(slug), handler: answerWith(slug)})
			spec.Groups[0] = spec.Groups[0].WithAdapters(adapters...)
			return spec
		}
		register(t, h, group("a", "one", "media:ext=pdf"))
		register(t, h, group("b", "two", "media:ext=pdf;page"))
		register(t, h, group("c", "three", "media:ext=epub"))
		_, _, err := h.Definition(named("one"))
		require.NoError(t, err)
		_, _, err = h.Definition(named("two"))
		wantFailure(t, err, failure.NoHandler, failure.Environment)
		_, _, err = h.Definition(named("three"))
		require.NoError(t, err)
	})
}

func TestSpawn(t *testing.T) {
	virtual(t, "R-12.14 one start at a time, and nobody else waits for it", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		slow := th.cartridge("slow", capability{urn: named("slow"), handler: answerWith("at last")})
		play := th.plays["slow"]
		th.on("slow", func(ctx context.Context, r *run) int {
			time.Sleep(10 * time.Second) // of virtual time, before it reads its HELLO
			return play(ctx, r)
		})
		id := register(t, h, slow)
		register(t, h, th.cartridge("quick", capability{urn: named("quick"), handler: answerWith("now")}))
		begun := time.Now()
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				got, err := h.CallBytes(t.Context(), named("slow"))
				assert.NoError(t, err)
				assert.Equal(t, "at last", string(got))
			})
		}
		synctest.Wait()
		assert.Equal(t, host.Handshaking, record(t, h, id).Lifecycle)
		wantAnswer(t, h, named("quick"), "now")
		assert.Zero(t, time.Since(begun))
		callers.Wait()
		assert.Equal(t, 10*time.Second, time.Since(begun))
		assert.Equal(t, 1, th.count("slow"))
	})
	virtual(t, "R-12.14 who waits for a start may leave, the start goes on", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		spec := th.cartridge("slow", capability{urn: named("slow"), handler: answerWith("at last")})
		play := th.plays["slow"]
		th.on("slow", func(ctx context.Context, r *run) int {
			time.Sleep(10 * time.Second)
			return play(ctx, r)
		})
		register(t, h, spec)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("too long for me"))
		defer cancel()
		_, err := h.Call(ctx, named("slow"))
		require.EqualError(t, err, "too long for me")
		wantAnswer(t, h, named("slow"), "at last")
		assert.Equal(t, 1, th.count("slow"))
	})
	failing := map[string]struct {
		play play
		kind host.Kind
		says string
	}{
		"no program":   {nil, host.KindEntryPointMissing, "not exist"},
		"no HELLO":     {func(ctx context.Context, _ *run) int { <-ctx.Done(); return 0 }, host.KindHandshakeFailed, "no hello within 15s"},
		"ends at once": {func(_ context.Context, r *run) int { fmt.Fprintln(r.err, "no model"); return 3 }, host.KindHandshakeFailed, "exit status 3; standard error: no model"},
		"bad manifest": {func(ctx context.Context, r *run) int {
			return sayHello(ctx, r, func(meta map[string]any) { meta["manifest"] = []byte(`{"name":"x"}`) })
		}, host.KindManifestInvalid, "manifest"},
		"another version": {func(ctx context.Context, r *run) int {
			return sayHello(ctx, r, func(meta map[string]any) { meta["version"] = uint64(7) })
		}, host.KindIncompatible, "version 7"},
		"no identity": {func(ctx context.Context, r *run) int { return sayHello(ctx, r, nil) }, host.KindIdentityRejected, "identity"},
	}
	for name, c := range failing {
		virtual(t, "R-12.15 R-12.91 "+name+" is a failure for good", func(t *testing.T) {
			th := newTheatre(t)
			h := th.host()
			callers := 1
			if c.play != nil {
				callers = 3
				th.on("bad", func(ctx context.Context, r *run) int {
					time.Sleep(time.Second) // until all of them wait
					return c.play(ctx, r)
				})
			}
			register(t, h, th.cartridge("good", capability{urn: named("good"), handler: answerWith("fine")}))
			bad := register(t, h, host.Spec{Path: "bad", Groups: []manifest.Group{manifest.DefaultGroup(manifest.NewCap(named("bad"), "bad", "bad"))}})
			var waiting sync.WaitGroup
			for range callers {
				waiting.Go(func() {
					_, err := h.CallBytes(t.Context(), named("bad"))
					got := wantFailure(t, err, failure.SpawnFailed, failure.Environment)
					assert.Contains(t, got.Message, c.says)
				})
			}
			waiting.Wait()
			first := record(t, h, bad)
			assert.Equal(t, host.Failed, first.Lifecycle)
			require.NotNil(t, first.AttachmentError)
			assert.Equal(t, c.kind, first.AttachmentError.Kind)
			assert.Contains(t, first.AttachmentError.Message, c.says)
			assert.Equal(t, time.Now().Unix(), first.AttachmentError.DetectedAtUnixSeconds)

			runs := th.count("bad")
			_, err := h.CallBytes(t.Context(), named("bad"))
			wantFailure(t, err, failure.NoHandler, failure.Environment)
			time.Sleep(time.Hour)
			require.Error(t, h.Spawn(t.Context(), bad))
			assert.Equal(t, runs, th.count("bad"), "it is not tried again")
			assert.Equal(t, first, record(t, h, bad), "the first failure is kept")
			wantAnswer(t, h, named("good"), "fine")

			require.NoError(t, h.Reset(bad))
			assert.Equal(t, host.Registered, record(t, h, bad).Lifecycle)
			th.cartridge("bad", capability{urn: named("bad"), handler: answerWith("mended")})
			wantAnswer(t, h, named("bad"), "mended")
			assert.Nil(t, record(t, h, bad).AttachmentError)
			require.ErrorIs(t, h.Reset(bad), host.ErrNotFailed)
			require.ErrorIs(t, h.Reset(99), host.ErrUnknownCartridge)
		})
	}
	virtual(t, "R-12.16 R-12.17 a dead cartridge is started again by the next request, nothing is tried again by itself", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		id := register(t, h, th.cartridge("a", capability{urn: named("greet"), handler: answerWith("hello")},
			capability{urn: named("wait"), handler: hold(nil, "")}))
		for n := range 3 {
			wantAnswer(t, h, named("greet"), "hello")
			call, err := h.Call(t.Context(), named("wait"))
			require.NoError(t, err)
			assert.Equal(t, n+1, th.count("a"))
			assert.Equal(t, uint64(n), record(t, h, id).Stats.Restarts)
			old := th.latest("a")
			old.kill()
			_, err = call.Response().Next(t.Context())
			wantFailure(t, err, failure.CartridgeDied, failure.Environment)
			assert.Equal(t, host.Dead, record(t, h, id).Lifecycle, "known before the caller knows")
			synctest.Wait()
			assert.Equal(t, n+1, th.count("a"))
			_, _, err = h.Definition(named("greet"))
			require.NoError(t, err, "the caps stay")
		}
	})
	virtual(t, "R-12.17 a call in the moment of death meets the old process or the new one, and nothing mixes them up", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		id := register(t, h, th.cartridge("a", capability{urn: named("greet"), handler: answerWith("hello")}))
		for range 50 {
			wantAnswer(t, h, named("greet"), "hello")
			var both sync.WaitGroup
			both.Go(th.latest("a").kill)
			both.Go(func() {
				got, err := h.CallBytes(t.Context(), named("greet"))
				if err != nil {
					wantFailure(t, err, failure.CartridgeDied, failure.Environment)
					return
				}
				assert.Equal(t, "hello", string(got))
			})
			both.Wait()
			synctest.Wait()
		}
		synctest.Wait()
		r := record(t, h, id)
		assert.Zero(t, r.Stats.ActiveRequests)
		assert.GreaterOrEqual(t, th.count("a"), 50)
		assert.Equal(t, uint64(th.count("a")-1), r.Stats.Restarts)
	})
	virtual(t, "R-12.16 with a back-off the next starts are put off", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host(host.WithBackoff(time.Second, 3*time.Second))
		register(t, h, th.cartridge("a", capability{urn: named("greet"), handler: answerWith("hello")}))
		for _, want := range []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
			begun := time.Now()
			wantAnswer(t, h, named("greet"), "hello")
			assert.Equal(t, want, time.Since(begun))
			th.latest("a").kill()
			synctest.Wait()
		}
		begun := time.Now()
		wantAnswer(t, h, named("greet"), "hello")
		assert.Equal(t, 3*time.Second, time.Since(begun))
		time.Sleep(31 * time.Second) // it has lived: a heartbeat was answered
		th.latest("a").kill()
		synctest.Wait()
		begun = time.Now()
		wantAnswer(t, h, named("greet"), "hello")
		assert.Equal(t, time.Second, time.Since(begun))
	})
}

// sayHello answers HELLO, changed, and nothing else.
func sayHello(ctx context.Context, r *run, change func(meta map[string]any)) int {
	r.excused = true
	f := cartridgetest.HelloFrame(frame.DefaultLimits())
	meta := f.Meta()
	m := manifest.New("fake", "1.0.0", "a cartridge of a test", manifest.DefaultGroup(manifest.IdentityCap()))
	b, err := m.JSON()
	if err != nil {
		panic(err) // the manifest is a constant
	}
	meta["manifest"], meta["pools"] = b, []byte(noPools)
	if change != nil {
		change(meta)
	}
	if _, err := r.out.Write(encodeFrame(f)); err != nil {
		return 1
	}
	<-ctx.Done()
	return 0
}

func TestAttach(t *testing.T) {
	virtual(t, "R-12.11 handshake, identity, policy, live; gone when it ends", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		th.cartridge("a", capability{urn: named("greet"), handler: answerWith("hello")}, capability{urn: named("wait"), handler: hold(nil, "")})
		link, err := th.launch("a")
		require.NoError(t, err)
		id, err := h.Attach(t.Context(), link.Out, link.In)
		require.NoError(t, err)
		r := record(t, h, id)
		assert.Equal(t, host.Live, r.Lifecycle)
		assert.Equal(t, "a", r.Name)
		wantAnswer(t, h, named("greet"), "hello")
		call, err := h.Call(t.Context(), named("wait"))
		require.NoError(t, err)
		th.latest("a").kill()
		_, err = call.Response().Next(t.Context())
		wantFailure(t, err, failure.CartridgeDied, failure.Environment)
		synctest.Wait()
		assert.Empty(t, h.Cartridges())
		_, err = h.Call(t.Context(), named("greet"))
		wantFailure(t, err, failure.NoHandler, failure.Environment)
		assert.Equal(t, 1, th.count("a"), "no respawn")
	})
	virtual(t, "R-12.11 what does not become live leaves nothing", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		th.on("bad", func(ctx context.Context, r *run) int { return sayHello(ctx, r, nil) })
		link, err := th.launch("bad")
		require.NoError(t, err)
		_, err = h.Attach(t.Context(), link.Out, link.In)
		got := wantFailure(t, err, failure.SpawnFailed, failure.Environment)
		assert.Contains(t, got.Message, "identity")
		assert.Empty(t, h.Cartridges())
		th.latest("bad").kill()
	})
	virtual(t, "R-12.11 the end of the context ends the attempt", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		th.on("mute", func(ctx context.Context, r *run) int { <-ctx.Done(); return 0 })
		link, err := th.launch("mute")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("no time"))
		defer cancel()
		_, err = h.Attach(ctx, link.Out, link.In)
		require.ErrorContains(t, err, "no time")
		th.latest("mute").kill()
	})
	virtual(t, "R-12.31 R-12.11 without a policy it waits, and requests for it", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host(host.WithoutPolicy())
		th.cartridge("a", capability{urn: named("greet"), handler: answerWith("hello")})
		link, err := th.launch("a")
		require.NoError(t, err)
		id, err := h.Attach(t.Context(), link.Out, link.In)
		require.NoError(t, err)
		assert.Equal(t, host.Handshaking, record(t, h, id).Lifecycle)
		done := inBackground(func() error {
			_, err := h.CallBytes(t.Context(), named("greet"))
			return err
		})
		synctest.Wait()
		require.NoError(t, h.SetPolicy(host.Offline()))
		require.NoError(t, <-done)
		assert.Equal(t, host.Live, record(t, h, id).Lifecycle)
	})
}

func TestHostPolicy(t *testing.T) {
	reach := func(_ context.Context, r *bifaci.Request) error {
		if err := r.Network().Allow(bifaci.ReachThirdParty); err != nil {
			return err
		}
		_, err := r.Output().Write([]byte("allowed"))
		return err
	}
	virtual(t, "R-12.31 R-12.30 without a policy requests wait, then POLICY goes first", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host(host.WithoutPolicy())
		id := register(t, h, th.cartridge("a", capability{urn: named("reach"), handler: reach}))
		done := inBackground(func() error {
			_, err := h.CallBytes(t.Context(), named("reach"))
			return err
		})
		synctest.Wait()
		assert.Equal(t, host.Handshaking, record(t, h, id).Lifecycle)
		require.NoError(t, h.SetPolicy(host.Online()))
		require.NoError(t, <-done)
	})
	virtual(t, "R-12.32 a later policy goes to every live cartridge, and to those that are started later", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		for _, path := range []string{"a", "b", "c"} {
			register(t, h, th.cartridge(path, capability{urn: named("reach-" + path), handler: reach}))
		}
		wantAnswer(t, h, named("reach-a"), "allowed")
		wantAnswer(t, h, named("reach-b"), "allowed")
		require.NoError(t, h.SetPolicy(host.Offline()))
		for _, path := range []string{"a", "b", "c"} {
			_, err := h.CallBytes(t.Context(), named("reach-"+path))
			wantFailure(t, err, failure.NetworkPolicy, failure.User)
		}
		require.Error(t, h.SetPolicy(bifaci.Policy{}), "a policy needs a name")
	})
}

func TestHostShutdown(t *testing.T) {
	virtual(t, "R-12.21 every pending call ends with ErrHostClosed, no ERR is made up, later methods refuse", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		register(t, h, th.cartridge("a", capability{urn: named("wait"), handler: hold(nil, "")}))
		register(t, h, th.cartridge("slow", capability{urn: named("slow"), handler: answerWith("")}))
		th.on("slow", func(ctx context.Context, r *run) int { <-ctx.Done(); return 0 })
		call, err := h.Call(t.Context(), named("wait"))
		require.NoError(t, err)
		require.NoError(t, call.Finish(t.Context()), "a cartridge serves complete requests to their end")
		starting := inBackground(func() error {
			_, err := h.Call(t.Context(), named("slow"))
			return err
		})
		synctest.Wait()
		begun := time.Now()
		err = h.Shutdown(t.Context())
		require.ErrorContains(t, err, "within 5s", "the handler does not end")
		assert.Equal(t, 5*time.Second, time.Since(begun))
		_, err = call.Response().Next(t.Context())
		require.ErrorIs(t, err, host.ErrHostClosed)
		require.ErrorIs(t, <-starting, host.ErrHostClosed)
		_, err = h.Call(t.Context(), named("wait"))
		require.ErrorIs(t, err, host.ErrHostClosed)
		_, err = h.Register(host.Spec{Path: "b"})
		require.ErrorIs(t, err, host.ErrHostClosed)
		require.ErrorIs(t, h.SetPolicy(host.Online()), host.ErrHostClosed)
	})
	virtual(t, "R-12.21 what is answered meanwhile succeeds", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		gate := make(chan struct{})
		register(t, h, th.cartridge("a", capability{urn: named("wait"), handler: hold(gate, "in time")}))
		done := inBackground(func() error {
			got, err := h.CallBytes(t.Context(), named("wait"))
			assert.Equal(t, "in time", string(got))
			return err
		})
		synctest.Wait()
		ended := inBackground(func() error { return h.Shutdown(t.Context()) })
		synctest.Wait()
		close(gate)
		require.NoError(t, <-done)
		require.NoError(t, <-ended)
	})
	virtual(t, "R-12.21 the end of the context kills at once", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host(host.WithShutdownGrace(time.Hour))
		register(t, h, th.cartridge("a", capability{urn: named("wait"), handler: hold(nil, "")}))
		call, err := h.Call(t.Context(), named("wait"))
		require.NoError(t, err)
		require.NoError(t, call.Finish(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begun := time.Now()
		require.ErrorContains(t, h.Shutdown(ctx), "killed")
		assert.Zero(t, time.Since(begun))
		assert.True(t, th.latest("a").status.killed)
	})
}

func TestIdle(t *testing.T) {
	virtual(t, "R-12.18 a cartridge without work is stopped, the next request starts it again", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host(host.WithIdleTimeout(time.Minute))
		gate := make(chan struct{})
		id := register(t, h, th.cartridge("a", capability{urn: named("greet"), handler: answerWith("hello")},
			capability{urn: named("wait"), handler: hold(gate, "waited")}))
		wantAnswer(t, h, named("greet"), "hello")
		time.Sleep(59 * time.Second)
		wantAnswer(t, h, named("greet"), "hello")
		time.Sleep(59 * time.Second)
		synctest.Wait()
		assert.Equal(t, host.Live, record(t, h, id).Lifecycle, "each request begins the time anew")
		done := inBackground(func() error {
			_, err := h.CallBytes(t.Context(), named("wait"))
			return err
		})
		time.Sleep(time.Hour)
		assert.Equal(t, host.Live, record(t, h, id).Lifecycle, "it works")
		close(gate)
		require.NoError(t, <-done, "no ERR")
		time.Sleep(61 * time.Second)
		synctest.Wait()
		assert.Equal(t, host.Registered, record(t, h, id).Lifecycle)
		r := th.latest("a")
		<-r.done
		assert.True(t, r.status.Success(), "its input was closed, it was not killed")
		wantAnswer(t, h, named("greet"), "hello")
		assert.Equal(t, 2, th.count("a"))
		assert.Zero(t, record(t, h, id).Stats.Restarts, "a stop is no death")
	})
	virtual(t, "R-12.18 a request that races the stop is served by one process or the other", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host(host.WithIdleTimeout(time.Second))
		register(t, h, th.cartridge("a", capability{urn: named("greet"), handler: answerWith("hello")}))
		for range 50 {
			wantAnswer(t, h, named("greet"), "hello")
			time.Sleep(time.Second) // in the same moment
		}
		assert.Greater(t, th.count("a"), 1)
	})
	virtual(t, "R-12.18 it is off by default", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		id := register(t, h, th.cartridge("a", capability{urn: named("greet"), handler: answerWith("hello")}))
		wantAnswer(t, h, named("greet"), "hello")
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		assert.Equal(t, host.Live, record(t, h, id).Lifecycle)
	})
}

func TestRetire(t *testing.T) {
	retiring := func(t *testing.T, opts ...host.Option) (*theatre, *host.Host, host.Spec, host.ID, chan struct{}) {
		th := newTheatre(t)
		gate := make(chan struct{})
		spec := th.cartridge("a", capability{urn: named("wait"), handler: hold(gate, "waited")})
		spec.Identity = host.Identity{Channel: "release", Name: "a", Version: "1.0.0"}
		h := th.host(opts...)
		return th, h, spec, register(t, h, spec), gate
	}
	virtual(t, "R-12.20 it leaves the table at once and ends when its work is done", func(t *testing.T) {
		th, h, _, id, gate := retiring(t)
		call, err := h.Call(t.Context(), named("wait"))
		require.NoError(t, err)
		require.NoError(t, call.Finish(t.Context()))
		require.NoError(t, h.Retire(id))
		assert.Equal(t, host.Draining, record(t, h, id).Lifecycle)
		_, err = h.Call(t.Context(), named("wait"))
		wantFailure(t, err, failure.NoHandler, failure.Environment)
		time.Sleep(9 * time.Minute)
		close(gate)
		got, err := call.Response().CollectBytes(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "waited", string(got))
		synctest.Wait()
		assert.Empty(t, h.Cartridges())
		<-th.latest("a").done
		assert.True(t, th.latest("a").status.Success())
		require.ErrorIs(t, h.Retire(id), host.ErrUnknownCartridge)
	})
	virtual(t, "R-12.20 R-12.50 what is not finished within the limit gets CARTRIDGE_RETIRED", func(t *testing.T) {
		th, h, _, id, _ := retiring(t)
		call, err := h.Call(t.Context(), named("wait"))
		require.NoError(t, err)
		begun := time.Now()
		require.NoError(t, h.Retire(id))
		_, err = call.Response().Next(t.Context())
		wantFailure(t, err, failure.CartridgeRetired, failure.Environment)
		assert.Equal(t, 10*time.Minute, time.Since(begun))
		synctest.Wait()
		assert.Empty(t, h.Cartridges())
		assert.True(t, th.latest("a").status.killed)
	})
	virtual(t, "R-12.20 an identity that returns keeps its process", func(t *testing.T) {
		th, h, spec, id, gate := retiring(t)
		call, err := h.Call(t.Context(), named("wait"))
		require.NoError(t, err)
		require.NoError(t, h.Retire(id))
		again, err := h.Register(spec)
		require.NoError(t, err)
		assert.Equal(t, id, again)
		assert.Equal(t, host.Live, record(t, h, id).Lifecycle)
		time.Sleep(time.Hour)
		close(gate)
		require.NoError(t, call.Finish(t.Context()))
		_, err = call.Response().CollectBytes(t.Context())
		require.NoError(t, err, "the limit counts no more")
		wantAnswer(t, h, named("wait"), "waited")
		assert.Equal(t, 1, th.count("a"))
	})
	virtual(t, "R-12.20 an identity that returns when its process is being stopped gets a new one", func(t *testing.T) {
		th, h, spec, id, gate := retiring(t)
		play := th.plays["a"]
		th.on("a", func(ctx context.Context, r *run) int {
			status := play(ctx, r)
			select { // it takes its time
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			return status
		})
		close(gate)
		wantAnswer(t, h, named("wait"), "waited")
		require.NoError(t, h.Retire(id))
		synctest.Wait()
		again, err := h.Register(spec)
		require.NoError(t, err)
		wantAnswer(t, h, named("wait"), "waited")
		assert.Equal(t, 2, th.count("a"))
		assert.Equal(t, host.Live, record(t, h, again).Lifecycle)
	})
	virtual(t, "R-12.20 what does not run is gone at once; what is being started goes when it has started", func(t *testing.T) {
		th, h, spec, id, gate := retiring(t)
		close(gate)
		require.NoError(t, h.Retire(id))
		assert.Empty(t, h.Cartridges())
		id = register(t, h, spec)
		play := th.plays["a"]
		th.on("a", func(ctx context.Context, r *run) int { time.Sleep(time.Second); return play(ctx, r) })
		done := inBackground(func() error { return h.Spawn(t.Context(), id) })
		synctest.Wait()
		require.NoError(t, h.Retire(id))
		wantFailure(t, <-done, failure.CartridgeRetired, failure.Environment)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Empty(t, h.Cartridges())
		<-th.latest("a").done
	})
}
