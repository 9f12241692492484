package host_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/host"
)

func TestProcessEndings(t *testing.T) {
	begin := func(t *testing.T, wrap func(play) play) (*theatre, *host.Process, chan struct{}) {
		th := newTheatre(t)
		gate := make(chan struct{})
		th.cartridge("a", capability{urn: named("wait"), handler: hold(gate, "waited")})
		th.on("a", wrap(th.plays["a"]))
		p, err := host.Start(t.Context(), "a", host.WithStandIns(th.launch))
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
		return th, p, gate
	}
	virtual(t, "R-12.21 a process that takes seconds to end behind its last frame has the whole grace", func(t *testing.T) {
		th, p, _ := begin(t, func(good play) play {
			return func(ctx context.Context, r *run) int {
				status := good(ctx, r)
				_ = r.out.Close()
				select {
				case <-time.After(4 * time.Second):
				case <-ctx.Done():
				}
				return status
			}
		})
		begun := time.Now()
		require.NoError(t, p.Shutdown(t.Context()))
		assert.Equal(t, 4*time.Second, time.Since(begun))
		assert.True(t, th.latest("a").status.Success())
	})
	virtual(t, "R-12.50 R-12.22 a process that is dead ends its link, though a stray descendant holds its output open", func(t *testing.T) {
		th, p, _ := begin(t, func(good play) play { return good })
		call, err := p.Call(t.Context(), named("wait"))
		require.NoError(t, err)
		synctest.Wait() // nothing is on its way that would fail
		r := th.latest("a")
		r.stray = true
		begun := time.Now()
		r.kill()
		_, err = call.Response().Next(t.Context())
		got := wantFailure(t, err, failure.CartridgeDied, failure.Environment)
		assert.Contains(t, got.Message, "signal: killed")
		assert.LessOrEqual(t, time.Since(begun), 5*time.Second)
	})
	virtual(t, "R-12.51 R-12.21 what an ended process has written and nobody has read yet is an answer", func(t *testing.T) {
		th, p, gate := begin(t, func(good play) play { return good })
		call, err := p.Call(t.Context(), named("wait"))
		require.NoError(t, err)
		require.NoError(t, call.Finish(t.Context()))
		synctest.Wait()
		th.latest("a").out.hold(true) // a reader that gets no processor
		close(gate)
		ended := inBackground(func() error { return p.Shutdown(t.Context()) })
		<-th.latest("a").done
		time.Sleep(500 * time.Millisecond)
		th.latest("a").out.hold(false)
		require.NoError(t, <-ended)
		got, err := call.Response().CollectBytes(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "waited", string(got))
	})
	virtual(t, "R-12.53 a callback that hangs holds back nothing", func(t *testing.T) {
		th := newTheatre(t)
		th.cartridge("a", capability{urn: named("greet"), handler: answerWith("hello")})
		good := th.plays["a"]
		th.on("a", func(ctx context.Context, r *run) int {
			for range 5000 {
				if _, err := r.err.Write([]byte("something that nobody wants to know, at length\n")); err != nil {
					return 9
				}
			}
			return good(ctx, r)
		})
		free := make(chan struct{})
		got, said := 0, false
		p, err := host.Start(t.Context(), "a", host.WithStandIns(th.launch), host.WithStderr(func(line string) {
			<-free
			got++
			said = said || strings.Contains(line, "lines were lost here")
		}))
		require.NoError(t, err, "it wrote everything and became live")
		close(free)
		require.NoError(t, p.Shutdown(t.Context()))
		assert.Greater(t, got, 1000)
		assert.Less(t, got, 5000)
		assert.True(t, said, "the rest was lost and said to be")
	})
}
