// Command tonegen writes a recording of Morse code or DTMF to standard output, for demos and for trying things by hand:
//
//	tonegen -morse "CQ DE X1Y" -wpm 25 -hz 700 -snr 6 > cq.wav
//	tonegen -dtmf 0123# -format u8 -rate 8000 -raw > keys.raw
//	tonegen -random 7 -unknown-length > groups.wav
//
// What was sent goes to standard error, one line for each stretch: start, end, text.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pipe-cartridge/pipe/internal/tonegen"
)

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "tonegen:", err)
		os.Exit(1)
	}
}

// run writes the recording to out, the truth about it to truth.
func run(args []string, out, truth io.Writer) error {
	flags := flag.NewFlagSet("tonegen", flag.ContinueOnError)
	flags.SetOutput(truth)
	text := flags.String("morse", "", "text to key in Morse code")
	keys := flags.String("dtmf", "", "keys to send as DTMF, after the Morse if there is any")
	random := flags.Uint64("random", 0, "seed of five random groups to key, instead of -morse; 0 for none")
	wpm := flags.Float64("wpm", 20, "speed of Morse, words a minute")
	hz := flags.Float64("hz", 600, "pitch of Morse")
	jitter := flags.Float64("jitter", 0, "share by which the hand is off, 0.15 for 15 %")
	rate := flags.Int("rate", 16_000, "samples a second")
	amplitude := flags.Float64("amplitude", 0.2, "of a tone, full scale 1")
	snr := flags.Float64("snr", 60, "dB by which the tones are stronger than white noise over the whole band")
	seed := flags.Uint64("seed", 1, "of noise and jitter")
	format := flags.String("format", string(tonegen.S16), fmt.Sprintf("of samples, one of %v", tonegen.Formats()))
	channels := flags.Int("channels", 1, "alike channels")
	raw := flags.Bool("raw", false, "write samples without a header")
	unknown := flags.Bool("unknown-length", false, "write a header as for a pipe, without the length")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected %q, want flags only", flags.Arg(0))
	}
	if *rate < 1 {
		return fmt.Errorf("rate %d, want 1 or more samples a second", *rate)
	}
	if *random != 0 {
		*text = tonegen.RandomText(*random, 5)
	}
	if *text == "" && *keys == "" {
		return errors.New("nothing to send, want -morse, -dtmf or -random")
	}

	parts := []tonegen.Signal{tonegen.Silence(*rate, 500*time.Millisecond)}
	if *text != "" {
		s, err := tonegen.Morse(*text, tonegen.MorseOptions{WPM: *wpm, Hz: *hz, Rate: *rate, Amplitude: *amplitude, Jitter: *jitter, Seed: *seed})
		if err != nil {
			return err
		}
		parts = append(parts, s, tonegen.Silence(*rate, 1500*time.Millisecond))
	}
	if *keys != "" {
		s, err := tonegen.DTMF(*keys, tonegen.DTMFOptions{Rate: *rate, Amplitude: *amplitude})
		if err != nil {
			return err
		}
		parts = append(parts, s, tonegen.Silence(*rate, 1500*time.Millisecond))
	}
	signal, err := tonegen.Join(parts...)
	if err != nil {
		return err
	}
	signal.AddNoise(*snr, *seed)

	var bytes []byte
	if *raw {
		bytes, err = tonegen.Encode(signal.Samples, tonegen.Format(*format), *channels)
	} else {
		o := tonegen.WAVOptions{Format: tonegen.Format(*format), Rate: *rate, Channels: *channels}
		if *unknown {
			o.Length = tonegen.UnknownLength
		}
		bytes, err = tonegen.WAV(signal, o)
	}
	if err != nil {
		return err
	}
	for _, span := range signal.Spans {
		if _, err := fmt.Fprintf(truth, "%v %v %s\n", span.Start.Round(time.Millisecond), span.End.Round(time.Millisecond), span.Text); err != nil {
			return err
		}
	}
	_, err = out.Write(bytes)
	return err
}
