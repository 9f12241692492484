package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/host"
)

// start runs the test binary as a cartridge.
func start(t *testing.T, mode string, opts ...host.Option) (*host.Process, error) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return host.Start(t.Context(), self, append(opts, host.WithEnv(append(os.Environ(), childMode+"="+mode)...))...)
}

// mustStart is start for a child that comes to life; it is shut down at the end of the test if the test has not done so.
func mustStart(t *testing.T, mode string, opts ...host.Option) *host.Process {
	t.Helper()
	grace := host.WithShutdownGrace(time.Minute) // the machine may be busy, and the race detector slow
	p, err := start(t, mode, append([]host.Option{grace}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Shutdown(ctx)
	})
	return p
}

func TestShutdown(t *testing.T) {
	t.Run("R-12.21 R-12.22 it ends the input, waits for the process and collects it", func(t *testing.T) {
		p := mustStart(t, modeServe)
		got, err := p.CallBytes(t.Context(), childEcho, host.Argument{MediaURN: "media:", Value: []byte("hello")})
		require.NoError(t, err)
		assert.Equal(t, "hello", string(got))
		require.Nil(t, p.Died())
		require.NoError(t, p.Shutdown(t.Context()))
		require.NotNil(t, p.Died(), "its end is known")
		require.NoError(t, p.Shutdown(t.Context()), "a second time it says the same")
		_, err = p.Call(t.Context(), childEcho)
		require.ErrorIs(t, err, host.ErrClosed)
		wantGone(t, p.PID())
	})
	t.Run("R-12.21 a process that does not end is killed after the grace, and its calls end", func(t *testing.T) {
		p := mustStart(t, modeDeaf, host.WithShutdownGrace(50*time.Millisecond))
		call, err := p.Call(t.Context(), childAnswer)
		require.NoError(t, err)
		err = p.Shutdown(t.Context())
		require.ErrorContains(t, err, "50ms")
		require.ErrorContains(t, err, "killed")
		_, err = call.Response().Next(t.Context())
		require.ErrorIs(t, err, host.ErrClosed)
		wantGone(t, p.PID())
	})
	t.Run("R-12.21 the end of the context kills it at once", func(t *testing.T) {
		p := mustStart(t, modeDeaf, host.WithShutdownGrace(time.Hour))
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		cancel(enough)
		require.ErrorIs(t, p.Shutdown(ctx), enough)
		wantGone(t, p.PID())
	})
	t.Run("R-12.21 several at the same time get the same", func(t *testing.T) {
		p := mustStart(t, modeServe)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { assert.NoError(t, p.Shutdown(t.Context())) })
		}
		all.Wait()
	})
	t.Run("R-12.21 R-12.51 what the process answers on its way out is an answer", func(t *testing.T) {
		p := mustStart(t, modeServe, host.WithShutdownGrace(patience)) // no measure of speed
		call, err := p.Call(t.Context(), childAnswer)
		require.NoError(t, err)
		words := strings.Repeat("last words ", 600_000) // more than a pipe holds, and less than the window
		_, err = call.Arg("media:").Write([]byte(words))
		require.NoError(t, err)
		require.NoError(t, call.Finish(t.Context()))
		require.NoError(t, p.Shutdown(t.Context()))
		got, err := call.Response().CollectBytes(t.Context())
		require.NoError(t, err)
		assert.True(t, strings.ToUpper(words) == string(got), "%d of %d bytes came back", len(got), len(words))
	})
	t.Run("R-12.22 a process that ends by itself is collected without a Shutdown", func(t *testing.T) {
		p := mustStart(t, modeServe)
		_, err := p.CallBytes(t.Context(), childDie)
		require.Error(t, err)
		wait(t, p.Done(), "the end of the link")
		require.NotNil(t, p.Died())
		wantGone(t, p.PID())
		require.ErrorContains(t, p.Shutdown(t.Context()), "exit status 3")
	})
}

