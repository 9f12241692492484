package sphinx

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
)

// wantFailure checks what a failure says on the wire.
func wantFailure(t testing.TB, err error, code string, class failure.Class, parts ...string) {
	t.Helper()
	require.Error(t, err)
	var f *failure.Failure
	require.ErrorAs(t, err, &f)
	assert.Equal(t, code, f.Code)
	assert.Equal(t, class, f.Class)
	for _, part := range parts {
		assert.Contains(t, f.Message, part)
	}
}

// endless is audio that never ends by itself; pulled counts its blocks of 100 ms.
func endless(pulled *atomic.Int64) iter.Seq2[engine.Block, error] {
	block := engine.Block{Samples: make([]float32, 1600)}
	return func(yield func(engine.Block, error) bool) {
		for yield(block, nil) {
			pulled.Add(1)
		}
	}
}

func TestDeathInMidStreamIsAnEnvironmentFailureNeverAShorterSuccess(t *testing.T) {
	for _, c := range []struct {
		role  string
		parts []string
	}{
		{"status3", []string{"exit status 3", "FATAL: out of words"}},
		{"killed", []string{"signal: killed", "the last it said was: nothing"}},
		{"early", []string{"exit status 0 before its input had ended", "INFO: enough for today"}},
	} {
		t.Run(c.role, func(t *testing.T) {
			var pulled atomic.Int64
			segments, err := transcribe(t, playing(t, c.role, "", Config{}), endless(&pulled))
			wantFailure(t, err, CodeFailed, failure.Environment, c.parts...)
			assert.Equal(t, []string{"first"}, texts(segments), "what was complete before is not lost")
			var child *ChildError
			require.ErrorAs(t, err, &child)
			if c.role == "status3" {
				assert.Contains(t, child.Log, "INFO: all is well", "the tail of the log is kept")
			}
		})
	}
}

func TestDeathWithStatus0AndUnreadInputIsAFailureEvenWhenThePipeTookAllOfIt(t *testing.T) {
	// 16 000 bytes fit into the pipe, so that every write succeeds and the audio ends well.
	_, err := transcribe(t, playing(t, "early", "", Config{}), blocks(engine.Block{Samples: make([]float32, 8000)}))
	wantFailure(t, err, CodeFailed, failure.Environment, "exit status 0")
}

func TestDeathAfterTheWholeInputNamesTheStatusToo(t *testing.T) {
	_, err := transcribe(t, playing(t, "silent death", "", Config{}), blocks(engine.Block{Samples: make([]float32, 800)}))
	wantFailure(t, err, CodeFailed, failure.Environment, "exit status 1", "the last it said was: nothing")
}

func TestDeathWhileEmitWaitsIsToldWhenEmitHasReturned(t *testing.T) {
	line := newLifeline(t)
	var pulled atomic.Int64
	var heard []string
	err := playing(t, "status3", line.place, Config{}).Transcribe(testContext(t), endless(&pulled), func(s engine.Segment) error {
		wait(t, line.gone, "the death of the child")
		heard = append(heard, s.Text)
		return nil
	})
	wantFailure(t, err, CodeFailed, failure.Environment, "exit status 3")
	assert.Equal(t, []string{"first"}, heard)
}

func TestCancelReleasesAChildThatNeverReads(t *testing.T) {
	cause := errors.New("the user has changed their mind")
	ctx, cancel := context.WithCancelCause(testContext(t))
	line := newLifeline(t)
	var pulled atomic.Int64
	result := make(chan error, 1)
	go func() { // joined below
		result <- playing(t, "deaf", line.place, Config{}).Transcribe(ctx, endless(&pulled), func(engine.Segment) error { return nil })
	}()
	wait(t, line.alive, "the child")
	before := time.Now()
	cancel(cause)
	assert.ErrorIs(t, <-result, cause)
	assert.Less(t, time.Since(before), deadline/2, "the cancel, not the deadline, has released it")
	wait(t, line.gone, "the death of the child")
}

