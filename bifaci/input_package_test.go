package bifaci_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

// say answers with one item per text.
func say(ctx context.Context, r *bifaci.Request, texts ...string) error {
	for _, text := range texts {
		if err := r.Output().EmitItem(ctx, text, nil); err != nil {
			return err
		}
	}
	return nil
}

func TestInputPackage(t *testing.T) {
	virtual(t, "R-6.10 a stream is there from its STREAM_START on, and EOF after the body", func(t *testing.T) {
		h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			input, err := r.TakeInput()
			if err != nil {
				return err
			}
			for {
				s, err := input.Next(ctx)
				if errors.Is(err, io.EOF) {
					_, again := input.Next(ctx)
					return say(ctx, r, fmt.Sprint("end ", errors.Is(again, io.EOF)))
				}
				if err != nil {
					return err
				}
				if err := say(ctx, r, s.MediaURN()); err != nil {
					return err
				}
			}
		})
		req := h.Request(workCap)
		req.Stream("a", "media:a")
		req.WantItems("media:a") // before a chunk of it
		req.Stream("b", "media:b")
		req.WantItems("media:b") // while the first is open
		wantStill(t, req)
		req.End()
		req.WantItems("end true")
		req.WantEnd()
	})
	t.Run("R-6.10 All is Next as an iterator and can be left", func(t *testing.T) {
		h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			input, err := r.TakeInput()
			if err != nil {
				return err
			}
			for s, err := range input.All(ctx) {
				if err != nil {
					return err
				}
				if err := say(ctx, r, s.MediaURN()); err != nil {
					return err
				}
				break
			}
			for s, err := range input.All(ctx) { // goes on where the first one was left
				if err != nil {
					return err
				}
				if err := say(ctx, r, s.MediaURN()); err != nil {
					return err
				}
			}
			return nil
		})
		req := h.Request(workCap)
		req.Stream("a", "media:a")
		req.Stream("b", "media:b")
		req.Stream("c", "media:c")
		req.End()
		req.WantItems("media:a", "media:b", "media:c")
		req.WantEnd()
	})
	t.Run("R-6.10 the end of the caller's own context is no error of the package", func(t *testing.T) {
		h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			input, err := r.TakeInput()
			if err != nil {
				return err
			}
			impatient, cancel := context.WithCancelCause(ctx)
			cancel(errors.New("no patience"))
			if _, err := input.Next(impatient); err == nil || err.Error() != "no patience" {
				return fmt.Errorf("the impatient call got %v", err)
			}
			if err := say(ctx, r, "impatient"); err != nil {
				return err
			}
			s, err := input.Next(ctx)
			if err != nil {
				return err
			}
			return say(ctx, r, s.MediaURN())
		})
		req := h.Request(workCap)
		req.WantItems("impatient")
		req.Stream("a", "media:a")
		req.WantItems("media:a")
		req.WantEnd()
	})
}

func TestInputPackageSharedByGoroutines(t *testing.T) {
	virtual(t, "R-6.10 a caller that gives up neither loses nor repeats a stream for the others", func(t *testing.T) {
		h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			input, err := r.TakeInput()
			if err != nil {
				return err
			}
			impatient, giveUp := context.WithCancel(ctx)
			r.Go(func(context.Context) error {
				_, err := input.Next(impatient)
				if !errors.Is(err, context.Canceled) {
					return fmt.Errorf("the impatient caller got %v", err)
				}
				return say(ctx, r, "gave up")
			})
			synctest.Wait() // it asks first
			r.Go(func(ctx context.Context) error {
				for s, err := range input.All(ctx) {
					if err != nil {
						return err
					}
					if err := say(ctx, r, s.MediaURN()); err != nil {
						return err
					}
				}
				return nil
			})
			synctest.Wait()
			giveUp()
			return nil
		})
		req := h.Request(workCap)
		req.WantItems("gave up")
		req.Stream("a", "media:a")
		req.Stream("b", "media:b")
		req.End()
		req.WantItems("media:a", "media:b")
		req.WantEnd()
	})
}

