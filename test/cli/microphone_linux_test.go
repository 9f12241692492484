package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/internal/tonegen"
)

// itemTime is what a microphone's item holds.
const itemTime = 20 * time.Millisecond

// device makes a file look like an ALSA capture device of the name recording, and gives the environment in which it is one.
func device(t *testing.T, file string) (env []string) {
	t.Helper()
	if _, err := exec.LookPath("arecord"); err != nil {
		const missing = "no program arecord; install the Debian package alsa-utils"
		if os.Getenv("PIPE_REQUIRE_ALSA") == "1" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	config := filepath.Join(t.TempDir(), "asound.conf")
	definition := fmt.Sprintf(`pcm.recording { type file slave.pcm { type null } file "/dev/null" infile %q format "raw" }`, file)
	require.NoError(t, os.WriteFile(config, []byte(definition), 0o600))
	return append(os.Environ(), "ALSA_CONFIG_PATH="+config)
}

// listening is the cartridge that listens to the device.
func listening(t *testing.T, env []string, engine, selector string) *exec.Cmd {
	t.Helper()
	cmd := command(t, programs.cartridge, "listen", "--engine="+engine, "--format=text", "--feed", "microphone", "--feed-selector", selector)
	cmd.Env = env
	return cmd
}

// items cuts samples of 16 bits into whole items; the last is filled with silence.
func items(samples []byte, rate int) (items [][]byte) {
	size := rate * int(itemTime/time.Millisecond) / 1000 * 2
	if rest := len(samples) % size; rest > 0 {
		samples = append(samples, make([]byte, size-rest)...)
	}
	for ; len(samples) > 0; samples = samples[size:] {
		items = append(items, samples[:size])
	}
	return items
}

func samples16(t *testing.T, s tonegen.Signal) []byte {
	t.Helper()
	p, err := tonegen.Encode(s.Samples, tonegen.S16, 1)
	require.NoError(t, err)
	return p
}

// resize sets how much a pipe holds.
func resize(t *testing.T, pipe *os.File, bytes int) {
	t.Helper()
	const setPipeSize = 1031 // F_SETPIPE_SZ of fcntl
	conn, err := pipe.SyscallConn()
	require.NoError(t, err)
	var errno syscall.Errno
	require.NoError(t, conn.Control(func(fd uintptr) { _, _, errno = syscall.Syscall(syscall.SYS_FCNTL, fd, setPipeSize, uintptr(bytes)) }))
	require.Zero(t, errno)
}

func TestMicrophone(t *testing.T) {
	recording := func(t *testing.T, samples []byte, rate int) (env []string, selector string) {
		file := filepath.Join(t.TempDir(), "recording.raw")
		n := len(items(samples, rate))
		require.NoError(t, os.WriteFile(file, append(samples, make([]byte, rate)...), 0o600))
		// The device has no clock and gives as fast as it is read, so the ring holds all of it.
		return device(t, file), fmt.Sprintf(`{"device":"recording","params":{"ring":%d,"sample_rate":%d},"stop":{"max_items":%d}}`, n, rate, n)
	}
	t.Run("R-9.50 R-9.5 R-2.16 the text of a recording, at the rate that the capture says", func(t *testing.T) {
		env, selector := recording(t, samples16(t, message(t, "CQ DE HAM", 44_100, time.Second, 2*time.Second)), 44_100)
		assert.Equal(t, result{stdout: "CQ DE HAM\n"}, finish(t, listening(t, env, "tones", selector), nil))
	})
	t.Run("R-9.50 R-2.16 the words of recorded speech", func(t *testing.T) {
		raw, err := os.ReadFile("/usr/share/pocketsphinx/test/data/goforward.raw")
		if err != nil && os.Getenv("PIPE_REQUIRE_SPEECH") != "1" {
			t.Skip("no recording; install the Debian packages pocketsphinx, pocketsphinx-en-us and pocketsphinx-testdata")
		}
		require.NoError(t, err)
		env, selector := recording(t, raw, 16_000)
		assert.Equal(t, result{stdout: "go forward ten meters\n"}, finish(t, listening(t, env, "pocketsphinx", selector), nil))
	})
	t.Run("R-2.18 R-9.50 it listens until the interrupt, which prints the last segment, status 0", func(t *testing.T) {
		// The device reads what the test writes. At this rate everything between the two and the cartridge's ring, which is the test's
		// pipe, arecord's, and an item, holds less than half a second: the silence at the end pushes the message through.
		const rate, pipeBytes = 96_000, 4096
		fifo := filepath.Join(t.TempDir(), "sound")
		require.NoError(t, syscall.Mkfifo(fifo, 0o600))
		sound, err := os.OpenFile(fifo, os.O_RDWR, 0) // also reading, so that it opens at once
		require.NoError(t, err)
		defer func() { assert.NoError(t, sound.Close()) }()
		require.NoError(t, sound.SetWriteDeadline(time.Now().Add(deadline)))
		resize(t, sound, pipeBytes)
		play := func(s tonegen.Signal) {
			for _, item := range items(samples16(t, s), rate) { // each fits the pipe: the plug-in takes a short read for a whole one
				_, err := sound.Write(item)
				require.NoError(t, err)
			}
		}
		l := begin(t, listening(t, device(t, fifo), "tones", fmt.Sprintf(`{"device":"recording","params":{"ring":10000,"sample_rate":%d}}`, rate)))
		play(message(t, "CQ", rate, 0, 2*time.Second))
		assert.Equal(t, "CQ\n", line(t, l.out))
		play(message(t, "73", rate, 0, 600*time.Millisecond))
		l.signal(t, os.Interrupt)
		assert.Equal(t, result{stdout: "73\n"}, l.end(t))
	})
	t.Run("R-9.3 R-9.6 a device that is not there, status 1", func(t *testing.T) {
		got := finish(t, listening(t, device(t, "/dev/null"), "tones", `{"device":"nosuch"}`), nil)
		assert.Equal(t, 1, got.status)
		assert.Empty(t, got.stdout)
		wantLine(t, got.stderr, "FEED_UNAVAILABLE: live feed media:audio;live;microphone")
	})
	t.Run("R-9.12 a bad selector, status 1", func(t *testing.T) {
		got := finish(t, listening(t, device(t, "/dev/null"), "tones", `{"devise":"recording"}`), nil)
		assert.Equal(t, 1, got.status)
		wantLine(t, got.stderr, "FEED_SELECTOR: live-feed selector: ")
	})
}
