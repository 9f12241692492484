package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

// childMode is the variable that makes the test binary a cartridge of some kind.
const childMode = "PIPE_HOST_TEST_CHILD"

// What the child of a test does.
const (
	modeServe   = "serve"   // a good cartridge with the caps below
	modeSilent  = "silent"  // says nothing, and ends with its input
	modeNoisy   = "noisy"   // writes to standard error and ends with status 7
	modeDeaf    = "deaf"    // a good cartridge that does not end with its input
	modeGarbage = "garbage" // a good cartridge until it is called: then it writes what is no frame
)

// Caps of the child.
const (
	childEcho   = `cap:in="media:";out="media:";echo`
	childDie    = `cap:in="media:";out="media:";die`    // ends the process with status 3, after some words on standard error
	childAnswer = `cap:in="media:";out="media:";answer` // answers when the process is told to end
	childHush   = `cap:in="media:";out="media:";hush`   // closes its output and lives on
)

// child is the main function of the test binary as a cartridge.
func child(mode string) (status int) {
	switch mode {
	case modeSilent:
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	case modeNoisy:
		for i := range 1000 {
			fmt.Fprintf(os.Stderr, "line %d of the end\n", i)
		}
		return 7
	}
	var stdin io.Reader = os.Stdin
	if mode == modeDeaf {
		stdin = endless{os.Stdin}
	}
	caps := []manifest.Cap{manifest.IdentityCap()}
	for _, c := range []string{childEcho, childDie, childAnswer, childHush} {
		slug := c[strings.LastIndex(c, ";")+1:]
		caps = append(caps, manifest.NewCap(c, slug, slug).
			WithArgs(manifest.NewArg("media:", true, manifest.Stdin("media:"))).WithOutput(manifest.NewOutput("media:", slug)))
	}
	c := bifaci.Must(bifaci.New(manifest.New("child", "1.0.0", "a child of a test", manifest.DefaultGroup(caps...))))
	c.HandleFunc(childEcho, echo)
	c.HandleFunc(childDie, func(context.Context, *bifaci.Request) error {
		fmt.Fprintln(os.Stderr, "the engine is gone")
		os.Exit(3)
		return nil
	})
	c.HandleFunc(childAnswer, func(ctx context.Context, r *bifaci.Request) error {
		b, err := body(ctx, r)
		if err != nil {
			return err
		}
		_, err = r.Output().Write(bytes.ToUpper(b))
		return err
	})
	c.HandleFunc(childHush, func(context.Context, *bifaci.Request) error {
		if mode == modeGarbage {
			_, err := os.Stdout.Write([]byte{0, 0, 0, 2, 0xff, 0xff})
			return err
		}
		return os.Stdout.Close()
	})
	// The link is judged in here: the test has no hand on what the host reads and writes. A breach shows in the exit status.
	check := cartridgetest.NewCheck()
	err := c.Serve(context.Background(), io.TeeReader(stdin, check.Tap(cartridgetest.ToCartridge, nil)), check.Tap(cartridgetest.ToHost, os.Stdout))
	for _, b := range check.Breaches() {
		fmt.Fprintln(os.Stderr, "breach:", b)
		status = 1
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	return status
}

// endless is an input that never ends.
type endless struct{ io.Reader }

func (e endless) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err != nil {
		select {}
	}
	return n, nil
}

// echo sends every piece back as it comes.
func echo(ctx context.Context, r *bifaci.Request) error {
	input, err := r.TakeInput()
	if err != nil {
		return err
	}
	for s, err := range input.All(ctx) {
		if err != nil {
			return err
		}
		for p, err := range s.Pieces(ctx) {
			if err != nil {
				return err
			}
			if err := r.Output().Forward(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func body(ctx context.Context, r *bifaci.Request) ([]byte, error) {
	input, err := r.TakeInput()
	if err != nil {
		return nil, err
	}
	b, err := input.CollectAllBytes(ctx)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}
