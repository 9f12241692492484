package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestContentURN(t *testing.T) {
	for ref, want := range map[string]string{
		"media:live;synthetic":                        "media:feed-frames",
		"media:audio;live;microphone":                 "media:audio-frames;pcm",
		"media:image;live;webcam":                     "media:image;video-frame",
		"MEDIA:Synthetic;LIVE":                        "media:feed-frames",
		"media:live;room=12;synthetic":                "media:feed-frames",
		"media:microphone;audio;live;lang=de;quality": "media:audio-frames;pcm",
	} {
		t.Run("R-9.1 "+ref, func(t *testing.T) {
			content, ok := ContentURN(ref)
			assert.True(t, ok)
			assert.Equal(t, want, content)
		})
	}
	for _, ref := range []string{"media:", "media:synthetic", "media:live", "media:live;!synthetic", "media:live;microphone",
		"media:audio;microphone", "media:image;webcam", "media:live;radar", "media:void", "cap:", "", "live;synthetic"} {
		t.Run("R-9.1 no family: "+ref, func(t *testing.T) {
			content, ok := ContentURN(ref)
			assert.False(t, ok)
			assert.Empty(t, content)
		})
	}
	t.Run("R-9.2 known without a backend", func(t *testing.T) {
		const ref = "media:image;live;webcam"
		require.Error(t, Available(ref))
		_, ok := ContentURN(ref)
		assert.True(t, ok)
	})
}

func TestUnavailable(t *testing.T) {
	for name, ref := range map[string]string{
		"R-9.3 unknown family":          "media:live;radar",
		"R-9.3 no live reference":       "media:synthetic",
		"R-9.3 no URN":                  "radar",
		"R-9.3 R-9.52 no webcam here":   "media:image;live;webcam",
		"R-9.3 webcam, the refined one": "media:front;image;live;webcam",
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Open(t.Context(), ref, Selector{})
			assert.Nil(t, f)
			wantFailure(t, err, failure.FeedUnavailable, failure.Environment, ref)
			assert.Equal(t, ref, failure.From(err).ArgURN)
			assert.Equal(t, err, Available(ref))
		})
	}
	t.Run("R-9.3 available", func(t *testing.T) {
		assert.NoError(t, Available("media:live;synthetic"))
		assert.NoError(t, Available("media:audio;live;microphone"))
	})
}

func TestReference(t *testing.T) {
	t.Run("R-9.1 each family has a plain reference, which is its own", func(t *testing.T) {
		for name, want := range map[string]string{Synthetic: "media:live;synthetic", Microphone: "media:audio;live;microphone",
			Webcam: "media:image;live;webcam"} {
			ref, ok := Reference(name)
			assert.True(t, ok, name)
			assert.Equal(t, want, ref)
		}
		for _, name := range []string{"", "radar", "Synthetic", "media:live;synthetic"} {
			_, ok := Reference(name)
			assert.False(t, ok, name)
		}
	})
}

func TestWithBackend(t *testing.T) {
	refusal := failure.New("OURS", failure.User, "opened by ours")
	ours := WithBackend(Webcam, backendFunc(func(context.Context, Selector) (Capture, error) { return Capture{}, refusal }))
	t.Run("R-9.3 R-9.53 a family without a backend gets one", func(t *testing.T) {
		const ref = "media:front;image;live;webcam"
		assert.NoError(t, Available(ref, ours))
		_, err := Open(t.Context(), ref, Selector{}, ours)
		assert.ErrorIs(t, err, refusal)
	})
	t.Run("R-9.1 other families keep theirs", func(t *testing.T) {
		require.Error(t, Available("media:live;radar", ours))
		f, err := Open(t.Context(), "media:live;synthetic", Selector{Stop: Stop{MaxItems: count(0)}}, ours)
		require.NoError(t, err)
		_, end := readAll(t.Context(), f)
		assert.Equal(t, io.EOF, end)
		<-f.Done()
	})
}

func TestOpen(t *testing.T) {
	t.Run("R-9.53 usable without a request", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, err := Open(t.Context(), "media:live;synthetic", Selector{Params: params(t, `{"items":2}`)})
			require.NoError(t, err)
			items, end := readAll(t.Context(), f)
			assert.Len(t, items, 2)
			assert.Equal(t, io.EOF, end)
			<-f.Done()
		})
	})
	t.Run("R-9.13 a bad param names the reference and stays a selector error", func(t *testing.T) {
		const ref = "media:live;room=12;synthetic"
		_, err := Open(t.Context(), ref, Selector{Params: params(t, `{"colour":1}`)})
		wantFailure(t, err, failure.FeedSelector, failure.Input, "selector", "colour", ref)
		assert.Equal(t, ref, failure.From(err).ArgURN)
	})
	t.Run("R-9.6 the context releases a device that does not open", func(t *testing.T) {
		cause := errors.New("the caller left")
		ctx, cancel := context.WithCancelCause(t.Context())
		opening := make(chan struct{})
		b := backendFunc(func(ctx context.Context, _ Selector) (Capture, error) {
			close(opening)
			<-ctx.Done()
			return Capture{}, ctx.Err()
		})
		go func() {
			<-opening
			cancel(cause)
		}()
		_, err := New(ctx, b, Selector{})
		assert.Equal(t, cause, err)
	})
	t.Run("R-9.6 a device that refuses", func(t *testing.T) {
		refusal := errors.New("in use")
		_, err := New(t.Context(), backendFunc(func(context.Context, Selector) (Capture, error) { return Capture{}, refusal }), Selector{})
		wantFailure(t, err, failure.FeedUnavailable, failure.Environment, "in use")
		assert.ErrorIs(t, err, refusal)
	})
	t.Run("R-9.6 R-9.41 whose error of opening wraps the end of something is no end", func(t *testing.T) {
		for name, refusal := range map[string]error{
			"plain":      fmt.Errorf("the driver's pipe: %w", io.EOF),
			"classified": failure.Newf("DRIVER", failure.Resource, "the driver's pipe: %w", io.EOF),
		} {
			broken := backendFunc(func(context.Context, Selector) (Capture, error) { return Capture{}, refusal })
			_, err := New(t.Context(), broken, Selector{})
			require.ErrorContains(t, err, "the driver's pipe: EOF", name)
			assert.NotErrorIs(t, err, io.EOF, name)
			_, err = Open(t.Context(), "media:live;synthetic", Selector{}, WithBackend(Synthetic, broken))
			require.ErrorContains(t, err, "the driver's pipe: EOF", name)
			assert.NotErrorIs(t, err, io.EOF, name)
		}
	})
	t.Run("R-9.6 a device that classifies its refusal", func(t *testing.T) {
		refusal := failure.New("NOT_YOURS", failure.User, "the owner said no")
		_, err := New(t.Context(), backendFunc(func(context.Context, Selector) (Capture, error) { return Capture{}, refusal }), Selector{})
		assert.Equal(t, refusal, err)
	})
}