func TestBackpressureAChildThatNeverReadsStopsThePull(t *testing.T) {
	// The pipe holds 64 KiB on Linux and at most 1 MiB anywhere. Without back-pressure the sequence would be pulled some
	// hundred thousand times a second.
	const blockSamples, most = 1600, 1<<20/3200 + 10
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	full, over := make(chan struct{}), make(chan struct{})
	block := engine.Block{Samples: make([]float32, blockSamples)}
	audio := func(yield func(engine.Block, error) bool) {
		for count := 1; yield(block, nil); count++ {
			switch count {
			case 10: // a second of audio always fits
				close(full)
			case most:
				close(over)
			}
		}
	}
	done := make(chan struct{})
	go func() { // joined below
		defer close(done)
		_ = playing(t, "deaf", "", Config{}).Transcribe(ctx, audio, func(engine.Segment) error { return nil })
	}()
	wait(t, full, "the first second of audio")
	select {
	case <-over:
		assert.Fail(t, "audio is pulled although nobody takes it")
	case <-time.After(300 * time.Millisecond): // long enough for thousands of blocks
	}
	cancel()
	wait(t, done, "the end")
}

func TestBackpressureWhileEmitWaitsNoAudioIsPulled(t *testing.T) {
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	var waiting atomic.Bool
	var during atomic.Int64        // blocks pulled while emit waits
	more := make(chan struct{}, 1) // has a token when they are more than one
	block := engine.Block{Samples: make([]float32, 160)}
	audio := func(yield func(engine.Block, error) bool) {
		for yield(block, nil) {
			if waiting.Load() && during.Add(1) > 1 { // one may have been on its way
				select {
				case more <- struct{}{}:
				default:
				}
			}
		}
	}
	emitted := 0
	err := playing(t, "chatter", "", Config{}).Transcribe(ctx, audio, func(engine.Segment) error {
		during.Store(0)
		waiting.Store(true)
		defer waiting.Store(false)
		select {
		case <-more:
			assert.Fail(t, "audio is pulled although nobody takes the segments")
		case <-time.After(100 * time.Millisecond): // the child has room for hundreds of blocks and lines
		}
		if emitted++; emitted == 4 {
			cancel()
		}
		return nil
	})
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 4, emitted)
}

func TestEveryEndingKillsAndJoins(t *testing.T) {
	broken := errors.New("broken")
	nothing := func(engine.Segment) error { return nil }
	t.Run("an error of emit comes back as it is", func(t *testing.T) {
		var pulled atomic.Int64
		calls := 0
		err := playing(t, "burst", "", Config{}).Transcribe(testContext(t), endless(&pulled), func(engine.Segment) error {
			calls++
			return broken
		})
		assert.Same(t, broken, err)
		assert.Equal(t, 1, calls, "emit is not called again after its error")
	})
	t.Run("an error of audio comes back as it is", func(t *testing.T) {
		line := newLifeline(t)
		err := playing(t, "deaf", line.place, Config{}).Transcribe(testContext(t), func(yield func(engine.Block, error) bool) {
			wait(t, line.alive, "the child")
			yield(engine.Block{}, broken)
		}, nothing)
		assert.Same(t, broken, err)
		wait(t, line.gone, "the death of the child")
	})
	t.Run("a panic of emit goes on when the child is gone", func(t *testing.T) {
		var pulled atomic.Int64
		assert.PanicsWithValue(t, "emit", func() {
			_ = playing(t, "chatter", "", Config{}).Transcribe(testContext(t), endless(&pulled), func(engine.Segment) error { panic("emit") })
		})
	})
	t.Run("a panic of audio goes on in the caller's goroutine", func(t *testing.T) {
		line := newLifeline(t)
		defer func() {
			value, _ := recover().(string)
			assert.Contains(t, value, "audio: bad sequence")
			assert.Contains(t, value, "process_test.go", "with the stack of where it happened")
			wait(t, line.gone, "the death of the child")
		}()
		_ = playing(t, "deaf", line.place, Config{}).Transcribe(testContext(t), func(func(engine.Block, error) bool) {
			wait(t, line.alive, "the child")
			panic("bad sequence")
		}, nothing)
		assert.Fail(t, "the panic was lost")
	})
	t.Run("audio that ends its goroutine is an error", func(t *testing.T) {
		err := playing(t, "count", "", Config{}).Transcribe(testContext(t), func(func(engine.Block, error) bool) { runtime.Goexit() }, nothing)
		assert.ErrorIs(t, err, errExited)
	})
	t.Run("a context that has ended starts nothing", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(testContext(t))
		cancel(broken)
		place := t.TempDir()
		err := playing(t, "keep", place, Config{}).Transcribe(ctx, blocks(), nothing)
		assert.Same(t, broken, err)
		assert.NoFileExists(t, filepath.Join(place, "input"))
	})
	t.Run("what the child has started dies with it on a cancel", func(t *testing.T) {
		line := newLifeline(t)
		ctx, cancel := context.WithCancelCause(testContext(t))
		err := playing(t, "parent", line.place, Config{}).Transcribe(ctx, func(yield func(engine.Block, error) bool) {
			wait(t, line.alive, "the grandchild")
			cancel(broken)
			for yield(engine.Block{Samples: make([]float32, 1600)}, nil) {
			}
		}, nothing)
		assert.Same(t, broken, err)
		wait(t, line.gone, "the death of the grandchild")
	})
	t.Run("what the child has started dies with it when it ends by itself", func(t *testing.T) {
		line := newLifeline(t)
		_, err := transcribe(t, playing(t, "leaver", line.place, Config{}), func(yield func(engine.Block, error) bool) {
			wait(t, line.alive, "the grandchild")
			for yield(engine.Block{Samples: make([]float32, 1600)}, nil) {
			}
		})
		wantFailure(t, err, CodeFailed, failure.Environment, "exit status 4")
		wait(t, line.gone, "the death of the grandchild")
	})
	t.Run("a child that closes its output early is waited for", func(t *testing.T) {
		segments, err := transcribe(t, playing(t, "shut output", "", Config{}), blocks(engine.Block{Samples: make([]float32, 100_000)}))
		require.NoError(t, err)
		assert.Empty(t, segments)
	})
}

