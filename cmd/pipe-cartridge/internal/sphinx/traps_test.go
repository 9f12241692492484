package sphinx

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
	"github.com/pipe-cartridge/pipe/internal/wer"
)

// Each test in this file is something the real program does that would give a wrong answer without a complaint.

func TestTrapSeveralPublicRulesUseOnlyTheFirstUnlessTopRuleIsGiven(t *testing.T) {
	needSpeech(t, "flite")
	grammar := string(readTestData(t, "goforward.gram"))
	audio := append(silence(300*time.Millisecond), said(t, "go backward five meters")...)
	audio = append(audio, silence(600*time.Millisecond)...)
	for top, want := range map[string]string{
		"move2":           "go backward five meters",
		"goforward.move2": "go backward five meters",
		"<move>":          "go forward ten meters", // all this rule can say
	} {
		t.Run(top, func(t *testing.T) {
			segments, err := transcribe(t, New(Config{Grammar: grammar, TopRule: top}), cutInto(audio, 1600))
			require.NoError(t, err)
			assert.Equal(t, []string{want}, texts(segments))
		})
	}
	t.Run("none", func(t *testing.T) {
		_, err := transcribe(t, New(Config{Grammar: grammar}), cutInto(audio, 1600))
		wantFailure(t, err, CodeGrammar, failure.Input, "<move>, <move2>")
	})
	t.Run("without a grammar", func(t *testing.T) {
		_, err := transcribe(t, New(Config{TopRule: "move2"}), cutInto(audio, 1600))
		wantFailure(t, err, CodeGrammar, failure.Input, "without a grammar")
	})
}

func TestTrapAGrammarThatIsAcceptedInPartIsAnInputFailure(t *testing.T) {
	needSpeech(t)
	const head = "#JSGF V1.0;\ngrammar x;\n"
	for _, c := range []struct{ name, text, says string }{
		// With these the program goes on, and ends with status 0.
		{"undefined rule", head + "public <a> = go forward ten meters | <b>;", "Undefined rule"},
		{"left recursion", head + "public <a> = <a> go | forward;", "right-recursion"},
		// With these it ends with status 1.
		{"syntax", head + "public <a> = one | (two;", "syntax error at line 3"},
		{"no JSGF", "garbage", "syntax error"},
		{"no public rule", head + "<a> = one;", "No public rules found in grammar"},
		{"unknown word", head + "public <a> = one | xyzzyx;", "'xyzzyx' is missing in the dictionary"},
	} {
		t.Run(c.name, func(t *testing.T) {
			temp := t.TempDir()
			_, err := transcribe(t, New(Config{Grammar: c.text, TempDir: temp}), cutInto(rawSpeech(t, "goforward.raw"), 1600))
			wantFailure(t, err, CodeGrammar, failure.Input, c.says)
			assert.NotContains(t, err.Error(), temp, "the name of a temporary file tells the caller nothing")
			left, err := os.ReadDir(temp)
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}

func TestTrapCharactersThatTheGrammarScannerEchoesAreNoTranscript(t *testing.T) {
	needSpeech(t)
	grammar := "#JSGF V1.0;\ngrammar x; @@\npublic <a> = go forward ten meters;\n"
	segments, err := transcribe(t, New(Config{Grammar: grammar}), cutInto(rawSpeech(t, "goforward.raw"), 1600))
	require.NoError(t, err)
	assert.Equal(t, []string{"go forward ten meters"}, texts(segments))
}

func TestTrapAWAVHeaderIsHeardAsNoise(t *testing.T) {
	needSpeech(t)
	// Why the front end has to take the header off: as samples it changes the words.
	file := readTestData(t, "cards/001.wav")
	without, err := transcribe(t, New(Config{}), cutInto(wavSpeech(t, file), 1600))
	require.NoError(t, err)
	with, err := transcribe(t, New(Config{}), cutInto(fromS16(t, file), 1600))
	require.NoError(t, err)
	assert.NotEqual(t, texts(without), texts(with))
}

func TestTrapEmptyInputAndDigitalSilenceAreNoSegmentAndNoFailure(t *testing.T) {
	needSpeech(t)
	for name, audio := range map[string][]engine.Block{
		"nothing":            nil,
		"one sample":         {{Samples: make([]float32, 1)}},
		"a minute of zeros":  {{Samples: silence(time.Minute)}},
		"only a gap":         {{Gap: time.Hour}},
		"gaps and no sound":  {{Gap: time.Second}, {Samples: silence(time.Second)}, {Gap: time.Second}},
		"an empty last part": {{Samples: silence(time.Second)}, {}},
	} {
		t.Run(name, func(t *testing.T) {
			segments, err := transcribe(t, cards(t), blocks(audio...))
			require.NoError(t, err)
			assert.Empty(t, segments)
		})
	}
}

func TestTrapAddedSilenceDoesNotMakeWordsOutOfSteadyNoise(t *testing.T) {
	needSpeech(t)
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]float32, 30*engine.SampleRate)
	for i := range noise {
		noise[i] = float32(random.NormFloat64() * 0.003)
	}
	segments, err := transcribe(t, New(Config{MaxUtterance: 10 * time.Second}), cutInto(noise, 1600))
	require.NoError(t, err)
	assert.Empty(t, segments)
}

func TestTrapABrokenModelIsAnEnvironmentFailureWithTheReasonFromTheLog(t *testing.T) {
	needSpeech(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mdef"), []byte("no model"), 0o600))
	_, err := transcribe(t, New(Config{HMM: dir}), cutInto(rawSpeech(t, "goforward.raw"), 1600))
	wantFailure(t, err, CodeFailed, failure.Environment, "exit status 1", "FATAL:", "no model")
}

func TestTrapTheRealProgramKilledInMidStreamIsAFailure(t *testing.T) {
	needSpeech(t)
	// A script finds out its own process id and then becomes the program.
	dir := t.TempDir()
	place, script := filepath.Join(dir, "pid"), filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho $$ >"+place+"\nexec pocketsphinx_continuous \"$@\"\n"), 0o700))
	speech := rawSpeech(t, "goforward.raw")
	heard := 0
	grammar := "#JSGF V1.0;\ngrammar x;\npublic <a> = go forward ten meters;\n"
	err := New(Config{Program: script, Grammar: grammar}).Transcribe(testContext(t), func(yield func(engine.Block, error) bool) {
		for yield(engine.Block{Samples: speech}, nil) && yield(engine.Block{Samples: silence(time.Second)}, nil) {
		}
	}, func(engine.Segment) error {
		if heard++; heard == 2 {
			pid, err := os.ReadFile(place)
			if err != nil {
				return err
			}
			return exec.Command("/bin/sh", "-c", "kill -TERM "+string(pid)).Run()
		}
		return nil
	})
	wantFailure(t, err, CodeFailed, failure.Environment, "signal: terminated")
	assert.GreaterOrEqual(t, heard, 2)
}

