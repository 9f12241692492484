//go:build unix

package feed

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const microphoneURN = "media:audio;live;microphone"

// lastResort ends a test whose child does not do its part.
const lastResort = time.Minute

// pretend puts a program named arecord that plays the role alone into PATH, and returns the folder it shares with the test.
func pretend(t *testing.T, role string) (place string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	place, err = os.MkdirTemp("", "feed") // the name of a socket must be short
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(place)) })
	bin := filepath.Join(place, "bin")
	require.NoError(t, os.Mkdir(bin, 0o700))
	require.NoError(t, os.Symlink(self, filepath.Join(bin, arecord)))
	t.Setenv("PATH", bin)
	t.Setenv(roleVariable, role)
	t.Setenv(placeVariable, place)
	t.Setenv("GORACE", "atexit_sleep_ms=0") // under the race detector a program takes a second to end
	return place
}

// watchChild waits for the connection of a child; gone then waits for its end.
func watchChild(t *testing.T, place string) (connected func() net.Conn, gone func()) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(place, "alive"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	var conn net.Conn
	connected = func() net.Conn {
		require.NoError(t, l.(*net.UnixListener).SetDeadline(time.Now().Add(lastResort)))
		conn, err = l.Accept()
		require.NoError(t, err)
		return conn
	}
	gone = func() {
		defer func() { _ = conn.Close() }()
		require.NoError(t, conn.SetDeadline(time.Now().Add(lastResort)))
		_, err := conn.Read(make([]byte, 1))
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the child still lives")
		require.Error(t, err)
	}
	return connected, gone
}

func openMicrophone(t *testing.T, s Selector) (*Feed, error) {
	t.Helper()
	if s.Params == nil {
		s.Params = params(t, `{"sample_rate":16000}`) // 320 samples in 20 ms
	}
	ctx, cancel := context.WithTimeout(t.Context(), lastResort)
	t.Cleanup(cancel)
	f, err := Open(ctx, microphoneURN, s)
	if err == nil {
		t.Cleanup(func() {
			f.Cancel(nil)
			<-f.Done()
		})
	}
	return f, err
}

// counting checks that the data of items that are next to each other counts up.
func counting(t *testing.T, items []Item) {
	t.Helper()
	for _, it := range items {
		first := binary.LittleEndian.Uint16(it.Data)
		for i := 0; i < len(it.Data); i += 2 {
			require.Equal(t, first+uint16(i/2), binary.LittleEndian.Uint16(it.Data[i:]))
		}
	}
}

