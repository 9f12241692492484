package bifaci

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/feed"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

// handDevice is a device that a test plays by hand.
type handDevice struct {
	opening chan struct{}   // a token for each Open
	ready   chan error      // what Open waits for, and fails with
	sinks   chan *feed.Sink // of what runs
	finish  chan struct{}   // ends a Run
}

func newHandDevice() *handDevice {
	return &handDevice{make(chan struct{}, 8), make(chan error, 8), make(chan *feed.Sink, 8), make(chan struct{})}
}

func (d *handDevice) Open(ctx context.Context, _ feed.Selector) (feed.Capture, error) {
	d.opening <- struct{}{}
	select {
	case err := <-d.ready:
		if err != nil {
			return feed.Capture{}, err
		}
	case <-ctx.Done():
		return feed.Capture{}, context.Cause(ctx)
	}
	return feed.Capture{Meta: frame.Meta{"feed": "hand"}, Run: func(ctx context.Context, to *feed.Sink) error {
		d.sinks <- to
		select {
		case <-d.finish:
		case <-ctx.Done():
		}
		return nil
	}}, nil
}

const cliAudio = "media:audio-frames;pcm"

// cliListener is a cartridge with one cap, slug work, whose main input may be a live feed, and its handler.
func cliListener(t testing.TB, h Handler, opts []Option, args ...manifest.Arg) *Cartridge {
	t.Helper()
	const urn = `cap:in="media:audio-frames;pcm";out="media:enc=utf-8";work`
	args = append([]manifest.Arg{manifest.NewArg(cliAudio, true, manifest.Stdin(cliAudio)).Streaming(true).Sequence(true)}, args...)
	c := cliMade(t, []manifest.Cap{manifest.NewCap(urn, "Work", "work").WithArgs(args...)}, opts...)
	c.HandleFunc(urn, h)
	return c
}

