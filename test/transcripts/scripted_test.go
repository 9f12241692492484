package transcripts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/feed"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// The capabilities of the transcripts, and their media.
const (
	echoURN     = `cap:echo;in="media:enc=utf-8";out="media:enc=utf-8"`
	joinURN     = `cap:in="media:document;ext=pdf";join;out="media:enc=utf-8"`
	splitURN    = `cap:in="media:enc=utf-8";out="media:enc=utf-8;line";split-lines`
	drainURN    = `cap:drain-feed;in=media:feed-frames;out=media:feed-frames`
	downloadURN = `cap:download;in="media:enc=utf-8;model-spec";out="media:enc=utf-8;file-path"`
	mediaText   = "media:enc=utf-8"
)

// script is how the cartridge plays its part of a transcript.
type script struct {
	rules     string // what the transcript shows
	cap       string
	handler   bifaci.Handler
	oneAtOnce bool // pool "all" holds one
	capture   feed.Backend
}

func scripts() map[string]script {
	return map[string]script{
		"handshake-identity-policy":      {rules: "R-1.5 R-2.23 R-4.10", cap: echoURN, handler: echo},
		"unary-echo":                     {rules: "R-3.5", cap: echoURN, handler: echo},
		"unary-echo-unrouted":            {rules: "R-3.5", cap: echoURN, handler: echo},
		"empty-output":                   {rules: "R-1.14", cap: echoURN, handler: echo},
		"three-arguments":                {rules: "R-6.12 R-6.46 R-6.51", cap: joinURN, handler: join},
		"sequence-with-fragmented-item":  {rules: "R-6.41", cap: splitURN, handler: split},
		"sequence-argument":              {rules: "R-6.22", cap: splitURN, handler: emptySequence},
		"unbounded-close-stream":         {rules: "R-8.40 R-9.5 R-9.34", cap: drainURN, handler: drain, capture: tape{}},
		"unbounded-input":                {rules: "R-8.41 R-8.42", cap: drainURN, handler: drain},
		"credit-stall-and-resume":        {rules: "R-6.52 R-10.20", cap: echoURN, handler: stallAndLog},
		"credit-violation":               {rules: "R-10.40", cap: echoURN, handler: idle},
		"cancel-running-user":            {rules: "R-8.20 R-8.21", cap: echoURN, handler: firstThree},
		"cancel-queued-collateral":       {rules: "R-5.30 R-8.10", cap: echoURN, handler: silent, oneAtOnce: true},
		"cancel-unattributed-then-again": {rules: "R-8.5", cap: echoURN, handler: idle},
		"queue-and-admit":                {rules: "R-5.30 R-5.32", cap: echoURN, handler: silent, oneAtOnce: true},
		"heartbeat-capacities":           {rules: "R-4.2 R-4.4", cap: echoURN, handler: echo},
		"request-before-policy":          {rules: "R-3.1 R-3.6", cap: echoURN, handler: silent},
		"policy-goes-offline":            {rules: "R-8.50 R-8.51", cap: echoURN, handler: untilOffline},
		"no-handler-and-handler-error":   {rules: "R-1.44 R-6.82", cap: echoURN, handler: missing},
		"peer-call":                      {rules: "R-7.1 R-7.3 R-7.4", cap: echoURN, handler: download},
		"peer-call-cancelled-with-parent": {rules: "R-7.40", cap: echoURN,
			handler: downloadForEver},
		"credit-after-terminal": {rules: "R-10.15", cap: echoURN, handler: writes("x")},
		"corrupted-chunk":       {rules: "R-3.32", cap: echoURN, handler: silent},
	}
}

// play serves the part of the cartridge in the named transcript, and ends the process.
func play(name string) {
	c, err := scripted(name)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	c.Main()
}

func scripted(name string) (*bifaci.Cartridge, error) {
	s, ok := scripts()[name]
	if !ok {
		return nil, fmt.Errorf("there is no script %q", name)
	}
	all, err := load()
	if err != nil {
		return nil, err
	}
	manifest, err := manifestOf(all)
	if err != nil {
		return nil, err
	}
	var opts []bifaci.Option
	switch {
	case s.oneAtOnce:
		manifest, err = changed(manifest, func(m map[string]any) {
			m["pool_declarations"] = map[string]any{"capacities": map[string]int{"all": 1}}
		})
	case s.capture != nil:
		opts = append(opts, bifaci.WithFeedBackend(feed.Synthetic, s.capture))
		manifest, err = changed(manifest, func(m map[string]any) {
			group := m["cap_groups"].([]any)[0].(map[string]any)
			group["caps"] = append(group["caps"].([]any), map[string]any{"urn": s.cap, "title": "Drain feed", "slug": "drain-feed",
				"args": []any{map[string]any{"media_urn": "media:feed-frames", "required": true, "is_sequence": true, "streaming": true,
					"sources": []any{map[string]any{"stdin": "media:feed-frames"}}}}})
		})
	}
	if err != nil {
		return nil, err
	}
	c, err := bifaci.NewFromJSON(manifest, opts...)
	if err != nil {
		return nil, err
	}
	return c, c.RegisterFunc(s.cap, s.handler)
}

