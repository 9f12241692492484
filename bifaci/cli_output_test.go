package bifaci

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

// emits runs a handler that does something with its output.
func emits(t *testing.T, do func(ctx context.Context, out *OutputStream) error) cliResult {
	t.Helper()
	return cliRunOn(t, cliOne(t, func(ctx context.Context, r *Request) error { return do(ctx, r.Output()) }), strings.NewReader("x"), "work")
}

func TestCLIRawOutput(t *testing.T) {
	for name, row := range map[string]struct {
		value any
		want  string
	}{
		"bytes as they are":                       {[]byte("\x00\xffraw"), "\x00\xffraw"},
		"text as it is":                           {"text ü\n", "text ü\n"},
		"nothing":                                 {"", ""},
		"an array's bytes and texts in order":     {[]any{[]byte("a"), "b", ""}, "ab"},
		"an empty array":                          {[]any{}, ""},
		"a map's entry value, bytes":              {map[string]any{"other": 1, "value": []byte("v")}, "v"},
		"a map's entry value, text":               {map[string]any{"value": "v", "w": "x"}, "v"},
		"a text that is longer than the buffer":   {strings.Repeat("long", 3000), strings.Repeat("long", 3000)},
		"an array that is longer than the buffer": {[]any{strings.Repeat("a", 3000), strings.Repeat("b", 3000)}, strings.Repeat("a", 3000) + strings.Repeat("b", 3000)},
	} {
		t.Run("R-2.16 section 11 "+name, func(t *testing.T) {
			item := emits(t, func(ctx context.Context, out *OutputStream) error { return out.EmitItem(ctx, row.value, nil) })
			assert.Equal(t, cliResult{stdout: row.want}, item)
			value := emits(t, func(ctx context.Context, out *OutputStream) error { return out.EmitCBOR(ctx, row.value) })
			assert.Equal(t, cliResult{stdout: row.want}, value)
		})
	}
	for name, value := range map[string]any{
		"a number":                      1,
		"a boolean":                     true,
		"null":                          nil,
		"an array of others":            []any{"a", 1},
		"an array of arrays":            []any{[]any{"a"}},
		"a map without value":           map[string]any{"Value": "v"},
		"a map whose value is a number": map[string]any{"value": 1},
		"a map whose key is bytes":      map[any]any{1: "v"},
	} {
		t.Run("section 11 is an error: "+name, func(t *testing.T) {
			got := emits(t, func(ctx context.Context, out *OutputStream) error {
				return errors.Join(out.EmitItem(ctx, value, nil), out.EmitItem(ctx, "after it", nil))
			})
			assert.Equal(t, StatusFailed, got.status)
			assert.Empty(t, got.stdout, "an error breaks the stream for good (R-6.42)")
			assert.Regexp(t, `^HANDLER_ERROR: .*cannot be written to standard output\n$`, got.stderr)
		})
	}
	t.Run("section 11 items follow each other without anything between", func(t *testing.T) {
		got := emits(t, func(ctx context.Context, out *OutputStream) error {
			for _, s := range []string{"a", "", "bb", "\n"} {
				if err := out.EmitItem(ctx, s, nil); err != nil {
					return err
				}
			}
			return nil
		})
		assert.Equal(t, "abb\n", got.stdout)
	})
	t.Run("section 11 starts, metas and the finishing status leave no trace", func(t *testing.T) {
		got := emits(t, func(ctx context.Context, out *OutputStream) error {
			if err := out.StartUnbounded(Sequence, WithMeta(map[string]any{"a": 1})); err != nil {
				return err
			}
			out.Finish(0.5, "half done")
			return out.EmitItem(ctx, "x", map[string]any{"seq": 1})
		})
		assert.Equal(t, cliResult{stdout: "x"}, got)
	})
	t.Run("section 11 an empty result", func(t *testing.T) {
		assert.Equal(t, cliResult{}, emits(t, func(context.Context, *OutputStream) error { return nil }))
		assert.Equal(t, cliResult{}, emits(t, func(_ context.Context, out *OutputStream) error { return out.Start() }))
	})
}

// told is a writer that tells each write.
type told chan string

func (w told) Write(p []byte) (int, error) { w <- string(p); return len(p), nil }