func TestMicrophone(t *testing.T) {
	t.Run("R-9.50 items and metas", func(t *testing.T) {
		place := pretend(t, "record")
		before := time.Now()
		f, err := openMicrophone(t, Selector{Stop: Stop{MaxItems: count(5)}})
		require.NoError(t, err)
		assert.Equal(t, frame.Meta{"feed": "microphone", "sample_rate": int64(16_000), "channels": int64(1), "sample_format": "s16le"}, f.Meta())
		items, end := readAll(t.Context(), f)
		assert.Equal(t, io.EOF, end)
		require.Equal(t, span(0, 5), seqs(items))
		counting(t, items)
		for i, it := range items {
			require.Len(t, it.Data, 640)
			assert.Equal(t, uint16(i*320), binary.LittleEndian.Uint16(it.Data))
			assert.Equal(t, int64(i)*20_000, it.Meta["pts_us"])
			captured := time.UnixMicro(it.Meta["capture_ts_us"].(int64))
			assert.WithinRange(t, captured, before.Add(-20*time.Millisecond), time.Now())
		}
		<-f.Done()
		args, err := os.ReadFile(filepath.Join(place, "arguments"))
		require.NoError(t, err)
		assert.Equal(t, "-t raw -f S16_LE -r 16000 -c 1 -F 20000", strings.ReplaceAll(string(args), "\n", " "))
		language, err := os.ReadFile(filepath.Join(place, "language"))
		require.NoError(t, err)
		assert.Equal(t, "C", string(language))
	})
	t.Run("R-9.50 R-9.52 defaults, device", func(t *testing.T) {
		place := pretend(t, "record")
		f, err := openMicrophone(t, Selector{Device: "hw:CARD=Device,DEV=0", Params: params(t, `{"channels":2,"ring":2}`)})
		require.NoError(t, err)
		it, err := f.Next(t.Context())
		require.NoError(t, err)
		assert.Len(t, it.Data, 48_000/50*2*2)
		assert.Equal(t, frame.Meta{"feed": "microphone", "sample_rate": int64(48_000), "channels": int64(2), "sample_format": "s16le"}, f.Meta())
		args, err := os.ReadFile(filepath.Join(place, "arguments"))
		require.NoError(t, err)
		assert.Contains(t, string(args), "\n--device=hw:CARD=Device,DEV=0")
		assert.Contains(t, string(args), "-r\n48000\n-c\n2\n")
	})
	t.Run("R-9.50 the pipe cuts as it likes", func(t *testing.T) {
		pretend(t, "odd pieces")
		f, err := openMicrophone(t, Selector{Stop: Stop{MaxItems: count(5)}})
		require.NoError(t, err)
		items, end := readAll(t.Context(), f)
		assert.Equal(t, io.EOF, end)
		require.Len(t, items, 5)
		counting(t, items)
		assert.Equal(t, uint16(4*320), binary.LittleEndian.Uint16(items[4].Data))
	})
	for name, s := range map[string]Selector{
		"unknown param":        {Params: params(t, `{"rate":16000}`)},
		"no channel":           {Params: params(t, `{"channels":0}`)},
		"too many channels":    {Params: params(t, `{"channels":257}`)},
		"no rate":              {Params: params(t, `{"sample_rate":0}`)},
		"a rate read as kHz":   {Params: params(t, `{"sample_rate":48}`)},
		"a fraction":           {Params: params(t, `{"sample_rate":44100.0}`)},
		"a device that writes": {Device: "file:out.raw,raw"},
		"a device that copies": {Device: "tee:default,out.raw,raw"},
		"a device with a slave definition": {
			Device: `plug:{SLAVE="file:|command,raw"}`},
		"a device with a path":   {Device: "file:/etc/x"},
		"a device like a switch": {Device: "-L"},
		"a device of two lines":  {Device: "hw:0\nx"},
	} {
		t.Run("R-9.50 R-9.52 "+name, func(t *testing.T) {
			pretend(t, "record")
			_, err := openMicrophone(t, s)
			wantFailure(t, err, failure.FeedSelector, failure.Input, "selector", microphoneURN)
		})
	}
	t.Run("R-9.3 no arecord", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		_, err := openMicrophone(t, Selector{})
		wantFailure(t, err, failure.FeedUnavailable, failure.Environment, microphoneURN, "arecord", "alsa-utils")
	})
	t.Run("R-9.52 no such device is an error of opening", func(t *testing.T) {
		pretend(t, "refuse")
		_, err := openMicrophone(t, Selector{Device: "nosuch"})
		wantFailure(t, err, failure.FeedUnavailable, failure.Environment, microphoneURN, "exit status 1", "audio open error")
	})
	t.Run("R-9.52 an opening that takes for ever ends with the context", func(t *testing.T) {
		place := pretend(t, "silent")
		connected, gone := watchChild(t, place)
		cause := errors.New("the caller left")
		ctx, cancel := context.WithCancelCause(t.Context())
		opened := make(chan error, 1)
		go func() {
			_, err := Open(ctx, microphoneURN, Selector{})
			opened <- err
		}()
		connected()
		cancel(cause)
		assert.Equal(t, cause, <-opened)
		gone()
	})
	t.Run("R-9.41 a device that goes away", func(t *testing.T) {
		pretend(t, "unplugged")
		f, err := openMicrophone(t, Selector{})
		require.NoError(t, err)
		items, end := readAll(t.Context(), f)
		assert.Len(t, items, 1, "half an item is none")
		wantFailure(t, end, failure.FeedFailed, failure.Environment, "exit status 1", "No such device")
		<-f.Done()
	})
	t.Run("R-9.41 recording does not end by itself", func(t *testing.T) {
		pretend(t, "finished")
		f, err := openMicrophone(t, Selector{})
		require.NoError(t, err)
		items, end := readAll(t.Context(), f)
		assert.Len(t, items, 2)
		wantFailure(t, end, failure.FeedFailed, failure.Environment, "exit status 0", "nothing")
	})
	t.Run("R-9.41 R-9.43 a program that closes its output and goes on", func(t *testing.T) {
		connected, gone := watchChild(t, pretend(t, "output closed"))
		f, err := openMicrophone(t, Selector{})
		require.NoError(t, err)
		connected()
		_, end := readAll(t.Context(), f)
		wantFailure(t, end, failure.FeedFailed, failure.Environment, "killed")
		<-f.Done()
		gone()
	})
	t.Run("R-9.32 R-9.34 what the device lost is a gap", func(t *testing.T) {
		pretend(t, "overrun")
		f, err := openMicrophone(t, Selector{})
		require.NoError(t, err)
		// Where it shows depends on how much audio was in the pipe when the program said it, and is the first item at most.
		seq, pts, found := int64(-1), int64(-20_000), false
		for it, err := range f.Items(t.Context()) {
			require.NoError(t, err)
			dropped, duration := gapOf(it)
			found = dropped > 0
			if found {
				assert.Equal(t, int64(3), dropped, "61.25 ms are three items of 20")
				assert.Equal(t, seq+4, it.Meta["seq"])
				assert.Equal(t, pts+80_000, it.Meta["pts_us"])
				assert.Equal(t, pts+80_000-max(pts, 0), duration)
				assert.Equal(t, uint64(3), f.Overruns())
				break
			}
			seq, pts = it.Meta["seq"].(int64), it.Meta["pts_us"].(int64)
		}
		assert.True(t, found)
	})
	t.Run("R-9.50 a device at another rate is not passed off as the one that was asked for", func(t *testing.T) {
		pretend(t, "another rate")
		f, err := openMicrophone(t, Selector{})
		want := failure.FeedUnavailable
		if err == nil { // the warning came with the first audio, and late
			_, err = readAll(t.Context(), f)
			want = failure.FeedFailed
		}
		wantFailure(t, err, want, failure.Environment, "44100", "16000")
	})
	t.Run("R-9.43 what a dead program left behind is ended too", func(t *testing.T) {
		connected, gone := watchChild(t, pretend(t, "abandoned"))
		f, err := openMicrophone(t, Selector{})
		require.NoError(t, err)
		_, end := readAll(t.Context(), f)
		wantFailure(t, end, failure.FeedFailed, failure.Environment, "exit status 3")
		<-f.Done()
		connected()
		gone()
	})
	t.Run("R-9.43 nothing waits for a process that has left the program's group", func(t *testing.T) {
		connected, _ := watchChild(t, pretend(t, "escaped"))
		f, err := openMicrophone(t, Selector{})
		require.NoError(t, err)
		conn := connected()
		f.Close()
		<-f.Done()
		assert.NoError(t, conn.Close()) // ends it
	})
	for name, end := range map[string]func(f *Feed, cancel context.CancelFunc){
		"close":   func(f *Feed, _ context.CancelFunc) { f.Close() },
		"cancel":  func(f *Feed, _ context.CancelFunc) { f.Cancel(nil) },
		"context": func(_ *Feed, cancel context.CancelFunc) { cancel() },
	} {
		for _, role := range []string{"record", "muted", "wrapper"} {
			t.Run("R-9.43 "+name+" ends the program, "+role, func(t *testing.T) {
				connected, gone := watchChild(t, pretend(t, role))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f, err := Open(ctx, microphoneURN, Selector{})
				require.NoError(t, err)
				connected()
				end(f, cancel)
				<-f.Done()
				gone()
			})
		}
	}
}

