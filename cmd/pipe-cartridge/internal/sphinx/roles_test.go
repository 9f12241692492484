package sphinx

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	roleVariable = "SPHINX_TEST_ROLE"
	placeholder  = "SPHINX_TEST_PLACE" // a file or socket that the role and the test share
)

// roles are what the child does instead of recognising speech.
var roles = map[string]func(){
	// well-behaved: says how much it was given
	"count": func() {
		n, _ := io.Copy(io.Discard, os.Stdin)
		say(0, 1, "heard")
		fmt.Fprintf(os.Stderr, "INFO: %d bytes\n", n)
	},
	"keep": func() { // what it was given goes into a file, and what it was started with into another
		raw, _ := io.ReadAll(os.Stdin)
		place := os.Getenv(placeholder)
		_ = os.WriteFile(filepath.Join(place, "input"), raw, 0o600)
		_ = os.WriteFile(filepath.Join(place, "arguments"), []byte(strings.Join(os.Args[1:], "\n")), 0o600)
		for i, arg := range os.Args {
			if arg == "-jsgf" {
				grammar, _ := os.ReadFile(os.Args[i+1])
				file, _ := os.Stat(os.Args[i+1])
				dir, _ := os.Stat(filepath.Dir(os.Args[i+1]))
				_ = os.WriteFile(filepath.Join(place, "grammar"), grammar, 0o600)
				_ = os.WriteFile(filepath.Join(place, "modes"), fmt.Appendf(nil, "%o %o", dir.Mode().Perm(), file.Mode().Perm()), 0o600)
			}
		}
	},
	// dies in one way or another after 8000 bytes and one utterance
	"status3": func() {
		connected()
		swallow(8000)
		say(0, 1, "first")
		fmt.Fprintln(os.Stderr, "INFO: all is well\nFATAL: out of words")
		os.Exit(3)
	},
	"killed": func() {
		swallow(8000)
		say(0, 1, "first")
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		time.Sleep(time.Hour)
	},
	"early": func() { // status 0, but the input goes on
		swallow(8000)
		say(0, 1, "first")
		fmt.Fprintln(os.Stderr, "INFO: enough for today")
	},
	"silent death": func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	},
	// does not do its work
	"deaf":   func() { connected(); time.Sleep(time.Hour) },
	"parent": func() { startDeaf(); time.Sleep(time.Hour) },
	"leaver": func() { startDeaf(); swallow(8000); os.Exit(4) },
	// says too much
	"log flood": func() {
		line := bytes.Repeat([]byte{'x'}, 100_000)
		for range 50 {
			_, _ = os.Stderr.Write(append(line, '\n'))
		}
		_, _ = os.Stderr.Write(bytes.Repeat(line, 20))
		fmt.Fprint(os.Stderr, "\nINFO: that was it\n\n")
		_, _ = io.Copy(io.Discard, os.Stdin)
		say(0, 1, "heard")
	},
	"chatter": func() { // an utterance for every 4096 bytes
		for i := 0; swallow(4096); i++ {
			say(float64(i)*0.128, float64(i)*0.128+0.1, fmt.Sprintf("w%d", i))
		}
	},
	"burst": func() { // many utterances in one write, which fits into the reader's buffer
		_, _ = io.WriteString(os.Stdout, strings.Repeat("w\nw 0.100 0.200 0.500000\n", 100))
		_, _ = io.Copy(io.Discard, os.Stdin)
	},
	"late complaint": func() { // status 0, and the log is still full when the process is gone
		_, _ = io.Copy(io.Discard, os.Stdin)
		log := strings.Repeat("INFO: line\n", 5000)
		log += "ERROR: \"jsgf.c\", line 340: Undefined rule in RHS: <x.b>\n"
		_, _ = io.WriteString(os.Stderr, log)
	},
	"long line": func() {
		_, _ = os.Stdout.Write(bytes.Repeat([]byte("word "), 1<<20))
		_, _ = io.Copy(io.Discard, os.Stdin)
	},
	"no times": func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		fmt.Println("a text alone")
	},
	"two texts": func() {
		fmt.Println("a text alone\nand another")
		_, _ = io.Copy(io.Discard, os.Stdin)
	},
	"shut output": func() {
		_ = os.Stdout.Close()
		_, _ = io.Copy(io.Discard, os.Stdin)
	},
}

func swallow(n int64) bool {
	got, _ := io.CopyN(io.Discard, os.Stdin, n)
	return got == n
}

// say prints one utterance of one word, as the program does.
func say(start, end float64, word string) {
	fmt.Printf("%s\n<sil> 0.000 0.010 1.000000\n%s(2) %.3f %.3f 0.500000\n", word, word, start, end)
}

// connected connects to the test's socket, if it has one: the connection ends with the process and not before.
func connected() {
	if place := os.Getenv(placeholder); place != "" {
		if _, err := net.Dial("unix", place); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(98)
		}
	}
}

func startDeaf() {
	program, _ := os.Executable()
	command := exec.Command(program)
	command.Env = append(os.Environ(), roleVariable+"=deaf")
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := command.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(97)
	}
}

// playing is an engine whose program plays a role. Models are empty files.
func playing(t testing.TB, role, place string, config Config) *Engine {
	t.Helper()
	require.Contains(t, roles, role)
	program, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	for _, name := range []string{"mdef", "dict", "lm"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	config.Program, config.HMM = program, dir
	config.Dict, config.LM = filepath.Join(dir, "dict"), filepath.Join(dir, "lm")
	e := New(config)
	// The race detector would let every child wait a second before it ends.
	e.env = append(os.Environ(), roleVariable+"="+role, placeholder+"="+place, "GORACE=atexit_sleep_ms=0")
	return e
}

// lifeline is a socket that a role connects to; gone is closed when the process at its other end is no more.
type lifeline struct {
	place       string
	alive, gone chan struct{}
}

func newLifeline(t testing.TB) *lifeline {
	t.Helper()
	dir, err := os.MkdirTemp("", "s") // short: a socket's path has 100 bytes
	require.NoError(t, err)
	l := &lifeline{filepath.Join(dir, "s"), make(chan struct{}), make(chan struct{})}
	listener, err := net.Listen("unix", l.place)
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() { // joined by the cleanup
		defer close(ended)
		c, err := listener.Accept()
		if err != nil {
			return
		}
		close(l.alive)
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
		close(l.gone)
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
		_ = os.RemoveAll(dir)
	})
	return l
}

// wait fails the test if c is not closed in time.
func wait(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(deadline):
		require.FailNow(t, "hangs", "waiting for: %s", what)
	}
}