func TestCLIOutputTimes(t *testing.T) {
	run := func(t *testing.T, out io.Writer, h Handler) error {
		return cliOne(t, h).RunCLI(t.Context(), []string{"work"}, strings.NewReader("x"), out, io.Discard)
	}
	t.Run("section 11 an item goes out at once, writes when flushed or at the end", func(t *testing.T) {
		var out bytes.Buffer
		var seen []string
		note := func(err error) error { seen = append(seen, out.String()); return err }
		require.NoError(t, run(t, &out, func(ctx context.Context, r *Request) error {
			o := r.Output()
			_, err := o.Write([]byte("a"))
			return errors.Join(note(err), note(o.Flush(ctx)), func() error { _, err := o.Write([]byte("b")); return note(err) }())
		}))
		assert.Equal(t, []string{"", "a", "a"}, seen)
		assert.Equal(t, "ab", out.String())
		out.Reset()
		seen = nil
		require.NoError(t, run(t, &out, func(ctx context.Context, r *Request) error {
			return errors.Join(note(r.Output().EmitItem(ctx, "a", nil)), note(r.Output().EmitItem(ctx, "b", nil)))
		}))
		assert.Equal(t, []string{"a", "ab"}, seen)
	})
	t.Run("section 11 a forwarded piece goes out at once", func(t *testing.T) {
		c := cliOne(t, mergedIdentity, cliMain().Streaming(true))
		stdin, feed := io.Pipe()
		out, done := make(told), make(chan error, 1)
		go func() { done <- c.RunCLI(t.Context(), []string{"work"}, stdin, out, io.Discard) }()
		for _, piece := range []string{"one", "two"} {
			_, err := feed.Write([]byte(piece))
			require.NoError(t, err)
			assert.Equal(t, piece, <-out)
		}
		require.NoError(t, feed.Close())
		require.NoError(t, <-done)
	})
	t.Run("section 11 R-6.32 R-6.34 R-6.43 modes as on a link", func(t *testing.T) {
		got := emits(t, func(ctx context.Context, out *OutputStream) error {
			_, err := out.Write([]byte("scalar"))
			require.NoError(t, err)
			assert.ErrorIs(t, out.EmitItem(ctx, "x", nil), ErrStreamMode)
			assert.ErrorIs(t, out.Start(), ErrStarted)
			require.NoError(t, out.Close(ctx))
			require.NoError(t, out.Close(ctx))
			assert.ErrorIs(t, out.StartUnbounded(), ErrClosed)
			_, err = out.Write([]byte("late"))
			assert.ErrorIs(t, err, ErrClosed)
			return out.Log("info", failure.Internal, "still there")
		})
		assert.Equal(t, cliResult{stdout: "scalar", stderr: "[info] still there\n"}, got)
	})
	t.Run("R-6.52 a log goes out while standard output is stuck", func(t *testing.T) {
		out, errs := make(told), make(told, 1)
		done := make(chan error, 1)
		c := cliOne(t, func(ctx context.Context, r *Request) error {
			r.Go(func(ctx context.Context) error { return r.Output().EmitItem(ctx, "stuck", nil) })
			return r.Output().Log("info", failure.Internal, "meanwhile")
		})
		go func() { done <- c.RunCLI(t.Context(), []string{"work"}, strings.NewReader("x"), out, errs) }()
		assert.Equal(t, "[info] meanwhile\n", <-errs)
		assert.Equal(t, "stuck", <-out)
		require.NoError(t, <-done)
	})
	t.Run("R-6.53 what outlives the handler is neither written nor logged", func(t *testing.T) {
		for _, result := range []error{nil, errors.New("failed")} {
			var r *Request
			var out, errs bytes.Buffer
			c := cliOne(t, func(_ context.Context, req *Request) error { r = req; return result })
			assert.Equal(t, result == nil, c.RunCLI(t.Context(), []string{"work"}, strings.NewReader("x"), &out, &errs) == nil)
			_, err := r.Output().Write([]byte("late"))
			assert.Error(t, err)
			assert.NoError(t, r.Output().Log("info", failure.Internal, "late"))
			assert.Empty(t, out.String()+errs.String())
		}
	})
}

// brokenAfter is a writer that takes n writes.
type brokenAfter struct {
	n     int
	taken bytes.Buffer
}

func (w *brokenAfter) Write(p []byte) (int, error) {
	if w.n--; w.n < 0 {
		return 0, errors.New("broken pipe")
	}
	return w.taken.Write(p)
}

func TestCLIBrokenOutput(t *testing.T) {
	t.Run("F8 section 11 a broken standard output fails the handler's next call and the command", func(t *testing.T) {
		out := &brokenAfter{n: 1}
		var calls []error
		c := cliOne(t, func(ctx context.Context, r *Request) error {
			for range 3 {
				calls = append(calls, r.Output().EmitItem(ctx, "x", nil))
			}
			return nil
		})
		err := c.RunCLI(t.Context(), []string{"work"}, strings.NewReader("x"), out, io.Discard)
		assert.ErrorContains(t, err, "writing standard output: broken pipe")
		assert.NoError(t, calls[0])
		assert.Error(t, calls[1])
		assert.Error(t, calls[2])
		assert.Equal(t, "x", out.taken.String())
	})
	t.Run("section 11 one that breaks at the last flush too", func(t *testing.T) {
		err := cliOne(t, says("x")).RunCLI(t.Context(), []string{"work"}, strings.NewReader("x"), &brokenAfter{}, io.Discard)
		assert.ErrorContains(t, err, "writing standard output: broken pipe")
	})
	t.Run("R-2.22 a broken standard error is ignored", func(t *testing.T) {
		var out bytes.Buffer
		c := cliOne(t, func(ctx context.Context, r *Request) error {
			return errors.Join(r.Output().Log("info", failure.Internal, "nobody hears"), says("x")(ctx, r))
		})
		require.NoError(t, c.RunCLI(t.Context(), []string{"work"}, strings.NewReader("x"), &out, &brokenAfter{}))
		assert.Equal(t, "x", out.String())
		assert.Equal(t, StatusFailed, report(&brokenAfter{}, errors.New("x")))
	})
	t.Run("section 9.4 manifest and help to a broken output", func(t *testing.T) {
		for _, words := range [][]string{{"manifest"}, {"--help"}, {"work", "--help"}} {
			assert.Error(t, cliOne(t, says("x")).RunCLI(t.Context(), words, nil, &brokenAfter{}, io.Discard), words)
		}
	})
}
