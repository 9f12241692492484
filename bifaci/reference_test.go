package bifaci_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/host"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

const (
	feedCap = `cap:drain-feed;in="media:feed-frames";out="media:feed-frames"`
	pathCap = `cap:in="media:enc=utf-8";out="media:enc=utf-8";read-files`
)

// connectReferences serves a cap that gives a feed's items back, and one that gives the items of its argument back.
func connectReferences(t *testing.T, sequence bool) *host.Conn {
	t.Helper()
	echo := func(ctx context.Context, r *bifaci.Request) error {
		input, err := r.TakeInput()
		if err != nil {
			return err
		}
		s, err := input.Next(ctx)
		if err != nil {
			return err
		}
		out, err := r.StartUnbounded(bifaci.Sequence)
		if err != nil {
			return err
		}
		if err := out.EmitItem(ctx, s.MediaURN(), nil); err != nil {
			return err
		}
		for it, err := range s.Items(ctx) {
			if err != nil {
				return err
			}
			if err := out.EmitItem(ctx, it.Bytes, it.Meta); err != nil {
				return err
			}
		}
		return nil
	}
	feedArg := manifest.NewArg("media:live;synthetic", true, manifest.Stdin("media:feed-frames")).Streaming(true).Sequence(true)
	pathArg := manifest.NewArg("media:file-path", true, manifest.Stdin("media:enc=utf-8")).Sequence(sequence)
	c := bifaci.MustNew(manifest.New("references", "1.0.0", "resolves references", manifest.DefaultGroup(manifest.IdentityCap(),
		manifest.NewCap(feedCap, "Feed", "feed").WithArgs(feedArg), manifest.NewCap(pathCap, "Files", "files").WithArgs(pathArg))))
	c.HandleFunc(feedCap, echo)
	c.HandleFunc(pathCap, echo)
	cl := cartridgetest.Connect(t, c)
	t.Cleanup(func() { assert.NoError(t, cl.Wait()) })
	return cl.Conn()
}

// reference calls a cap with one scalar argument and gives the items that come back, as far as they came.
func reference(t *testing.T, conn *host.Conn, capURN, media, value string, each func(*host.Call, *bifaci.OutputStream, bifaci.Item)) (items []bifaci.Item, err error) {
	t.Helper()
	call, err := conn.Call(t.Context(), capURN)
	require.NoError(t, err)
	arg := call.Arg(media)
	_, err = arg.Write([]byte(value))
	require.NoError(t, err)
	if err := call.Finish(t.Context()); err != nil && !errors.Is(err, bifaci.ErrRequestEnded) {
		// The answer may come before the body's END is sent: then there is its error, and nothing more is owed.
		require.ErrorAs(t, err, new(*failure.Remote))
	}
	for it, err := range call.Response().Items(t.Context()) {
		if err != nil {
			return items, err
		}
		if it.Data != nil {
			items = append(items, *it.Data)
			if each != nil {
				each(call, arg, *it.Data)
			}
		}
	}
	return items, nil
}

func texts(items []bifaci.Item) (texts []string) {
	for _, it := range items {
		texts = append(texts, string(it.Bytes))
	}
	return texts
}

func TestFilePathReferences(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.txt": "first", "b.txt": "second"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	t.Run("R-6.60 R-6.61 R-6.63 a scalar path becomes the content of its file", func(t *testing.T) {
		items, err := reference(t, connectReferences(t, false), pathCap, "media:file-path", filepath.Join(dir, "a.txt"), nil)
		require.NoError(t, err)
		assert.Equal(t, []string{"media:enc=utf-8", "first"}, texts(items))
	})
	t.Run("R-6.63 lines and patterns of a sequence become one item per file", func(t *testing.T) {
		items, err := reference(t, connectReferences(t, true), pathCap, "media:file-path", filepath.Join(dir, "b.txt")+"\n\n "+dir+"/*.txt\n", nil)
		require.NoError(t, err)
		assert.Equal(t, []string{"media:enc=utf-8", "second", "first", "second"}, texts(items))
	})
	t.Run("R-6.65 a missing file fails the package and names the argument", func(t *testing.T) {
		_, err := reference(t, connectReferences(t, false), pathCap, "media:file-path", filepath.Join(dir, "c.txt"), nil)
		var remote *failure.Remote
		require.ErrorAs(t, err, &remote)
		assert.Equal(t, failure.FilePath, remote.Code)
		assert.Equal(t, failure.Input, remote.Class)
		assert.Equal(t, "media:file-path", remote.ArgURN)
	})
	t.Run("R-6.64 a path that no argument with content takes is its own text", func(t *testing.T) {
		items, err := reference(t, connectReferences(t, false), pathCap, "media:file-path;other", "anything", nil)
		require.NoError(t, err)
		assert.Equal(t, []string{"media:file-path;other", "anything"}, texts(items))
	})
	t.Run("R-6.62 a reference of more than 1 MiB poisons the request", func(t *testing.T) {
		_, err := reference(t, connectReferences(t, false), pathCap, "media:file-path", string(make([]byte, 1<<20+1)), nil)
		var remote *failure.Remote
		require.ErrorAs(t, err, &remote)
		assert.Equal(t, failure.ProtocolError, remote.Code)
	})
}