func TestDeath(t *testing.T) {
	t.Run("R-12.50 R-12.52 calls end with CARTRIDGE_DIED, the exit status and the last words", func(t *testing.T) {
		p := mustStart(t, modeServe)
		waiting, err := p.Call(t.Context(), childAnswer)
		require.NoError(t, err)
		_, err = p.CallBytes(t.Context(), childDie)
		got := wantFailure(t, err, failure.CartridgeDied, failure.Environment)
		assert.Contains(t, got.Message, "exit status 3")
		assert.Contains(t, got.Message, "the engine is gone")
		_, err = waiting.Response().Next(t.Context())
		got = wantFailure(t, err, failure.CartridgeDied, failure.Environment)
		assert.Contains(t, got.Message, "exit status 3")
		_, err = p.Call(t.Context(), childEcho)
		got = wantFailure(t, err, failure.CartridgeDied, failure.Environment)
		assert.Contains(t, got.Message, "exit status 3")
	})
	t.Run("R-12.50 R-12.52 a signal is named", func(t *testing.T) {
		p := mustStart(t, modeServe)
		call, err := p.Call(t.Context(), childAnswer)
		require.NoError(t, err)
		require.NoError(t, p.Kill())
		_, err = call.Response().Next(t.Context())
		got := wantFailure(t, err, failure.CartridgeDied, failure.Environment)
		assert.Regexp(t, "killed|exit status", got.Message)
	})
	t.Run("R-12.50 a process that closes its output and lives on is ended", func(t *testing.T) {
		p := mustStart(t, modeServe)
		_, err := p.CallBytes(t.Context(), childHush)
		wantFailure(t, err, failure.CartridgeDied, failure.Environment)
		wait(t, p.Done(), "the end of the link")
		require.NotNil(t, p.Died())
	})
	t.Run("R-12.19 a process that breaks the protocol is killed", func(t *testing.T) {
		p := mustStart(t, modeGarbage)
		waiting, err := p.Call(t.Context(), childAnswer)
		require.NoError(t, err)
		_, err = p.CallBytes(t.Context(), childHush)
		wantFailure(t, err, failure.ProtocolError, failure.Internal)
		_, err = waiting.Response().Next(t.Context())
		wantFailure(t, err, failure.ProtocolError, failure.Internal)
		require.Error(t, p.Shutdown(t.Context()))
		assert.Regexp(t, "killed|exit status", p.Died().Message)
	})
}

func TestStartFailures(t *testing.T) {
	t.Run("R-12.15 a program that is not there", func(t *testing.T) {
		_, err := host.Start(t.Context(), filepath.Join(t.TempDir(), "nobody"))
		got := wantFailure(t, err, failure.SpawnFailed, failure.Environment)
		assert.Contains(t, got.Message, "nobody")
		require.ErrorIs(t, err, os.ErrNotExist)
	})
	t.Run("R-12.15 R-12.52 a program that ends says why", func(t *testing.T) {
		_, err := start(t, modeNoisy)
		got := wantFailure(t, err, failure.SpawnFailed, failure.Environment)
		require.ErrorIs(t, err, bifaci.ErrHandshake)
		assert.Contains(t, got.Message, "line 999 of the end")
		assert.NotContains(t, got.Message, "line 1 of the end", "only the tail")
		assert.Regexp(t, "exit status 7|killed", got.Message)
	})
	t.Run("R-12.8 R-12.22 a program that says nothing is killed", func(t *testing.T) {
		_, err := start(t, modeSilent, host.WithHandshakeTimeout(50*time.Millisecond, time.Second))
		got := wantFailure(t, err, failure.SpawnFailed, failure.Environment)
		require.ErrorIs(t, err, bifaci.ErrHandshake)
		assert.Contains(t, got.Message, "50ms")
	})
	t.Run("R-12.8 the context ends a start", func(t *testing.T) {
		self, err := os.Executable()
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		cancel(enough)
		_, err = host.Start(ctx, self, host.WithEnv(append(os.Environ(), childMode+"="+modeSilent)...))
		wantFailure(t, err, failure.SpawnFailed, failure.Environment)
		require.ErrorIs(t, err, enough)
	})
}

func TestStderr(t *testing.T) {
	t.Run("R-12.53 each line goes to the callback and the end is kept", func(t *testing.T) {
		var lines []string // written by one goroutine, which has ended when Start returns
		_, err := start(t, modeNoisy, host.WithStderr(func(line string) { lines = append(lines, line) }))
		require.Error(t, err)
		require.Len(t, lines, 1000)
		for i, line := range lines {
			require.Equal(t, fmt.Sprintf("line %d of the end", i), line)
		}
	})
	t.Run("R-12.53 it is kept for the life of the process", func(t *testing.T) {
		p := mustStart(t, modeServe)
		_, err := p.CallBytes(t.Context(), childDie)
		require.Error(t, err)
		require.Error(t, p.Shutdown(t.Context()))
		assert.Equal(t, "the engine is gone\n", strings.ReplaceAll(p.Stderr(), "\r", ""))
	})
}