func TestInputPackageErrorsStay(t *testing.T) {
	remote := new(failure.Remote)
	cancelled := new(failure.CancelledError)
	fault := new(failure.Failure)
	for name, c := range map[string]struct {
		end  func(*cartridgetest.Request)
		as   any
		code string
	}{
		"R-6.11 R-3.24 a remote ERR": {func(r *cartridgetest.Request) { r.Fail("UPSTREAM", failure.Environment, "gone") }, &remote, "UPSTREAM"},
		"R-6.11 R-8.20 a cancel":     {func(r *cartridgetest.Request) { r.Cancel(failure.UserCancel()) }, &cancelled, "CANCELLED"},
		"R-6.11 a poison": {func(r *cartridgetest.Request) {
			r.Send(cartridgetest.StreamEndFrame("never started", 0))
		}, &fault, "PROTOCOL_ERROR"},
	} {
		virtual(t, name+" fails the pending call and every later one", func(t *testing.T) {
			errs := make(chan error, 4)
			h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
				input, err := r.TakeInput()
				if err != nil {
					return err
				}
				for range cap(errs) - 1 {
					_, err = input.Next(context.WithoutCancel(ctx)) // the error must come from the package itself
					errs <- err
				}
				_, err = input.CollectStreams(context.WithoutCancel(ctx))
				errs <- err
				return err
			})
			req := h.Request(workCap)
			wantStill(t, req)
			c.end(req)
			for range cap(errs) {
				err := <-errs
				require.ErrorAs(t, err, c.as)
			}
			synctest.Wait()
			assert.Equal(t, c.code, req.Terminal().Failure().Code)
		})
	}
}

func TestCollectStreams(t *testing.T) {
	t.Run("R-6.12 two streams of 100 chunks, strictly alternating, window 4", func(t *testing.T) {
		h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
			input, err := r.TakeInput()
			if err != nil {
				return err
			}
			all, err := input.CollectStreams(ctx)
			if err != nil {
				return err
			}
			for _, s := range all {
				if err := say(ctx, r, fmt.Sprint(s.MediaURN, " ", s.Meta["side"], " ", string(s.Bytes))); err != nil {
					return err
				}
			}
			return nil
		})
		req := h.Request(workCap)
		b := req.Stream("b", "media:b", cartridgetest.Meta(map[string]any{"side": "left"}))
		a := req.Stream("a", "media:a", cartridgetest.Sequence)
		wantA, wantB := "", ""
		for i := range 100 {
			x, y := fmt.Sprint(i, ","), fmt.Sprint(-i, ";")
			b.Chunk(x)
			a.Item(y, nil)
			wantB, wantA = wantB+x, wantA+y
		}
		req.End()
		req.WantItems("media:b left "+wantB, "media:a <nil> "+wantA)
		req.WantEnd()
		h.WantIdle()
	})
	t.Run("R-6.12 a handler that takes named arguments one by one reads them at the same time", func(t *testing.T) {
		h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
			texts := make(chan string, 1)
			r.Go(func(ctx context.Context) error {
				s, err := r.Input(ctx, "media:b")
				if err != nil {
					return err
				}
				all, err := s.CollectBytes(ctx)
				texts <- string(all)
				return err
			})
			s, err := r.Input(ctx, "media:a")
			if err != nil {
				return err
			}
			a, err := s.CollectBytes(ctx)
			if err != nil {
				return err
			}
			return say(ctx, r, string(a), <-texts)
		})
		req := h.Request(workCap)
		b, a := req.Stream("b", "media:b"), req.Stream("a", "media:a")
		wantA, wantB := "", ""
		for i := range 100 {
			x := fmt.Sprint(i)
			b.Chunk(x)
			a.Chunk(x + x)
			wantA, wantB = wantA+x+x, wantB+x
		}
		req.End()
		req.WantItems(wantA, wantB)
		req.WantEnd()
	})
	t.Run("R-6.13 the bytes of all streams in the order of their starts", func(t *testing.T) {
		h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			input, err := r.TakeInput()
			if err != nil {
				return err
			}
			all, err := input.CollectAllBytes(ctx)
			if err != nil {
				return err
			}
			return say(ctx, r, string(all))
		})
		req := h.Request(workCap)
		one, two := req.Stream("1", "media:one"), req.Stream("2", "media:two")
		two.Chunk("c")
		one.Chunk("a")
		two.Chunk("d")
		one.Chunk("b")
		req.End()
		req.WantItems("abcd")
		req.WantEnd()
	})
	for method, collect := range map[string]func(*bifaci.InputPackage, context.Context) error{
		"CollectStreams":  func(p *bifaci.InputPackage, ctx context.Context) error { _, err := p.CollectStreams(ctx); return err },
		"CollectAllBytes": func(p *bifaci.InputPackage, ctx context.Context) error { _, err := p.CollectAllBytes(ctx); return err },
	} {
		virtual(t, "R-6.14 L16 "+method+" refuses an unbounded stream without reading it", func(t *testing.T) {
			errs := make(chan error, 1)
			h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
				input, err := r.TakeInput()
				if err != nil {
					return err
				}
				errs <- collect(input, ctx)
				<-ctx.Done()
				return context.Cause(ctx)
			})
			req := h.Request(workCap)
			live := req.Stream("live", "media:live-audio", cartridgetest.Unbounded)
			for range 8 {
				live.Chunk("never read")
			}
			err := <-errs
			assert.ErrorIs(t, err, bifaci.ErrUnbounded)
			assert.ErrorContains(t, err, method)
			assert.ErrorContains(t, err, "item by item")
			wantStill(t, req)
			assert.Empty(t, req.Grants("live"))
			req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
		})
	}
}

