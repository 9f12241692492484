package bifaci_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/feed"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

// camera is a device that a test plays by hand: it opens when the test lets it, and captures what the test pushes.
type camera struct {
	opening chan struct{} // a token for each Open
	ready   chan struct{} // Open waits for a token, or for the end of its context
	sinks   chan *feed.Sink
	fail    chan error // Run returns it
	running atomic.Int32
}

// errPanic makes the device panic.
var errPanic = errors.New("panic")

func newCamera() *camera {
	return &camera{make(chan struct{}, 8), make(chan struct{}, 8), make(chan *feed.Sink, 8), make(chan error), atomic.Int32{}}
}

// openAtOnce lets n devices open.
func (c *camera) openAtOnce(n int) *camera {
	for range n {
		c.ready <- struct{}{}
	}
	return c
}

func (c *camera) Open(ctx context.Context, _ feed.Selector) (feed.Capture, error) {
	c.opening <- struct{}{}
	select {
	case <-c.ready:
	case <-ctx.Done():
		return feed.Capture{}, context.Cause(ctx)
	}
	return feed.Capture{Meta: frame.Meta{"feed": "camera"}, Run: func(ctx context.Context, to *feed.Sink) error {
		c.running.Add(1)
		defer c.running.Add(-1)
		c.sinks <- to
		select {
		case err := <-c.fail:
			if err == errPanic {
				panic("unplugged")
			}
			return err
		case <-ctx.Done():
			return nil
		}
	}}, nil
}

// The live reference of these tests, the argument it fits, and their cap.
const (
	cameraRef   = "media:image;live;webcam"
	cameraMedia = "media:image;video-frame"
	watchCap    = `cap:in="media:image;video-frame";out="media:image;video-frame";watch`
)