func TestCLIFeeds(t *testing.T) {
	synthetic := func(selector string) []string {
		return []string{"work", "--feed", "synthetic", "--feed-selector", selector}
	}
	frames := func(sources ...manifest.Source) manifest.Arg {
		return manifest.NewArg("media:feed-frames", true, append([]manifest.Source{manifest.Stdin("media:feed-frames")}, sources...)...).Sequence(true)
	}
	made := func(t *testing.T, h Handler, args ...manifest.Arg) *Cartridge {
		const urn = `cap:in="media:feed-frames";out="media:enc=utf-8";work`
		c := cliMade(t, []manifest.Cap{manifest.NewCap(urn, "Work", "work").WithArgs(args...)})
		c.HandleFunc(urn, h)
		return c
	}
	want := []cliSeen{{media: "media:feed-frames", items: []string{"\x00\x00", "\x01\x01", "\x02\x02"}, sequence: true, unbounded: true}}
	const three = `{"params":{"items":3,"interval_ms":0,"item_bytes":2}}`
	for name, words := range map[string][]string{
		"by its family":     synthetic(three),
		"by its reference":  {"work", "--feed", "media:live;room=3;synthetic", "--feed-selector", three},
		"with equals signs": {"work", "--feed=synthetic", "--feed-selector=" + three},
	} {
		t.Run("R-2.16 R-9.4 section 10.3 --feed gives the main input "+name, func(t *testing.T) {
			var runs [][]cliSeen
			got := cliRunOn(t, made(t, cliWatch(&runs), frames()), noReads{t}, words...)
			require.NoError(t, got.err)
			assert.Equal(t, [][]cliSeen{want}, runs)
		})
	}
	live := manifest.NewArg("media:live;synthetic", true, manifest.Stdin("media:feed-frames"), manifest.CLIFlag("--tap")).Sequence(true)
	t.Run("R-2.16 R-9.4 section 10.3 a live reference takes its selector from its flag", func(t *testing.T) {
		var runs [][]cliSeen
		got := cliRunOn(t, made(t, cliWatch(&runs), live), noReads{t}, "work", "--tap", three)
		require.NoError(t, got.err)
		assert.Equal(t, [][]cliSeen{want}, runs)
	})
	t.Run("section 10.3 an empty selector is all defaults, and so is a default of {}", func(t *testing.T) {
		for _, words := range [][]string{{"work", "--tap="}, {"work"}} {
			var runs [][]cliSeen
			got := cliRunOn(t, made(t, cliWatch(&runs), live.Default(map[string]any{})), nil, words...)
			require.NoError(t, got.err)
			assert.Len(t, runs[0][0].items, 10, "%v", words)
		}
	})
	t.Run("R-9.5 the handler sees what is really captured", func(t *testing.T) {
		var meta frame.Meta
		got := cliRunOn(t, made(t, func(ctx context.Context, r *Request) error {
			s, err := r.Input(ctx, "media:feed-frames")
			if err != nil {
				return err
			}
			meta = s.Meta()
			_, err = s.CollectBytes(ctx)
			if !errors.Is(err, ErrUnbounded) {
				return errors.New("a feed was collected")
			}
			return nil
		}, frames()), noReads{t}, synthetic(`{"params":{"interval_ms":7}}`)...)
		require.NoError(t, got.err)
		assert.Equal(t, frame.Meta{"feed": "synthetic", "interval_ms": int64(7)}, meta)
	})
	t.Run("section 10.1 a cap that declares --feed has it for itself", func(t *testing.T) {
		var runs [][]cliSeen
		own := cliArg("own", true, manifest.CLIFlag("--feed"))
		got := cliRunOn(t, made(t, cliWatch(&runs), frames(), own), &oneRead{"piped"}, "work", "--feed", "synthetic")
		require.NoError(t, got.err)
		assert.Equal(t, []string{"piped"}, runs[0][0].items)
		assert.Equal(t, []string{"synthetic"}, runs[0][1].items)
	})
	t.Run("R-2.15 R-9.5 each run of several has a feed of its own", func(t *testing.T) {
		dir := t.TempDir()
		for _, name := range []string{"a", "b"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
		}
		var runs [][]cliSeen
		file := manifest.NewArg("media:file-path;note", true, manifest.FilePath(cliText))
		got := cliRunOn(t, made(t, cliWatch(&runs), frames(), file), noReads{t}, append(synthetic(three), filepath.Join(dir, "*"))...)
		require.NoError(t, got.err)
		require.Len(t, runs, 2)
		for _, run := range runs {
			assert.Equal(t, want[0], run[0])
		}
	})
	for name, row := range map[string]struct {
		args  []manifest.Arg
		words []string
		line  string
	}{
		"R-9.3 no such family":            {[]manifest.Arg{frames()}, []string{"work", "--feed", "radar"}, `^FEED_UNAVAILABLE: .*"radar".*synthetic, microphone, webcam`},
		"R-9.3 a reference of no family":  {[]manifest.Arg{frames()}, []string{"work", "--feed", "media:live;radar"}, `^FEED_UNAVAILABLE: .*media:live;radar`},
		"R-9.3 no backend":                {[]manifest.Arg{frames()}, []string{"work", "--feed", "webcam"}, `^FEED_UNAVAILABLE: .*media:image;live;webcam`},
		"R-9.4 another content":           {[]manifest.Arg{frames()}, []string{"work", "--feed", "microphone"}, `^FEED_MISMATCH: .*media:feed-frames`},
		"R-9.4 no sequence":               {[]manifest.Arg{frames().Sequence(false)}, synthetic("{}"), `^FEED_MISMATCH: .*sequence`},
		"R-9.12 a bad selector":           {[]manifest.Arg{frames()}, synthetic(`{"devise":"mic0"}`), `^FEED_SELECTOR: .*selector.*devise`},
		"R-9.12 a bad selector of a flag": {[]manifest.Arg{live}, []string{"work", "--tap", "{not json"}, `^FEED_SELECTOR: .*selector`},
		"R-9.13 a bad param":              {[]manifest.Arg{frames()}, synthetic(`{"params":{"colour":1}}`), `^FEED_SELECTOR: .*colour`},
	} {
		t.Run(name, func(t *testing.T) {
			var runs [][]cliSeen
			got := cliRunOn(t, made(t, cliWatch(&runs), row.args...), noReads{t}, row.words...)
			assert.Regexp(t, row.line, got.stderr)
			assert.Equal(t, 1, lineCount(got.stderr))
			assert.Equal(t, StatusFailed, got.status)
			assert.Empty(t, got.stdout)
		})
	}
	t.Run("R-2.11 section 9.5 the help names the feeds that the input takes", func(t *testing.T) {
		help := cliRunOn(t, cliListener(t, says(""), nil), noReads{t}, "work", "--help").stdout
		assert.Regexp(t, `(?m)^  --feed +.*: microphone *$`, help)
		assert.Regexp(t, `(?m)^  --feed-selector `, help)
		plain := cliRunOn(t, cliOne(t, says(""), cliMain()), noReads{t}, "work", "--help").stdout
		assert.NotContains(t, plain, "--feed")
	})
}

