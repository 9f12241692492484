package cli

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/internal/tonegen"
)

// live is a process whose standard input is held open.
type live struct {
	cmd  *exec.Cmd
	feed io.WriteCloser
	out  *bufio.Reader
	errs *bufio.Reader
}

func begin(t *testing.T, cmd *exec.Cmd) *live {
	t.Helper()
	feed, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	errs, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return &live{cmd: cmd, feed: feed, out: bufio.NewReader(out), errs: bufio.NewReader(errs)}
}

func (l *live) write(t *testing.T, p []byte) {
	t.Helper()
	_, err := l.feed.Write(p)
	require.NoError(t, err)
}

// line waits for a line.
func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	require.NoError(t, err)
	return s
}

// end waits for the process, with its input still open unless the test has closed it.
func (l *live) end(t *testing.T) result {
	t.Helper()
	out, err := io.ReadAll(l.out)
	require.NoError(t, err)
	errs, err := io.ReadAll(l.errs)
	require.NoError(t, err)
	return result{string(out), string(errs), statusOf(t, l.cmd.Wait())}
}

func (l *live) signal(t *testing.T, s os.Signal) {
	t.Helper()
	require.NoError(t, l.cmd.Process.Signal(s))
}

func TestTextComesWhileAudioStillArrives(t *testing.T) {
	t.Run("section 10.4 section 11 the first segment is out before the input has ended", func(t *testing.T) {
		l := begin(t, command(t, programs.cartridge, "transcribe", "--engine=tones", "--format=text"))
		header, err := tonegen.WAVHeader(tonegen.WAVOptions{Format: tonegen.S16, Rate: 16_000, Length: tonegen.UnknownLength})
		require.NoError(t, err)
		l.write(t, header)
		samples := func(s tonegen.Signal) []byte {
			p, err := tonegen.Encode(s.Samples, tonegen.S16, 1)
			require.NoError(t, err)
			return p
		}
		l.write(t, samples(message(t, "FIRST", 16_000, 100*time.Millisecond, 3*time.Second)))
		assert.Equal(t, "FIRST\n", line(t, l.out))
		l.write(t, samples(message(t, "SECOND", 16_000, 0, 0)))
		require.NoError(t, l.feed.Close())
		assert.Equal(t, result{stdout: "SECOND\n"}, l.end(t))
	})
	t.Run("section 10.4 a piece comes back before the next goes in", func(t *testing.T) {
		l := begin(t, command(t, programs.cartridge, "upper"))
		for _, word := range []string{"one\n", "two\n", "three\n"} {
			l.write(t, []byte(word))
			assert.Equal(t, strings.ToUpper(word), line(t, l.out))
		}
		require.NoError(t, l.feed.Close())
		assert.Equal(t, result{}, l.end(t))
	})
}

func TestSignals(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there an interrupt cannot be sent to one process")
	}
	t.Run("R-2.18 the first interrupt ends the input: the last segment is printed, status 0", func(t *testing.T) {
		// At this rate a pipe holds 20 ms and a read 90 ms at most: when the last of the pause is written, the message has been read.
		const rate = 384_000
		l := begin(t, command(t, programs.cartridge, "listen", "--engine=tones", "--format=text", "--sample-rate=384000", "--sample-format=f64le"))
		first, err := tonegen.Encode(message(t, "CQ", rate, 0, 2*time.Second).Samples, tonegen.F64, 1)
		require.NoError(t, err)
		l.write(t, first)
		assert.Equal(t, "CQ\n", line(t, l.out))
		last, err := tonegen.Encode(message(t, "73", rate, 0, 250*time.Millisecond).Samples, tonegen.F64, 1)
		require.NoError(t, err)
		l.write(t, last)
		l.signal(t, os.Interrupt)
		assert.Equal(t, result{stdout: "73\n"}, l.end(t))
	})
	t.Run("R-2.18 an interrupt drains an echo too", func(t *testing.T) {
		l := begin(t, command(t, programs.probe, "echo"))
		l.write(t, []byte("all\n"))
		assert.Equal(t, "all\n", line(t, l.out))
		l.signal(t, os.Interrupt)
		assert.Equal(t, result{}, l.end(t))
	})
	// told starts a role and waits for what it says after each signal.
	told := func(t *testing.T, name string, signals ...os.Signal) *live {
		l := begin(t, role(t, name))
		assert.Equal(t, "[info] started\n", line(t, l.errs))
		for i, s := range signals {
			l.signal(t, s)
			want := []string{"[info] input ended\n", "[info] told\n"}[i]
			assert.Equal(t, want, line(t, l.errs))
		}
		return l
	}
	t.Run("R-2.18 R-2.36 the second interrupt ends the handler, status 1", func(t *testing.T) {
		l := told(t, "wait", os.Interrupt, os.Interrupt)
		assert.Equal(t, result{stderr: "ABORTED: signal: interrupt\n", status: 1}, l.end(t))
	})
	t.Run("R-2.36 SIGTERM ends the handler, status 1", func(t *testing.T) {
		l := told(t, "wait")
		l.signal(t, syscall.SIGTERM)
		assert.Equal(t, result{stderr: "[info] told while it read\nABORTED: signal: terminated\n", status: 1}, l.end(t))
	})
	t.Run("R-2.18 R-2.36 SIGTERM after an interrupt too", func(t *testing.T) {
		l := told(t, "wait", os.Interrupt)
		l.signal(t, syscall.SIGTERM)
		assert.Equal(t, result{stderr: "[info] told\nABORTED: signal: terminated\n", status: 1}, l.end(t))
	})
	t.Run("F5 one more ends a handler that does not hear, status 1", func(t *testing.T) {
		l := told(t, "deaf", os.Interrupt, os.Interrupt)
		l.signal(t, os.Interrupt)
		assert.Equal(t, result{status: 1}, l.end(t))
	})
	t.Run("F5 a command that waits for its input to end is interrupted, status 1", func(t *testing.T) {
		l := begin(t, command(t, programs.probe, "hold")) // not streaming: read whole before the handler starts
		l.write(t, bytes.Repeat([]byte("x"), 4<<20))      // more than a pipe holds, so it is being read
		l.signal(t, os.Interrupt)
		got := l.end(t)
		assert.Equal(t, 1, got.status)
		assert.Empty(t, got.stdout)
		wantLine(t, got.stderr, "signal: interrupt")
	})
}

