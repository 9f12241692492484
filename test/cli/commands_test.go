package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestModes(t *testing.T) {
	t.Run("R-2.1 no argument is CBOR mode, which ends without HELLO", func(t *testing.T) {
		got := finish(t, command(t, programs.cartridge), strings.NewReader(""))
		assert.Equal(t, 1, got.status)
		assert.Empty(t, got.stdout)
		assert.NotEmpty(t, got.stderr)
	})
	t.Run("R-2.1 R-2.12 any argument is CLI mode, also an empty one", func(t *testing.T) {
		got := finish(t, command(t, programs.cartridge, ""), strings.NewReader(""))
		assert.Equal(t, 2, got.status)
		wantLine(t, got.stderr, "unknown subcommand")
	})
}

func TestCommandsThatSucceed(t *testing.T) {
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	t.Run("section 10.5 printf hi into identity", func(t *testing.T) {
		for _, program := range []string{programs.cartridge, programs.probe} {
			assert.Equal(t, result{stdout: "hi"}, finish(t, command(t, program, "identity"), strings.NewReader("hi")))
		}
	})
	t.Run("section 11 what goes in comes out, byte for byte", func(t *testing.T) {
		data := bytes.Repeat([]byte("\x00\xff\n\r frames? "), 100_000)
		for _, slug := range []string{"identity", "echo"} {
			got := finish(t, command(t, programs.probe, slug), bytes.NewReader(data))
			assert.True(t, got.stdout == string(data), "%d bytes of %d", len(got.stdout), len(data))
			assert.Zero(t, got.status)
		}
	})
	t.Run("section 10.4 an empty standard input, and the null device", func(t *testing.T) {
		assert.Equal(t, result{}, finish(t, command(t, programs.cartridge, "identity"), strings.NewReader("")))
		assert.Equal(t, result{}, finish(t, command(t, programs.cartridge, "identity"), null))
		assert.Equal(t, result{stdout: `{"lines":0,"words":0,"bytes":0}`}, finish(t, command(t, programs.cartridge, "words"), null))
		cmd := command(t, programs.cartridge, "upper")
		assert.Equal(t, result{}, finish(t, cmd, nil), "exec opens the null device")
	})
	t.Run("R-2.16 a stray print is no concern here", func(t *testing.T) {
		assert.Equal(t, result{stdout: "x\nx"}, finish(t, command(t, programs.probe, "print"), strings.NewReader("x")))
	})
	t.Run("R-2.11 help", func(t *testing.T) {
		for _, words := range [][]string{{"--help"}, {"-h"}} {
			got := finish(t, command(t, programs.cartridge, words...), nil)
			assert.Zero(t, got.status)
			assert.Empty(t, got.stderr)
			for _, word := range []string{"pipe-cartridge", "manifest", "identity", "transcribe", "listen", "words", "upper"} {
				assert.Contains(t, got.stdout, word)
			}
		}
		got := finish(t, command(t, programs.cartridge, "listen", "--help"), nil)
		assert.Zero(t, got.status)
		for _, word := range []string{"listen", "--sample-rate", "16000", "<stdin>", "(required)"} {
			assert.Contains(t, got.stdout, word)
		}
	})
	t.Run("R-2.10 bifaci manifest accepts what a cartridge prints", func(t *testing.T) {
		for _, program := range []string{programs.cartridge, programs.probe} {
			printed := finish(t, command(t, program, "manifest", "and", "--more"), nil)
			require.Zero(t, printed.status)
			require.Empty(t, printed.stderr)
			require.True(t, json.Valid([]byte(printed.stdout)))
			got := finish(t, command(t, programs.bifaci, "manifest", "-"), strings.NewReader(printed.stdout))
			assert.Zero(t, got.status, got.stdout+got.stderr)
			assert.Contains(t, got.stdout, ": ok: ")
		}
	})
}