func TestCancelInTheMiddleOfAVeryLongBlockDoesNotFeedTheRest(t *testing.T) {
	line := newLifeline(t)
	ctx, cancel := context.WithCancelCause(testContext(t))
	cause := errors.New("enough")
	result := make(chan error, 1)
	go func() { // joined below
		result <- playing(t, "deaf", line.place, Config{}).Transcribe(ctx,
			blocks(engine.Block{Samples: make([]float32, 20<<20)}), func(engine.Segment) error { return nil })
	}()
	wait(t, line.alive, "the child")
	cancel(cause)
	assert.Same(t, cause, <-result)
	wait(t, line.gone, "the death of the child")
}

func TestLogFloodDoesNotBlockTheChildAndOnlyItsTailIsKept(t *testing.T) {
	segments, err := transcribe(t, playing(t, "log flood", "", Config{}), blocks(engine.Block{Samples: make([]float32, 1600)}))
	require.NoError(t, err)
	assert.Equal(t, []string{"heard"}, texts(segments))
}

func TestLogGrammarErrorIsNotLostWhenTheChildEndsWellRightBehindIt(t *testing.T) {
	for range 5 {
		_, err := transcribe(t, playing(t, "late complaint", "", Config{Grammar: "public <a> = <b>;"}), blocks())
		wantFailure(t, err, CodeGrammar, failure.Input, "Undefined rule in RHS: <x.b>")
	}
	_, err := transcribe(t, playing(t, "late complaint", "", Config{}), blocks())
	assert.NoError(t, err, "without a grammar it is none of ours")
}

func TestOutputThatIsNotUnderstoodIsAnEnvironmentFailure(t *testing.T) {
	for role, part := range map[string]string{
		"long line": "token too long",
		"no times":  "a text without word times",
		"two texts": "a text without word times",
	} {
		t.Run(role, func(t *testing.T) {
			segments, err := transcribe(t, playing(t, role, "", Config{}), blocks(engine.Block{Samples: make([]float32, 1600)}))
			wantFailure(t, err, CodeFailed, failure.Environment, part)
			assert.Empty(t, segments, "a segment without a time is no segment")
		})
	}
}

func TestInputOfTheChildIsWholeSamplesOfSigned16BitWithoutHeader(t *testing.T) {
	place := t.TempDir()
	e := playing(t, "keep", place, Config{})
	in := []float32{0, 0.5, -0.5, 1, -1, 2, -2, float32(math.Inf(1)), float32(math.NaN()), 1.5 / fullScale, -1.4 / fullScale}
	_, err := transcribe(t, e, cutInto(in, 3))
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(place, "input"))
	require.NoError(t, err)
	got := make([]int16, len(raw)/2)
	_, err = binary.Decode(raw, binary.LittleEndian, got)
	require.NoError(t, err)
	assert.Equal(t, []int16{0, 16384, -16384, 32767, -32768, 32767, -32768, 32767, 0, 2, -1}, got)
	assert.Len(t, raw, 2*len(in), "no odd byte, no header")
}