// cliListening is a command that listens to a device of the test, in the background.
type cliListening struct {
	*cliLive
	device *handDevice
}

func listen(t *testing.T, h Handler) *cliListening {
	d := newHandDevice()
	l := &cliLive{c: cliListener(t, h, []Option{WithFeedBackend(feed.Microphone, d)}), done: make(chan error, 1)}
	ctx, cancel := context.WithCancelCause(t.Context())
	l.cancel = cancel
	go func() {
		l.done <- l.c.RunCLI(ctx, []string{"work", "--feed", "microphone"}, noReads{t}, io.Discard, io.Discard)
	}() // awaited by each test
	return &cliListening{l, d}
}

// heardBy is a handler that hands the items of the audio on to a channel, which it closes at the end.
func heardBy(items chan<- string) Handler {
	return func(ctx context.Context, r *Request) error {
		defer close(items)
		s, err := r.Input(ctx, cliAudio)
		if err != nil {
			return err
		}
		for it, err := range s.Items(ctx) {
			if err != nil {
				return err
			}
			items <- string(it.Bytes)
		}
		return nil
	}
}

func TestCLIFeedInterrupt(t *testing.T) {
	run := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
	run("R-2.18 R-8.40 the first closes the feed, behind what was captured", func(t *testing.T) {
		items := make(chan string)
		l := listen(t, heardBy(items))
		l.device.ready <- nil
		sink := <-l.device.sinks
		for _, text := range []string{"one", "two", "three"} {
			require.True(t, sink.Push(feed.Sample{Data: []byte(text)}))
		}
		assert.Equal(t, "one", <-items)
		assert.True(t, l.c.cli.Load().closeFeeds())
		assert.False(t, l.c.cli.Load().closeFeeds(), "the second interrupt finds nothing to close")
		assert.False(t, sink.Push(feed.Sample{Data: []byte("late")}))
		assert.Equal(t, "two", <-items)
		assert.Equal(t, "three", <-items)
		_, open := <-items
		assert.False(t, open)
		require.NoError(t, <-l.done)
	})
	run("R-2.18 R-8.43 also while the device is being opened", func(t *testing.T) {
		items := make(chan string)
		l := listen(t, heardBy(items))
		<-l.device.opening
		assert.True(t, l.c.cli.Load().closeFeeds())
		l.device.ready <- nil
		_, open := <-items
		assert.False(t, open)
		require.NoError(t, <-l.done)
	})
	run("R-2.18 after the device's own end there is nothing to close", func(t *testing.T) {
		items, end := make(chan string), make(chan struct{})
		l := listen(t, func(ctx context.Context, r *Request) error {
			err := heardBy(items)(ctx, r)
			<-end
			return err
		})
		l.device.ready <- nil
		<-l.device.sinks
		close(l.device.finish)
		<-items
		synctest.Wait()
		assert.False(t, l.c.cli.Load().closeFeeds())
		close(end)
		require.NoError(t, <-l.done)
	})
	run("R-2.18 F5 the second ends a handler that waits for the device, and one that waits for an item", func(t *testing.T) {
		for _, ready := range []bool{false, true} {
			items := make(chan string)
			l := listen(t, heardBy(items))
			if ready {
				l.device.ready <- nil
			}
			synctest.Wait()
			l.cancel(signalError{os.Interrupt})
			<-items
			var f *failure.Failure
			require.ErrorAs(t, <-l.done, &f)
			assert.Equal(t, "ABORTED: signal: interrupt", f.Error())
		}
	})
	run("R-9.6 R-2.17 a device that refuses ends the command", func(t *testing.T) {
		items := make(chan string)
		l := listen(t, heardBy(items))
		l.device.ready <- errors.New("in use")
		<-items
		err := <-l.done
		assert.ErrorContains(t, err, "in use")
		assert.Equal(t, failure.FeedUnavailable, failure.From(err).Code)
	})
	run("R-9.42 F1 a handler that leaves early releases the device", func(t *testing.T) {
		l := listen(t, func(ctx context.Context, r *Request) error {
			s, err := r.Input(ctx, cliAudio)
			if err != nil {
				return err
			}
			_, err = s.Next(ctx)
			return err
		})
		l.device.ready <- nil
		require.True(t, (<-l.device.sinks).Push(feed.Sample{Data: []byte("x")}))
		require.NoError(t, <-l.done)
	})
}