// watching serves one handler on a feed's items, next to an echo and a handler that only waits.
func watching(t *testing.T, c *camera, h bifaci.Handler, capacities map[string]uint64, opts ...cartridgetest.Option) *cartridgetest.Host {
	t.Helper()
	m := manifestOf("echo", "stuck")
	group := &m.Groups[0]
	group.Caps = append(group.Caps, manifest.NewCap(watchCap, "Watch", "watch").
		WithArgs(manifest.NewArg(cameraMedia, true, manifest.Stdin(cameraMedia)).Streaming(true).Sequence(true)).
		WithOutput(manifest.NewOutput(cameraMedia, "frames").Streaming(true).Sequence(true)))
	bounded(capacities)(m)
	cart, err := bifaci.New(m, bifaci.WithFeedBackend(feed.Webcam, c))
	require.NoError(t, err)
	cart.HandleFunc(watchCap, h)
	cart.HandleFunc(capNamed("echo"), echoes)
	cart.HandleFunc(capNamed("stuck"), func(ctx context.Context, _ *bifaci.Request) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	return cartridgetest.Start(t, cart, opts...)
}

// watches gives the feed's items back as they come.
func watches(ctx context.Context, r *bifaci.Request) error {
	s, err := firstStream(ctx, r)
	if err != nil {
		return err
	}
	out, err := r.StartUnbounded(bifaci.Sequence)
	if err != nil {
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

// watch sends a request with a reference of that stream id, and its body's end.
func watch(h *cartridgetest.Host, id string) *cartridgetest.Request {
	req := h.Request(watchCap)
	req.Stream(id, cameraRef).Chunk("{}").End()
	return req.End()
}

// push captures items of one byte each.
func push(t *testing.T, to *feed.Sink, texts ...string) {
	t.Helper()
	for _, text := range texts {
		require.True(t, to.Push(feed.Sample{Data: []byte(text)}))
	}
}

func TestCloseStreamFindsEveryOpenFeed(t *testing.T) {
	virtual(t, "R-8.43 R-8.40 a feed whose device is being opened ends at once, with zero items", func(t *testing.T) {
		c := newCamera()
		h := watching(t, c, watches, nil)
		req := watch(h, "eye")
		<-c.opening
		req.CloseFeeds("")
		synctest.Wait()
		c.ready <- struct{}{}
		assert.False(t, (<-c.sinks).Push(feed.Sample{Data: []byte("late")}), "nothing is captured any more")
		req.WantItems().WantEnd()
		h.WantIdle()
		assert.Zero(t, c.running.Load(), "the device is released (R-9.43)")
	})
	virtual(t, "R-8.43 a waiting request's feed, which nobody has opened yet", func(t *testing.T) {
		c := newCamera().openAtOnce(1)
		h := watching(t, c, watches, map[string]uint64{"all": 1})
		blocker := h.Request(capNamed("echo")).Chunk("x")
		blocker.WantItems("x")
		req := watch(h, "eye")
		req.WantLog("queued")
		req.CloseFeeds("eye")
		wantStill(t, req)
		assert.Empty(t, c.opening, "it is not opened for this")
		blocker.End()
		blocker.WantEnd()
		req.WantLog("dequeued")
		req.WantItems().WantEnd()
		h.WantIdle()
	})
	virtual(t, "R-8.43 a handler that has not asked for the feed yet", func(t *testing.T) {
		c, goOn := newCamera().openAtOnce(1), make(chan struct{})
		h := watching(t, c, func(ctx context.Context, r *bifaci.Request) error {
			<-goOn
			return watches(ctx, r)
		}, nil)
		req := watch(h, "eye")
		synctest.Wait()
		req.CloseFeeds("")
		synctest.Wait()
		close(goOn)
		req.WantItems().WantEnd()
	})
	virtual(t, "R-8.43 R-8.41 a reference whose STREAM_END has not come is no open feed", func(t *testing.T) {
		c := newCamera().openAtOnce(1)
		h := watching(t, c, watches, nil)
		req := h.Request(watchCap)
		ref := req.Stream("eye", cameraRef).Chunk("{}")
		req.CloseFeeds("")
		synctest.Wait()
		ref.End()
		req.End()
		sink := <-c.sinks
		push(t, sink, "a")
		req.WantItems("a")
		req.CloseFeeds("eye")
		req.WantEnd()
	})
	virtual(t, "R-8.40 R-8.44 only the named feed ends, and only once", func(t *testing.T) {
		c := newCamera().openAtOnce(2)
		h := watching(t, c, func(ctx context.Context, r *bifaci.Request) error {
			input, err := r.TakeInput()
			if err != nil {
				return err
			}
			out, err := r.StartUnbounded(bifaci.Sequence)
			if err != nil {
				return err
			}
			for s, err := range input.All(ctx) {
				if err != nil {
					return err
				}
				for it, err := range s.Items(ctx) {
					if err != nil {
						return err
					}
					if err := out.EmitItem(ctx, it.Bytes, nil); err != nil {
						return err
					}
				}
				if err := out.EmitItem(ctx, "end", nil); err != nil {
					return err
				}
			}
			return nil
		}, nil)
		req := h.Request(watchCap)
		req.Stream("left", cameraRef).End()
		req.Stream("right", cameraRef).End()
		req.End()
		left := <-c.sinks
		push(t, left, "1", "2")
		req.WantItems("1", "2")
		for range 3 { // the first ends it; the others find nothing
			req.CloseFeeds("left")
		}
		req.WantItems("end")
		right := <-c.sinks
		push(t, right, "3")
		req.WantItems("3")
		req.CloseFeeds("left")
		push(t, right, "4")
		req.WantItems("4")
		req.CloseFeeds("right")
		req.WantItems("end").WantEnd()
	})
	virtual(t, "R-8.44 R-8.41 after the feed has ended, it is logged and ignored", func(t *testing.T) {
		var log logLines
		c := newCamera().openAtOnce(1)
		goOn := make(chan struct{})
		m := manifestOf()
		m.Groups[0].Caps = append(m.Groups[0].Caps, manifest.NewCap(watchCap, "Watch", "watch").
			WithArgs(manifest.NewArg(cameraMedia, true, manifest.Stdin(cameraMedia)).Sequence(true)))
		cart, err := bifaci.New(m, bifaci.WithFeedBackend(feed.Webcam, c), bifaci.WithLogger(log.logger(slog.LevelInfo)))
		require.NoError(t, err)
		cart.HandleFunc(watchCap, func(ctx context.Context, r *bifaci.Request) error {
			if err := watches(ctx, r); err != nil {
				return err
			}
			<-goOn
			return nil
		})
		h := cartridgetest.Start(t, cart)
		req := watch(h, "eye")
		push(t, <-c.sinks, "a")
		c.fail <- nil // the device is through
		req.WantItems("a")
		synctest.Wait()
		assert.NotContains(t, log.String(), "no open feed")
		req.CloseFeeds("eye")
		wantStill(t, req)
		assert.Contains(t, log.String(), "no open feed")
		close(goOn)
		req.WantEnd()
	})
	virtual(t, "R-2.30 (e) the end of the input closes every feed, also one that is being opened", func(t *testing.T) {
		c := newCamera()
		h := watching(t, c, watches, nil)
		open, opening := watch(h, "a"), watch(h, "b")
		<-c.opening
		<-c.opening
		c.ready <- struct{}{}
		push(t, <-c.sinks, "x")
		h.CloseInput()
		synctest.Wait()
		c.ready <- struct{}{}
		assert.Equal(t, "x", open.Collect()+opening.Collect())
		open.WantEnd()
		opening.WantEnd()
		assert.NoError(t, h.Wait())
	})
	virtual(t, "R-9.42 R-8.25 a cancel ends the opening of a device", func(t *testing.T) {
		c := newCamera()
		h := watching(t, c, watches, nil)
		req := watch(h, "eye")
		<-c.opening
		req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
		h.WantIdle()
	})
}

func TestFeedItems(t *testing.T) {
	virtual(t, "R-9.37 each item is given out at once and for itself, by Next and on the wire", func(t *testing.T) {
		for name, h := range map[string]bifaci.Handler{"items": watches, "pieces": forwards} {
			c := newCamera().openAtOnce(1)
			h := watching(t, c, h, nil)
			req := watch(h, "eye")
			sink := <-c.sinks
			for i := range 5 { // one byte each: nothing is worth less to wait for
				push(t, sink, fmt.Sprint(i))
				synctest.Wait()
				assert.Len(t, chunks(req), i+1, "%s: item %d went out before there was another", name, i)
			}
			push(t, sink, "5", "6", "7") // these lie there together
			synctest.Wait()
			assert.Len(t, chunks(req), 8, name)
			req.CloseFeeds("")
			req.WantItems("0", "1", "2", "3", "4", "5", "6", "7").WantEnd()
		}
	})
	for method, collect := range map[string]func(context.Context, *bifaci.InputStream) error{
		"CollectBytes": func(ctx context.Context, s *bifaci.InputStream) error { _, err := s.CollectBytes(ctx); return err },
		"CollectItems": func(ctx context.Context, s *bifaci.InputStream) error { _, err := s.CollectItems(ctx); return err },
		"CollectValue": func(ctx context.Context, s *bifaci.InputStream) error { _, err := s.CollectValue(ctx); return err },
	} {
		virtual(t, "R-9.44 R-6.24 "+method+" refuses a feed", func(t *testing.T) {
			errs := make(chan error, 1)
			h := watching(t, newCamera().openAtOnce(1), func(ctx context.Context, r *bifaci.Request) error {
				s, err := firstStream(ctx, r)
				if err != nil {
					return err
				}
				errs <- collect(ctx, s)
				return nil
			}, nil)
			watch(h, "eye").WantEnd()
			assert.ErrorIs(t, <-errs, bifaci.ErrUnbounded)
		})
	}
	virtual(t, "R-9.44 so does CollectStreams", func(t *testing.T) {
		errs := make(chan error, 1)
		h := watching(t, newCamera().openAtOnce(1), func(ctx context.Context, r *bifaci.Request) error {
			input, err := r.TakeInput()
			if err != nil {
				return err
			}
			_, err = input.CollectStreams(ctx)
			errs <- err
			return nil
		}, nil)
		watch(h, "eye").WantEnd()
		assert.ErrorIs(t, <-errs, bifaci.ErrUnbounded)
	})
}

// forwards sends the feed's pieces on unopened.
func forwards(ctx context.Context, r *bifaci.Request) error {
	s, err := firstStream(ctx, r)
	if err != nil {
		return err
	}
	out, err := r.StartUnbounded(bifaci.Sequence)
	if err != nil {
		return err
	}
	for p, err := range s.Pieces(ctx) {
		if err != nil {
			return err
		}
		if err := out.Forward(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func TestOpeningAFeed(t *testing.T) {
	virtual(t, "R-4.24 R-9.6 a device that does not open holds up nobody else", func(t *testing.T) {
		c := newCamera()
		h := watching(t, c, watches, nil)
		req := watch(h, "eye")
		<-c.opening
		wantAlive(t, h)
		c.ready <- struct{}{}
		push(t, <-c.sinks, "seen")
		req.CloseFeeds("")
		req.WantItems("seen").WantEnd()
	})
	virtual(t, "R-4.24 a feed opens and delivers while the reader is in the middle of a frame", func(t *testing.T) {
		c, seen := newCamera(), make(chan string)
		h := watching(t, c, func(ctx context.Context, r *bifaci.Request) error {
			s, err := firstStream(ctx, r)
			if err != nil {
				return err
			}
			for it, err := range s.Items(ctx) {
				if err != nil {
					return err
				}
				seen <- string(it.Bytes)
			}
			return nil
		}, nil)
		req := watch(h, "eye")
		<-c.opening
		h.SendBytes(binary.BigEndian.AppendUint32(nil, 1000)) // and no body: route has nothing to do
		c.ready <- struct{}{}
		sink := <-c.sinks
		for i := range 20 {
			push(t, sink, fmt.Sprint(i))
			assert.Equal(t, fmt.Sprint(i), <-seen)
		}
		c.fail <- nil
		req.WantEnd()
	})
	virtual(t, "R-9.6 who gives up leaves the reference to the next who asks", func(t *testing.T) {
		c, left := newCamera(), make(chan error, 1)
		h := watching(t, c, func(ctx context.Context, r *bifaci.Request) error {
			short, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := r.Input(short, cameraMedia)
			left <- err
			s, err := r.Input(ctx, cameraMedia)
			if err != nil {
				return err
			}
			it, err := s.Next(ctx)
			if err != nil {
				return err
			}
			return r.Output().EmitItem(ctx, it.Bytes, nil)
		}, nil)
		req := watch(h, "eye")
		<-c.opening
		assert.ErrorIs(t, <-left, context.DeadlineExceeded)
		<-c.opening
		c.ready <- struct{}{}
		push(t, <-c.sinks, "second try")
		req.WantItems("second try").WantEnd()
		h.WantIdle()
	})
	virtual(t, "R-9.6 R-6.60 nor is half of its value lost", func(t *testing.T) {
		c, left := newCamera().openAtOnce(1), make(chan error, 1)
		h := watching(t, c, func(ctx context.Context, r *bifaci.Request) error {
			short, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := r.Input(short, cameraMedia)
			left <- err
			_, err = r.Input(ctx, cameraMedia)
			return err
		}, nil)
		req := h.Request(watchCap)
		ref := req.Stream("eye", cameraRef).Chunk(`{"devi`)
		assert.ErrorIs(t, <-left, context.DeadlineExceeded)
		ref.Chunk(`se":"mic0"}`).End()
		req.End()
		f := req.WantErr(failure.FeedSelector, failure.Input)
		assert.Contains(t, f.Message, `"devise"`)
	})
	virtual(t, "R-9.41 a device that panics has failed, and the process goes on", func(t *testing.T) {
		c := newCamera().openAtOnce(1)
		h := watching(t, c, watches, nil)
		req := watch(h, "eye")
		push(t, <-c.sinks, "last")
		c.fail <- errPanic
		req.WantItems("last")
		assert.Contains(t, req.WantErr(failure.FeedFailed, failure.Environment).Message, "unplugged")
		wantAlive(t, h)
	})
	t.Run("R-9.1 a backend is for a family that exists", func(t *testing.T) {
		for _, family := range []string{"", "radar", cameraRef} {
			_, err := bifaci.New(manifestOf(), bifaci.WithFeedBackend(family, newCamera()))
			assert.ErrorContains(t, err, "webcam", family)
		}
		_, err := bifaci.New(manifestOf(), bifaci.WithFeedBackend(feed.Webcam, nil))
		assert.Error(t, err)
	})
}