func TestTrapAnUtteranceWithoutAPauseIsCutAndComesWhileTheAudioGoesOn(t *testing.T) {
	needSpeech(t, "flite")
	const (
		digits    = "one two three four five six seven eight nine one three five seven nine two four six eight one four seven two five eight three six nine"
		grammar   = "#JSGF V1.0;\ngrammar digits;\npublic <digits> = (one | two | three | four | five | six | seven | eight | nine)+;\n"
		most      = 3 * time.Second
		tolerance = 200 * time.Millisecond
	)
	audio := said(t, digits)
	length := time.Duration(len(audio)) * samplePeriod
	require.Greater(t, length, 2*most)

	run := func(config Config) (segments []engine.Segment, early int) {
		config.Grammar = grammar
		ended := make(chan struct{})
		err := New(config).Transcribe(testContext(t), func(yield func(engine.Block, error) bool) {
			defer close(ended)
			for b := range cutInto(audio, 1600) {
				if !yield(b, nil) {
					return
				}
			}
			// The audio goes on, so that what comes now does not come because of the end of the input.
			for range 30 {
				if !yield(engine.Block{Samples: silence(time.Second)}, nil) {
					return
				}
			}
		}, func(s engine.Segment) error {
			segments = append(segments, s)
			select {
			case <-ended:
			default:
				early++
			}
			return nil
		})
		require.NoError(t, err)
		return segments, early
	}

	whole, _ := run(Config{MaxUtterance: time.Hour})
	require.Len(t, whole, 1, "the program itself never cuts")

	segments, early := run(Config{MaxUtterance: most})
	require.GreaterOrEqual(t, len(segments), 3)
	assert.Positive(t, early)
	last := time.Duration(0)
	for _, s := range segments {
		t.Logf("%v to %v: %s", s.Start, s.End, s.Text)
		assert.LessOrEqual(t, s.End-s.Start, most)
		assert.GreaterOrEqual(t, s.Start, last, "segments do not overlap")
		last = s.End
	}
	assert.LessOrEqual(t, segments[0].Start, tolerance)
	assert.InDelta(t, length.Seconds(), last.Seconds(), tolerance.Seconds(), "cuts take no time")
	errors, words := wer.Compare(digits, joined(segments))
	t.Logf("%d of %d words wrong", errors, words)
	assert.LessOrEqual(t, float64(errors)/float64(words), 0.15)
}

func TestF15TheSameAudioInAnyBlocksGivesTheSameSegments(t *testing.T) {
	needSpeech(t)
	var audio []float32
	for _, name := range []string{"002", "003", "005"} {
		audio = append(audio, wavSpeech(t, readTestData(t, "cards/"+name+".wav"))...)
		audio = append(audio, silence(1200*time.Millisecond)...)
	}
	audio = append(audio, wavSpeech(t, readTestData(t, "cards/004.wav"))...) // nothing behind the last word
	want, err := transcribe(t, cards(t), cutInto(audio, len(audio)))
	require.NoError(t, err)
	require.Equal(t, []string{"four queen of clubs", "seven of clubs", "eight of spades four of clubs seven of hearts", "five five"}, texts(want))
	for _, n := range []int{1, 3, 333, 4095, 65537} {
		got, err := transcribe(t, cards(t), cutInto(audio, n))
		require.NoError(t, err)
		assert.Equal(t, want, got, "blocks of %d samples", n)
	}
}

func TestAccuracyTwoUtterancesInRealTimeTheFirstIsToldBeforeTheInputEnds(t *testing.T) {
	needSpeech(t)
	audio := rawSpeech(t, "goforward.raw")
	audio = append(audio, silence(2*time.Second)...)
	audio = append(audio, rawSpeech(t, "something.raw")...)
	audio = append(audio, silence(500*time.Millisecond)...)
	const piece = engine.SampleRate / 50
	first, ended := make(chan struct{}), make(chan struct{})
	var segments []engine.Segment
	err := New(Config{}).Transcribe(testContext(t), func(yield func(engine.Block, error) bool) {
		defer close(ended)
		ticker := time.NewTicker(piece * samplePeriod)
		defer ticker.Stop()
		for b := range cutInto(audio, piece) {
			<-ticker.C
			if !yield(b, nil) {
				return
			}
		}
	}, func(s engine.Segment) error {
		if segments = append(segments, s); len(segments) == 1 {
			select {
			case <-ended:
			default:
				close(first)
			}
		}
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"go forward ten meters", "go somewhere and do something"}, texts(segments))
	select {
	case <-first:
	default:
		assert.Fail(t, "the first segment came after the end of the input")
	}
}
