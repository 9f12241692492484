package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/pipe-cartridge/pipe/internal/wer"
)

// Bounds of the checks.
const (
	cardsMaxWords  = 1    // wrong words over cards 001 to 005
	librivoxMaxWER = 0.40 // wrong words over words, all clips together
	liveClips      = 2    // clips that are also fed in real time
)

// demo is one run over all recordings.
type demo struct {
	bifaci, cartridge, data string
	failed                  int
}

func (d *demo) run(ctx context.Context) (failed int, err error) {
	for _, part := range []func(context.Context) error{d.exact, d.cards, d.librivox, d.flite} {
		if err := part(ctx); err != nil {
			return d.failed, err
		}
	}
	return d.failed, nil
}

// verdict prints one check.
func (d *demo) verdict(ok bool, format string, args ...any) {
	word := "ok  "
	if !ok {
		word = "FAIL"
		d.failed++
	}
	fmt.Printf("%s %s\n", word, fmt.Sprintf(format, args...))
}

// path is a recording's file.
func (d *demo) path(parts ...string) string {
	return filepath.Join(append([]string{d.data}, parts...)...)
}

// way is one of the two ways a recording is transcribed.
type way struct {
	name string
	run  func(ctx context.Context, d *demo, in input, grammar string) (string, error)
}

// input is a recording as bytes, and how it is called.
type input struct {
	cap   string // transcribe or listen
	bytes []byte
}

func ways() []way {
	return []way{
		{"command line", func(ctx context.Context, d *demo, in input, grammar string) (string, error) {
			args := []string{in.cap, "--engine", "pocketsphinx", "--format", "text"}
			if grammar != "" {
				args = append(args, "--grammar", grammar)
			}
			return output(ctx, in.bytes, d.cartridge, args...)
		}},
		{"bifaci run", func(ctx context.Context, d *demo, in input, grammar string) (string, error) {
			args := []string{"run", d.cartridge, in.cap, "-", "--arg", "engine=pocketsphinx", "--arg", "format=text"}
			if grammar != "" {
				args = append(args, "--arg", "grammar="+grammar)
			}
			return output(ctx, in.bytes, d.bifaci, args...)
		}},
	}
}

// output runs a program over its standard input.
func output(ctx context.Context, stdin []byte, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.Join(strings.Fields(string(out)), " "), nil
}

// exact: two recordings that the language model understands word for word.
func (d *demo) exact(ctx context.Context) error {
	for _, r := range []struct{ file, said string }{
		{"goforward.raw", "go forward ten meters"},
		{"something.raw", "go somewhere and do something"},
	} {
		raw, err := os.ReadFile(d.path(r.file))
		if err != nil {
			return err
		}
		for _, w := range ways() {
			heard, err := w.run(ctx, d, input{"listen", raw}, "")
			if err != nil {
				return err
			}
			d.verdict(heard == r.said, "%-13s %-12s %q, said was %q", r.file, w.name, heard, r.said)
		}
	}
	return nil
}

// cards: five recordings with the grammar that belongs to them.
func (d *demo) cards(ctx context.Context) error {
	said, err := transcription(d.path("cards", "cards.transcription"))
	if err != nil {
		return err
	}
	grammar, err := os.ReadFile(d.path("cards", "cards.gram"))
	if err != nil {
		return err
	}
	for _, w := range ways() {
		wrong, words := 0, 0
		for _, name := range []string{"001", "002", "003", "004", "005"} {
			heard, err := d.file(ctx, w, string(grammar), "cards", name+".wav")
			if err != nil {
				return err
			}
			e, n := wer.Compare(said[name], heard)
			wrong, words = wrong+e, words+n
		}
		d.verdict(words > 0 && wrong <= cardsMaxWords, "cards         %-12s %d of %d words wrong, at most %d may be", w.name, wrong, words, cardsMaxWords)
	}
	return nil
}

func (d *demo) file(ctx context.Context, w way, grammar string, parts ...string) (string, error) {
	wav, err := os.ReadFile(d.path(parts...))
	if err != nil {
		return "", err
	}
	return w.run(ctx, d, input{"transcribe", wav}, grammar)
}

// librivox: clips of an audio book with the open language model, two of them as they would be spoken live.
func (d *demo) librivox(ctx context.Context) error {
	said, err := transcription(d.path("librivox", "transcription"))
	if err != nil {
		return err
	}
	clips, err := filepath.Glob(d.path("librivox", "*.wav"))
	if err != nil {
		return err
	}
	for _, w := range ways() {
		wrong, words := 0, 0
		for _, clip := range clips {
			heard, err := d.file(ctx, w, "", "librivox", filepath.Base(clip))
			if err != nil {
				return err
			}
			e, n := wer.Compare(said[strings.TrimSuffix(filepath.Base(clip), ".wav")], heard)
			wrong, words = wrong+e, words+n
		}
		d.verdict(words > 0 && float64(wrong) <= librivoxMaxWER*float64(words), "librivox      %-12s %d of %d words wrong, at most %.0f %% may be",
			w.name, wrong, words, librivoxMaxWER*100)
	}
	if len(clips) < liveClips {
		return fmt.Errorf("%s holds %d clips, want %d", d.path("librivox"), len(clips), liveClips)
	}
	return d.live(ctx, clips[:liveClips])
}

// flite: card names spoken by a synthetic voice, exactly.
func (d *demo) flite(ctx context.Context) error {
	grammar, err := os.ReadFile(d.path("cards", "cards.gram"))
	if err != nil {
		return err
	}
	for _, text := range []string{"ten of clubs", "queen of hearts", "seven of spades"} {
		wav, err := speak(ctx, text)
		if err != nil {
			return err
		}
		for _, w := range ways() {
			heard, err := w.run(ctx, d, input{"transcribe", wav}, string(grammar))
			if err != nil {
				return err
			}
			d.verdict(heard == text, "flite         %-12s %q, said was %q", w.name, heard, text)
		}
	}
	return nil
}

// speak makes a WAV of a text with silence around it.
func speak(ctx context.Context, text string) ([]byte, error) {
	flite := exec.CommandContext(ctx, "flite", "-voice", "rms", "-t", text, "-o", "/dev/stdout")
	voice, err := flite.Output()
	if err != nil {
		return nil, fmt.Errorf("flite: %w", err)
	}
	sox := exec.CommandContext(ctx, "sox", "-t", "wav", "-", "-t", "wav", "-r", "16000", "-e", "signed", "-b", "16", "-c", "1", "-", "pad", "0.3", "0.6")
	sox.Stdin = bytes.NewReader(voice)
	wav, err := sox.Output()
	if err != nil {
		return nil, fmt.Errorf("sox: %w", err)
	}
	return wav, nil
}

var transcriptLine = regexp.MustCompile(`^<s>\s*(.*?)\s*</s>\s*\((.*)\)$`)

// transcription reads what was said in each clip: a line "<s> words </s> (clip)" each.
func transcription(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	said := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if m := transcriptLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			said[m[2]] = m[1]
		}
	}
	if len(said) == 0 {
		return nil, fmt.Errorf("%s: no line of the form <s> words </s> (clip)", path)
	}
	return said, nil
}