func TestArgumentsReadStandardInputAndNeverNameALogFile(t *testing.T) {
	place, temp := t.TempDir(), t.TempDir()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(place, name))
		require.NoError(t, err)
		return string(text)
	}
	t.Run("language model", func(t *testing.T) {
		e := playing(t, "keep", place, Config{TempDir: temp})
		_, err := transcribe(t, e, blocks())
		require.NoError(t, err)
		assert.Equal(t, []string{"-infile", "/dev/stdin", "-time", "yes", "-hmm", e.config.HMM, "-dict", e.config.Dict,
			"-lm", e.config.LM}, strings.Split(read("arguments"), "\n"))
	})
	t.Run("grammar in a private file that is gone afterwards", func(t *testing.T) {
		text := "#JSGF V1.0;\ngrammar g;\npublic <a> = one;\n<b> = two;\n"
		_, err := transcribe(t, playing(t, "keep", place, Config{Grammar: text, TopRule: "b", TempDir: temp}), blocks())
		require.NoError(t, err)
		args := strings.Split(read("arguments"), "\n")
		assert.NotContains(t, args, "-lm")
		assert.NotContains(t, args, "-logfn", "it would be appended to for ever")
		assert.Equal(t, []string{"-toprule", "g.b"}, args[len(args)-2:], "the program wants the qualified name")
		assert.Equal(t, text, read("grammar"))
		assert.Equal(t, "700 600", read("modes"), "of the directory and the file")
		left, err := os.ReadDir(temp)
		require.NoError(t, err)
		assert.Empty(t, left, "nothing stays behind")
	})
	t.Run("grammar is removed after a failure as well", func(t *testing.T) {
		_, err := transcribe(t, playing(t, "status3", "", Config{Grammar: "public <a> = one;", TempDir: temp}), blocks(engine.Block{Samples: make([]float32, 80_000)}))
		wantFailure(t, err, CodeFailed, failure.Environment)
		left, err := os.ReadDir(temp)
		require.NoError(t, err)
		assert.Empty(t, left)
	})
	t.Run("no room for the grammar", func(t *testing.T) {
		_, err := transcribe(t, playing(t, "keep", place, Config{Grammar: "public <a> = one;", TempDir: filepath.Join(temp, "none")}), blocks())
		wantFailure(t, err, CodeFailed, failure.Environment, "keep the grammar")
	})
}

func TestMissingPackageIsAnEnvironmentFailureThatNamesThePackages(t *testing.T) {
	packages := "install the Debian packages pocketsphinx and pocketsphinx-en-us"
	gone := filepath.Join(t.TempDir(), "gone")
	for name, change := range map[string]func(*Config){
		"program":        func(c *Config) { c.Program = gone },
		"acoustic model": func(c *Config) { c.HMM = gone },
		"dictionary":     func(c *Config) { c.Dict = gone },
		"language model": func(c *Config) { c.LM = gone },
	} {
		t.Run(name, func(t *testing.T) {
			whole := playing(t, "count", "", Config{})
			require.NoError(t, whole.Available())
			config := whole.config
			change(&config)
			e := New(config)
			wantFailure(t, e.Available(), CodeUnavailable, failure.Environment, name, packages)
			assert.Equal(t, "pocketsphinx", e.Name(), "it can be declared all the same")
			_, err := transcribe(t, e, func(func(engine.Block, error) bool) { assert.Fail(t, "audio was pulled") })
			wantFailure(t, err, CodeUnavailable, failure.Environment, packages)
		})
	}
	t.Run("a language model is not needed with a grammar", func(t *testing.T) {
		config := playing(t, "count", "", Config{Grammar: "public <a> = one;"}).config
		config.LM = gone
		assert.NoError(t, New(config).Available())
	})
	t.Run("a program that cannot be started", func(t *testing.T) {
		config := playing(t, "count", "", Config{}).config
		config.Program = filepath.Join(t.TempDir(), "broken")
		require.NoError(t, os.WriteFile(config.Program, []byte("\x7fELF no program"), 0o700))
		_, err := transcribe(t, New(config), blocks())
		wantFailure(t, err, CodeFailed, failure.Environment, "start", config.Program)
	})
}