func TestClosedOutput(t *testing.T) {
	// feedFor writes to the process until it reads no more.
	feedFor := func(l *live, p []byte) <-chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				if _, err := l.feed.Write(p); err != nil {
					return
				}
			}
		}()
		return done
	}
	text := bytes.Repeat([]byte("some text that goes on and on\n"), 1000)
	for name, cmd := range map[string][]string{"identity of the probe": {programs.probe, "echo"}, "upper": {programs.cartridge, "upper"}} {
		t.Run("F8 R-2.22 standard output closes after a byte: "+name, func(t *testing.T) {
			process := command(t, cmd[0], cmd[1:]...)
			read, write, err := os.Pipe()
			require.NoError(t, err)
			process.Stdout = write
			var errs bytes.Buffer
			process.Stderr = &errs
			feed, err := process.StdinPipe()
			require.NoError(t, err)
			require.NoError(t, process.Start())
			require.NoError(t, write.Close())
			done := feedFor(&live{feed: feed}, text)
			_, err = io.ReadFull(read, make([]byte, 1))
			require.NoError(t, err)
			require.NoError(t, read.Close())
			assert.Equal(t, 1, statusOf(t, process.Wait()))
			<-done
			wantLine(t, errs.String(), "HANDLER_ERROR: writing standard output")
		})
	}
	t.Run("F8 R-2.22 a closed standard error does no harm", func(t *testing.T) {
		for words, want := range map[string]int{"identity": 0, "fail": 1, "nonsense": 2} {
			process := command(t, programs.probe, words)
			read, write, err := os.Pipe()
			require.NoError(t, err)
			require.NoError(t, read.Close())
			var out bytes.Buffer
			process.Stdin, process.Stdout, process.Stderr = strings.NewReader("A|input|b"), &out, write
			require.NoError(t, process.Start())
			require.NoError(t, write.Close())
			assert.Equal(t, want, statusOf(t, process.Wait()), words)
			assert.Equal(t, want == 0, out.String() == "A|input|b")
		}
	})
}

func TestSox(t *testing.T) {
	if _, err := exec.LookPath("sox"); err != nil {
		if os.Getenv("PIPE_REQUIRE_SPEECH") == "" {
			t.Skip("sox is not installed")
		}
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cq.wav")
	s := message(t, "CQ DE X1Y", 22_050, 300*time.Millisecond, 300*time.Millisecond).AddNoise(15, 1)
	require.NoError(t, os.WriteFile(path, wav(t, s), 0o600))
	piped := func(t *testing.T, soxWords, words []string) result {
		sox := command(t, "sox", append([]string{path}, soxWords...)...)
		read, write, err := os.Pipe()
		require.NoError(t, err)
		sox.Stdout = write
		require.NoError(t, sox.Start())
		require.NoError(t, write.Close())
		got := finish(t, command(t, programs.cartridge, words...), read)
		require.NoError(t, read.Close())
		require.NoError(t, sox.Wait())
		return got
	}
	for name, row := range map[string]struct{ sox, words []string }{
		"F14 a WAV stream into transcribe": {[]string{"-t", "wav", "-"}, []string{"transcribe"}},
		"F14 of another format":            {[]string{"-r", "48000", "-c", "2", "-b", "24", "-t", "wav", "-"}, []string{"transcribe"}},
		"raw samples into listen":          {[]string{"-r", "16000", "-c", "1", "-e", "signed", "-b", "16", "-t", "raw", "-"}, []string{"listen"}},
		"raw samples of another format": {[]string{"-r", "8000", "-c", "2", "-e", "float", "-b", "32", "-t", "raw", "-"},
			[]string{"listen", "--sample-rate", "8000", "--channels", "2", "--sample-format", "f32le"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := piped(t, row.sox, append(row.words, "--engine=tones", "--format=text"))
			assert.Equal(t, result{stdout: "CQ DE X1Y\n"}, got)
		})
	}
	t.Run("a file, and the same file on standard input, in every format", func(t *testing.T) {
		for format, want := range map[string]string{"ndjson": `"text":"CQ DE X1Y"`, "text": "CQ DE X1Y\n", "srt": "1\n00:00:00,", "vtt": "WEBVTT\n\n00:00:00."} {
			file, err := os.Open(path)
			require.NoError(t, err)
			piped := finish(t, command(t, programs.cartridge, "transcribe", "--engine=tones", "--format", format), file)
			require.NoError(t, file.Close())
			named := finish(t, command(t, programs.cartridge, "transcribe", "--engine=tones", "--format", format, path), nil)
			assert.Equal(t, named, piped)
			assert.Contains(t, named.stdout, want)
			assert.Zero(t, named.status)
		}
	})
}