func TestCommandsThatFail(t *testing.T) {
	for name, row := range map[string]struct {
		program string
		words   []string
		stdin   string
		status  int
		line    string
	}{
		"unknown subcommand":  {programs.cartridge, []string{"trancribe"}, "", 2, `unknown subcommand "trancribe"`},
		"--version":           {programs.cartridge, []string{"--version"}, "", 2, "unknown subcommand"},
		"missing argument":    {programs.probe, []string{"source", "--size"}, "", 2, "required argument media:enc=utf-8"},
		"failing handler":     {programs.probe, []string{"fail"}, "NO_SPACE|resource|disk\nfull", 1, "NO_SPACE: disk full\n"},
		"file not found":      {programs.cartridge, []string{"transcribe", "nowhere.wav"}, "", 1, "FILE_PATH: nowhere.wav: not found"},
		"a folder":            {programs.cartridge, []string{"transcribe", "."}, "", 1, "FILE_PATH: .: not a regular file"},
		"no match":            {programs.cartridge, []string{"transcribe", "nowhere*.wav"}, "", 1, "FILE_PATH: nowhere*.wav: no match"},
		"no audio":            {programs.cartridge, []string{"transcribe", "--engine=tones"}, "hello, this is text", 1, "BAD_AUDIO: "},
		"nothing":             {programs.cartridge, []string{"transcribe", "--engine=tones"}, "", 1, "BAD_AUDIO: "},
		"an unknown format":   {programs.cartridge, []string{"transcribe", "--format", "doc"}, "", 1, "UNKNOWN_FORMAT: "},
		"an unknown engine":   {programs.cartridge, []string{"listen", "--engine", "ears"}, "", 1, "BAD_ARGUMENT: "},
		"R-7.60 a peer call":  {programs.probe, []string{"peer"}, "cap:effect=none", 1, "HANDLER_ERROR: "},
		"a cartridge's usage": {programs.probe, []string{"items"}, "many", 1, `BAD_ARGUMENT: want a number of zero or more, got "many"`},
	} {
		t.Run("R-2.36 section 9.6 "+name, func(t *testing.T) {
			got := finish(t, command(t, row.program, row.words...), strings.NewReader(row.stdin))
			assert.Equal(t, row.status, got.status)
			assert.Empty(t, got.stdout)
			wantLine(t, got.stderr, row.line)
		})
	}
	t.Run("R-2.36 section 9.6 no handler", func(t *testing.T) {
		got := finish(t, role(t, "none"), strings.NewReader("x"))
		assert.Equal(t, 1, got.status)
		wantLine(t, got.stderr, "NO_HANDLER: ")
	})
	t.Run("R-6.90 section 9.6 a panic", func(t *testing.T) {
		got := finish(t, command(t, programs.probe, "panic"), strings.NewReader("x"))
		assert.Equal(t, 1, got.status)
		assert.True(t, strings.HasPrefix(got.stderr, "[error] panic: as asked\n"), got.stderr)
		assert.True(t, strings.HasSuffix(got.stderr, "\nHANDLER_ERROR: panic: as asked\n"), got.stderr)
	})
}

func TestFilesByName(t *testing.T) {
	dir := t.TempDir()
	for name, words := range map[string]string{"a.wav": "ALFA", "b.wav": "BRAVO", "sub/c.wav": "CHARLIE", "d.txt": "DELTA"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, wav(t, message(t, words, 8000, 200*time.Millisecond, 0)), 0o600))
	}
	for pattern, want := range map[string]string{
		"a.wav": "ALFA\n", "*.wav": "ALFA\nBRAVO\n", "**/*.wav": "ALFA\nBRAVO\nCHARLIE\n", "[b-z].*": "BRAVO\nDELTA\n",
	} {
		t.Run("R-2.15 "+pattern, func(t *testing.T) {
			cmd := command(t, programs.cartridge, "transcribe", "--engine", "tones", "--format=text", pattern)
			cmd.Dir = dir
			assert.Equal(t, result{stdout: want}, finish(t, cmd, strings.NewReader("RIFF that nobody reads")))
		})
	}
	t.Run("R-2.15 the first failure ends it, what was written stays", func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "aa.wav"), []byte("no audio at all"), 0o600))
		cmd := command(t, programs.cartridge, "transcribe", "--engine", "tones", "--format=text", "*.wav")
		cmd.Dir = dir
		got := finish(t, cmd, nil)
		assert.Equal(t, "ALFA\n", got.stdout)
		assert.Equal(t, 1, got.status)
		wantLine(t, got.stderr, "BAD_AUDIO: ")
	})
}