func TestStreamsLookups(t *testing.T) {
	streams := bifaci.Streams{
		{MediaURN: "not a urn", Bytes: []byte("unparsable")},
		{MediaURN: "media:enc=utf-8;fmt=json", Bytes: []byte("refined"), Meta: map[string]any{"n": uint64(1)}},
		{MediaURN: "media:binary", Bytes: []byte{0xff, 0xfe}},
		{MediaURN: "media:enc=utf-8;fmt=json", Bytes: []byte("second of its kind")},
	}
	t.Run("R-6.15 another tag order matches and the first of a kind is found", func(t *testing.T) {
		b, ok := streams.Find("media:fmt=json;enc=utf-8")
		require.True(t, ok)
		assert.Equal(t, "refined", string(b))
		s, ok := streams.FindString(`media:fmt="json";enc="utf-8"`)
		require.True(t, ok)
		assert.Equal(t, "refined", s)
		m, ok := streams.FindMeta("media:fmt=json;enc=utf-8")
		require.True(t, ok)
		assert.Equal(t, uint64(1), m["n"])
		s, err := streams.RequireString("media:fmt=json;enc=utf-8")
		require.NoError(t, err)
		assert.Equal(t, "refined", s)
	})
	t.Run("R-6.15 the base does not match a refined stream, nor a refinement its base", func(t *testing.T) {
		for _, query := range []string{"media:enc=utf-8", "media:fmt=json", "media:", "media:enc=utf-8;fmt=json;strict"} {
			_, ok := streams.Find(query)
			assert.False(t, ok, query)
			_, ok = streams.FindString(query)
			assert.False(t, ok, query)
			_, ok = streams.FindMeta(query)
			assert.False(t, ok, query)
		}
	})
	t.Run("R-6.15 what is absent is named", func(t *testing.T) {
		_, err := streams.Require("media:audio")
		assert.ErrorIs(t, err, bifaci.ErrMissingArgument)
		assert.ErrorContains(t, err, "media:audio")
		_, err = streams.RequireString("media:audio")
		assert.ErrorIs(t, err, bifaci.ErrMissingArgument)
	})
	t.Run("R-6.15 invalid UTF-8 is an error when required and absent when looked for", func(t *testing.T) {
		_, ok := streams.FindString("media:binary")
		assert.False(t, ok)
		_, err := streams.RequireString("media:binary")
		require.Error(t, err)
		assert.NotErrorIs(t, err, bifaci.ErrMissingArgument)
		assert.ErrorContains(t, err, "media:binary")
		b, err := streams.Require("media:binary")
		require.NoError(t, err)
		assert.Equal(t, []byte{0xff, 0xfe}, b)
	})
	t.Run("R-6.15 a malformed query matches nothing, not even the same text", func(t *testing.T) {
		for _, query := range []string{"not a urn", "", "media:=", "media:a;a"} {
			_, ok := streams.Find(query)
			assert.False(t, ok, query)
			_, ok = streams.FindConforming(query)
			assert.False(t, ok, query)
			_, err := streams.Require(query)
			assert.ErrorIs(t, err, bifaci.ErrMissingArgument, query)
		}
	})
	t.Run("R-6.15 FindConforming is a separate method and takes the first that satisfies", func(t *testing.T) {
		b, ok := streams.FindConforming("media:enc=utf-8")
		require.True(t, ok)
		assert.Equal(t, "refined", string(b))
		s, ok := streams.FindStringConforming("media:fmt=json")
		require.True(t, ok)
		assert.Equal(t, "refined", s)
		_, ok = streams.FindStringConforming("media:binary")
		assert.False(t, ok, "it is no UTF-8")
		_, ok = streams.FindConforming("media:enc=utf-8;fmt=json;strict")
		assert.False(t, ok, "a general stream does not satisfy a more specific query")
	})
	t.Run("R-6.16 the URN to look for is the argument's content URN when it has one", func(t *testing.T) {
		path := manifest.NewArg("media:enc=utf-8;file-path", true, manifest.Stdin("media:audio;wav"))
		plain := manifest.NewArg("media:enc=utf-8;title", false, manifest.CLIFlag("--title"))
		arrived := bifaci.Streams{{MediaURN: "media:wav;audio", Bytes: []byte("content")}, {MediaURN: "media:enc=utf-8;title", Bytes: []byte("name")}}
		b, err := arrived.Require(path.StreamURN())
		require.NoError(t, err)
		assert.Equal(t, "content", string(b))
		b, err = arrived.Require(plain.StreamURN())
		require.NoError(t, err)
		assert.Equal(t, "name", string(b))
		_, ok := arrived.Find(path.MediaURN)
		assert.False(t, ok, "the path itself is not delivered")
	})
}

func TestNamedInput(t *testing.T) {
	t.Run("R-6.15 R-6.16 an argument is found by equivalence, whatever came before it", func(t *testing.T) {
		h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			s, err := r.Input(ctx, "media:fmt=json;enc=utf-8")
			if err != nil {
				return err
			}
			v, err := s.CollectValue(ctx)
			if err != nil {
				return err
			}
			return say(ctx, r, fmt.Sprintf("%s", v))
		})
		req := h.Request(workCap)
		req.Stream("1", "no urn at all")
		req.Stream("2", "media:enc=utf-8")
		req.Stream("3", "media:enc=utf-8;fmt=json").Chunk("found")
		req.WantItems("found")
		req.WantEnd()
	})
	t.Run("R-6.15 a body without it fails with its name", func(t *testing.T) {
		h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			_, err := r.Input(ctx, "media:audio")
			if !errors.Is(err, bifaci.ErrMissingArgument) {
				return fmt.Errorf("got %v", err)
			}
			return err
		})
		got := h.Request(workCap).Chunk("text").End().WantErr("HANDLER_ERROR", failure.Internal)
		assert.Contains(t, got.Message, "media:audio")
	})
}