// changed is a manifest with a change.
func changed(manifest []byte, change func(map[string]any)) ([]byte, error) {
	var m map[string]any
	if err := json.Unmarshal(manifest, &m); err != nil {
		return nil, err
	}
	change(m)
	return json.Marshal(m)
}

// collect reads the whole input.
func collect(ctx context.Context, r *bifaci.Request) (bifaci.Streams, error) {
	input, err := r.TakeInput()
	if err != nil {
		return nil, err
	}
	return input.CollectStreams(ctx)
}

func echo(ctx context.Context, r *bifaci.Request) error {
	text, err := r.Input(ctx, mediaText)
	if err != nil {
		return err
	}
	for item, err := range text.Items(ctx) {
		if err != nil {
			return err
		}
		if _, err := r.Output().Write(item.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// silent reads its input and answers with a bare END.
func silent(ctx context.Context, r *bifaci.Request) error {
	_, err := collect(ctx, r)
	return err
}

// idle does nothing until it is stopped.
func idle(ctx context.Context, _ *bifaci.Request) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// writes answers with a text when the body has ended, so that nothing of the body crosses the answer.
func writes(text string) bifaci.Handler {
	return func(ctx context.Context, r *bifaci.Request) error {
		if _, err := collect(ctx, r); err != nil {
			return err
		}
		_, err := r.Output().Write([]byte(text))
		return err
	}
}

// join fails when it does not see the three arguments as they were sent.
func join(ctx context.Context, r *bifaci.Request) error {
	args, err := collect(ctx, r)
	if err != nil {
		return err
	}
	for media, want := range map[string]string{"media:document;ext=pdf": "%PDF-1.7 tiny document", "media:enc=utf-8;prompt": "title?",
		"media:enc=utf-8;note": ""} {
		if got, ok := args.Find(media); !ok || string(got) != want {
			return fmt.Errorf("argument %s is %q, want %q", media, got, want)
		}
	}
	if meta, _ := args.FindMeta("media:document;ext=pdf"); meta["title"] != "paper" {
		return fmt.Errorf("the document's meta is %v", meta)
	}
	out := r.Output()
	if err := out.Log("info", failure.Internal, "joining 3 arguments"); err != nil {
		return err
	}
	if _, err := out.Write([]byte("paper: t")); err != nil {
		return err
	}
	if err := out.Flush(ctx); err != nil {
		return err
	}
	if err := out.Progress(0.5, "half"); err != nil {
		return err
	}
	out.Finish(1, "joined")
	_, err = out.Write([]byte("itle?"))
	return err
}

// split emits a short item, one of three fragments with meta, and a map.
func split(ctx context.Context, r *bifaci.Request) error {
	args, err := collect(ctx, r)
	if err != nil {
		return err
	}
	if got, _ := args.Find(mediaText); string(got) != "ab\nlong\n2" {
		return fmt.Errorf("the text is %q", got)
	}
	out, err := r.Start(bifaci.Sequence)
	if err != nil {
		return err
	}
	if err := out.EmitItem(ctx, "ab", nil); err != nil {
		return err
	}
	long := make([]byte, 40)
	for i := range long {
		long[i] = byte(i)
	}
	if err := out.EmitItem(ctx, long, frame.Meta{"title": "long line"}); err != nil {
		return err
	}
	return out.EmitItem(ctx, map[string]any{"i": uint64(2)}, nil)
}

// emptySequence checks the items that were sent and answers with a sequence of none.
func emptySequence(ctx context.Context, r *bifaci.Request) error {
	lines, err := r.Input(ctx, "media:enc=utf-8;line")
	if err != nil {
		return err
	}
	items, err := lines.CollectItems(ctx)
	if err != nil {
		return err
	}
	if len(items) != 2 || string(items[0].Bytes) != "first" || len(items[1].Bytes) != 40 {
		return fmt.Errorf("the items are %q", items)
	}
	_, err = r.Start(bifaci.Sequence)
	return err
}

// tape captures seven items, one every 10 ms by their own count, of which the third to the fifth are lost. It goes on until somebody
// stops it.
type tape struct{}

func (tape) Open(_ context.Context, s feed.Selector) (feed.Capture, error) {
	if got := string(s.Params["interval_ms"]) + " " + string(s.Params["items"]); got != "10 1000" {
		return feed.Capture{}, fmt.Errorf("the selector's params are %s", got)
	}
	return feed.Capture{
		Meta: frame.Meta{"feed": "synthetic", "interval_ms": int64(10)},
		Run: func(ctx context.Context, to *feed.Sink) error {
			const begun = 1_750_000_000_000_000 // microseconds
			lost := uint64(0)
			for _, n := range []int{0, 1, 5, 6} {
				if n == 5 {
					lost = 3
				}
				pts := time.Duration(n) * 10 * time.Millisecond
				to.Push(feed.Sample{Data: bytes.Repeat([]byte{byte(n)}, 8), PTS: pts, Captured: time.UnixMicro(begun).Add(pts), Lost: lost})
				lost = 0
			}
			<-ctx.Done()
			return nil
		},
	}, nil
}

// drain emits every item of its input at once.
func drain(ctx context.Context, r *bifaci.Request) error {
	input, err := r.TakeInput()
	if err != nil {
		return err
	}
	in, err := input.Next(ctx)
	if err != nil {
		return err
	}
	out, err := r.StartUnbounded(bifaci.Sequence, bifaci.WithMeta(in.Meta()))
	if err != nil {
		return err
	}
	for item, err := range in.Items(ctx) {
		if err != nil {
			return err
		}
		if err := out.EmitItem(ctx, item.Bytes, item.Meta); err != nil {
			return err
		}
	}
	return nil
}

// stallAndLog fills the window, logs, and goes on.
func stallAndLog(ctx context.Context, r *bifaci.Request) error {
	args, err := collect(ctx, r)
	if err != nil {
		return err
	}
	text, err := args.Require(mediaText)
	if err != nil {
		return err
	}
	out := r.Output()
	if _, err := out.Write(text[:8]); err != nil {
		return err
	}
	if err := out.Flush(ctx); err != nil {
		return err
	}
	if err := out.Progress(0.5, "waiting"); err != nil {
		return err
	}
	_, err = out.Write(text[8:])
	return err
}

// firstThree answers with three bytes and is then busy until it is stopped.
func firstThree(ctx context.Context, r *bifaci.Request) error {
	text, err := r.Input(ctx, mediaText)
	if err != nil {
		return err
	}
	item, err := text.Next(ctx)
	if err != nil {
		return err
	}
	if _, err := r.Output().Write(item.Bytes[:3]); err != nil {
		return err
	}
	if err := r.Output().Flush(ctx); err != nil {
		return err
	}
	return idle(ctx, r)
}

// untilOffline asks for the network again and again until it is refused.
func untilOffline(ctx context.Context, r *bifaci.Request) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if err := r.Network().Allow(bifaci.ReachThirdParty); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func missing(ctx context.Context, r *bifaci.Request) error {
	if _, err := collect(ctx, r); err != nil {
		return err
	}
	return failure.New("MISSING_ARGUMENT", failure.Input, "argument "+mediaText+" was not supplied").ForArgument(mediaText)
}

// download calls its peer and answers ok when that has.
func download(ctx context.Context, r *bifaci.Request) error {
	if _, err := collect(ctx, r); err != nil {
		return err
	}
	answer, err := bifaci.CallBytes(ctx, r.Peer(), downloadURN,
		bifaci.BytesArg{MediaURN: "media:enc=utf-8;model-spec", Value: []byte("tiny-llm")})
	if err != nil {
		return err
	}
	var path []byte
	progress := 0.0
	for it, err := range answer.Items(ctx) {
		switch {
		case err != nil:
			return err
		case it.Log != nil:
			progress = it.Log.Progress
		default:
			path = append(path, it.Data.Bytes...)
		}
	}
	if string(path) != "models/tiny" || progress != 0.5 {
		return fmt.Errorf("the peer answered %q at progress %v", path, progress)
	}
	_, err = r.Output().Write([]byte("ok"))
	return err
}

// downloadForEver calls its peer and waits for an answer that does not come.
func downloadForEver(ctx context.Context, r *bifaci.Request) error {
	call, err := r.Peer().Call(ctx, downloadURN)
	if err != nil {
		return err
	}
	if err := call.Finish(ctx); err != nil {
		return err
	}
	_, err = call.Response().CollectBytes(ctx)
	return err
}
