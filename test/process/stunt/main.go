// Command stunt is the cartridge of the process tests: its handlers print where they should not, stream for ever, panic, ignore what
// they are told, and report how it went. Variables of the environment make the process itself misbehave.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

// The variables.
const (
	modeVariable    = "STUNT_MODE"    // undead: outlives its link and ignores SIGTERM; child: see printAndEnd
	graceVariable   = "STUNT_GRACE"   // of WithShutdownGrace, a duration
	reorderVariable = "STUNT_REORDER" // not empty: WithReorder
	queuedVariable  = "STUNT_QUEUED"  // of WithMaxQueued, a number
	markerVariable  = "STUNT_MARKER"  // the file to which handlers that were stopped append a line
)

func main() {
	switch os.Getenv(modeVariable) {
	case "child":
		printAndEnd()
	case "undead":
		undead()
	default:
		newCartridge().Main()
	}
}

// undead does all that a host asks for, but for ending.
func undead() {
	signal.Ignore(syscall.SIGTERM, os.Interrupt)
	err := newCartridge().Run(context.Background())
	fmt.Fprintln(os.Stderr, "the run has ended, the process goes on:", err)
	for {
		time.Sleep(time.Hour)
	}
}

func newCartridge() *bifaci.Cartridge {
	m := manifest.New("stunt", "1.0.0", "misbehaves", manifest.DefaultGroup(manifest.IdentityCap()))
	var opts []bifaci.Option
	if text := os.Getenv(graceVariable); text != "" {
		grace, err := time.ParseDuration(text)
		if err != nil {
			panic(err)
		}
		opts = append(opts, bifaci.WithShutdownGrace(grace))
	}
	if text := os.Getenv(queuedVariable); text != "" {
		queued, err := strconv.Atoi(text)
		if err != nil {
			panic(err)
		}
		opts = append(opts, bifaci.WithMaxQueued(queued))
	}
	opts = append(opts, bifaci.WithReorder(os.Getenv(reorderVariable) != ""))
	c := bifaci.Must(bifaci.New(m, opts...))
	for name, h := range map[string]bifaci.Handler{
		"wait": wait, "pour": pour, "stray": strayer{os.NewFile(1, "descriptor 1")}.stray, "grumble": grumble, "panics": panics, "worker": worker, "goexit": goexit,
		"nibble": nibble, "stall": stall, "settle": settle, "census": census, "deaf": deaf, "compute": compute, "block": block, "slots": slots,
	} {
		c.HandleFunc(capOf(name), h)
	}
	s := new(stubborn)
	c.HandleFunc(capOf("stubborn"), s.handle)
	c.HandleFunc(capOf("peak"), s.report)
	if err := c.Register(capOf("factory"), func() bifaci.Op { panic("no op today") }); err != nil {
		panic(err)
	}
	return c
}

// capOf is the URN of a handler; test/process has the same.
func capOf(name string) string {
	return fmt.Sprintf(`cap:in="media:enc=utf-8";out="media:enc=utf-8";stunt-%s`, name)
}

// argument is the text of the whole input.
func argument(ctx context.Context, r *bifaci.Request) (string, error) {
	input, err := r.TakeInput()
	if err != nil {
		return "", err
	}
	b, err := input.CollectAllBytes(ctx)
	return string(b), err
}

// mark appends a line to the file that a test looks at.
func mark(line string) {
	path := os.Getenv(markerVariable)
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(strings.ReplaceAll(line, "\n", " ") + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(err)
	}
}