// TestMicrophoneALSA lets the real arecord record from a file, which a configuration makes look like a device.
func TestMicrophoneALSA(t *testing.T) {
	requireALSA(t)
	dir := t.TempDir()
	var recording []byte
	for i := range 30 * 320 {
		recording = binary.LittleEndian.AppendUint16(recording, uint16(i*7))
	}
	raw := filepath.Join(dir, "recording.raw")
	require.NoError(t, os.WriteFile(raw, recording, 0o600))
	config := filepath.Join(dir, "asound.conf")
	require.NoError(t, os.WriteFile(config, []byte(`pcm.recording { type file slave.pcm { type null } file "/dev/null" infile "`+raw+`" format "raw" }`), 0o600))
	t.Setenv("ALSA_CONFIG_PATH", config)

	t.Run("R-9.50 R-9.40 the recording comes as it is", func(t *testing.T) {
		// The null device has no clock: it gives as fast as it is read. So the ring holds all of it.
		f, err := openMicrophone(t, Selector{Device: "recording", Stop: Stop{MaxItems: count(30)},
			OnOverrun: Fail, Params: params(t, `{"sample_rate":16000,"ring":30}`)})
		require.NoError(t, err)
		items, end := readAll(t.Context(), f)
		assert.Equal(t, io.EOF, end)
		var heard []byte
		for i, it := range items {
			assert.Equal(t, int64(i)*20_000, it.Meta["pts_us"])
			heard = append(heard, it.Data...)
		}
		assert.Equal(t, recording, heard)
		<-f.Done()
	})
	t.Run("R-9.52 a device that is not there", func(t *testing.T) {
		_, err := openMicrophone(t, Selector{Device: "nosuch"})
		wantFailure(t, err, failure.FeedUnavailable, failure.Environment, microphoneURN, "nosuch", "audio open error", "exit status 1")
	})
	t.Run("R-9.42 R-9.43 a flood is closed", func(t *testing.T) {
		f, err := openMicrophone(t, Selector{Device: "recording", Params: params(t, `{"sample_rate":16000,"ring":3}`)})
		require.NoError(t, err)
		for range 100 {
			_, err := f.Next(t.Context())
			require.NoError(t, err)
		}
		f.Close()
		items, end := readAll(t.Context(), f)
		assert.Equal(t, io.EOF, end)
		assert.LessOrEqual(t, len(items), handOver+3)
		<-f.Done()
	})
}