func TestLiveReferences(t *testing.T) {
	t.Run("R-9.5 a synthetic feed is an unbounded sequence of what it captures", func(t *testing.T) {
		items, err := reference(t, connectReferences(t, false), feedCap, "media:live;synthetic", `{"params":{"items":3,"interval_ms":0,"item_bytes":2}}`, nil)
		require.NoError(t, err)
		require.Equal(t, []string{"media:feed-frames", "\x00\x00", "\x01\x01", "\x02\x02"}, texts(items))
		assert.EqualValues(t, 2, items[3].Meta["seq"])
	})
	t.Run("R-8.40 CLOSE_STREAM ends the feed and the answer is complete", func(t *testing.T) {
		conn := connectReferences(t, false)
		items, err := reference(t, conn, feedCap, "media:live;synthetic", `{"params":{"items":1000000,"interval_ms":1}}`,
			func(call *host.Call, arg *bifaci.OutputStream, it bifaci.Item) {
				if it.Meta["seq"] != nil {
					assert.NoError(t, call.CloseFeeds(""))
				}
			})
		require.NoError(t, err)
		assert.Greater(t, len(items), 1)
		_, err = conn.Probe(t.Context(), nil)
		assert.NoError(t, err)
	})
	t.Run("R-8.41 CLOSE_STREAM of another stream changes nothing", func(t *testing.T) {
		items, err := reference(t, connectReferences(t, false), feedCap, "media:live;synthetic", `{"params":{"items":4,"interval_ms":5}}`,
			func(call *host.Call, _ *bifaci.OutputStream, _ bifaci.Item) {
				assert.NoError(t, call.CloseFeeds("another"))
			})
		require.NoError(t, err)
		assert.Len(t, items, 5)
	})
	t.Run("R-9.12 a bad selector fails the package", func(t *testing.T) {
		_, err := reference(t, connectReferences(t, false), feedCap, "media:live;synthetic", `{"devise":"mic0"}`, nil)
		var remote *failure.Remote
		require.ErrorAs(t, err, &remote)
		assert.Equal(t, failure.FeedSelector, remote.Code)
	})
	t.Run("R-9.3 a feed that this build does not have is named", func(t *testing.T) {
		_, err := reference(t, connectReferences(t, false), feedCap, "media:image;live;webcam", "", nil)
		var remote *failure.Remote
		require.ErrorAs(t, err, &remote)
		assert.Equal(t, failure.FeedUnavailable, remote.Code)
		assert.Contains(t, remote.Message, "media:image;live;webcam")
	})
	t.Run("R-9.4 a feed that fits no argument is a mismatch", func(t *testing.T) {
		_, err := reference(t, connectReferences(t, false), pathCap, "media:live;synthetic", "", nil)
		var remote *failure.Remote
		require.ErrorAs(t, err, &remote)
		assert.Equal(t, failure.FeedMismatch, remote.Code)
	})
	t.Run("R-9.42 a cancel ends the feed", func(t *testing.T) {
		_, err := reference(t, connectReferences(t, false), feedCap, "media:live;synthetic", `{"params":{"items":1000000,"interval_ms":1}}`,
			func(call *host.Call, _ *bifaci.OutputStream, _ bifaci.Item) { call.Cancel(failure.UserCancel()) })
		var cancelled *failure.CancelledError
		assert.ErrorAs(t, err, &cancelled)
	})
}
