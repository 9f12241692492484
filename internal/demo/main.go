// Command demo shows the main job on fresh input: it draws a text, keys it as Morse code and DTMF in noise, streams the sound at
// the pace of its time through "bifaci run" into the cartridge, and prints each segment with the time at which it arrived. It fails when
// the text that came back is not the one drawn, and when the first segment came after the last byte of sound was sent.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
)

func main() {
	bifaci := flag.String("bifaci", "bin/bifaci", "the host-side `tool`")
	cartridge := flag.String("cartridge", "bin/pipe-cartridge", "the `cartridge`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := demo(ctx, *bifaci, *cartridge)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo draws, streams, and judges.
func demo(ctx context.Context, bifaci, cartridge string) error {
	seed, err := drawSeed(os.Getenv("DEMO_SEED"))
	if err != nil {
		return err
	}
	drawn, err := draw(seed)
	if err != nil {
		return err
	}
	fmt.Printf("seed %d (DEMO_SEED=%d repeats it)\nsent     %s\nsound    %.1f s of Morse code and DTMF, 10 dB above white noise\n\n",
		seed, seed, drawn.text, drawn.duration.Seconds())
	heard, err := stream(ctx, drawn.wav, pace(drawn), os.Stdout, bifaci, "run", cartridge, "transcribe", "--arg", "engine=tones")
	if err != nil {
		return err
	}
	if err := judge(drawn.text, heard); err != nil {
		return err
	}
	fmt.Printf("\nheard    %s\nright, and the first segment came %.1f s before the last byte was sent\n",
		heard.text(), (heard.lastSent - heard.segments[0].arrived).Seconds())
	return nil
}

// drawSeed is the given seed, or a new one.
func drawSeed(given string) (uint64, error) {
	if given == "" {
		return uint64(rand.Uint32()), nil
	}
	seed, err := strconv.ParseUint(given, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("DEMO_SEED: want a number, got %q", given)
	}
	return seed, nil
}
