package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/test/peer"
)

// hostScript is the frames of a host that cannot listen: HELLO, POLICY, and requests.
type hostScript struct{ bytes.Buffer }

func (s *hostScript) say(frames ...peer.Frame) {
	for _, f := range frames {
		s.Write(f.Encode())
	}
}

// ask is a complete request of one argument, or one whose body is cut.
func (s *hostScript) ask(id uint64, capURN, content string, cut bool) {
	seq := uint64(0)
	say := func(f peer.Frame) {
		s.say(f.With(peer.KeyID, id).With(peer.KeySeq, seq))
		seq++
	}
	say(peer.ReqFrame(capURN))
	say(peer.StartFrame("arg0", mediaText))
	say(peer.ChunkFrame("arg0", 0, peer.Value([]byte(content))))
	if cut {
		return
	}
	say(peer.StreamEndFrame("arg0", 1))
	say(peer.EndFrame())
}

// cartridge < frames > out
func TestF4_EndOfInputRightAfterTheLastRequest(t *testing.T) {
	needsProcess(t)
	for _, requests := range []uint64{1, 8, 64} {
		t.Run(fmt.Sprintf("R-2.30 R-2.37 %d requests from a file to a file", requests), func(t *testing.T) {
			var s hostScript
			s.say(peer.HelloFrame(peer.DefaultLimits()), peer.PolicyFrame("online", true))
			for id := range requests {
				s.ask(id, stunt("wait"), fmt.Sprint(id*200/max(1, requests-1)), false) // 0 to 200 ms
			}
			s.ask(requests, stunt("wait"), "0", true)
			in, out := filepath.Join(t.TempDir(), "frames"), filepath.Join(t.TempDir(), "out")
			require.NoError(t, os.WriteFile(in, s.Bytes(), 0o600))
			status, stderr := redirected(t, stuntPath(t), in, out)
			assert.Equal(t, 0, status, "standard error: %s", stderr)

			terminals := terminalsIn(t, s.Bytes(), out)
			assert.Len(t, terminals, int(requests)+1)
			for id := range requests {
				assert.Equal(t, peer.TypeEnd, terminals[id].Type(), "request %d: %s", id, terminals[id])
			}
			cut := terminals[requests]
			require.NotNil(t, cut, "the request whose body is cut")
			assert.Equal(t, "CONNECTION_CLOSED", cut.Code())
			assert.Equal(t, "environment", cut.Class())
		})
	}
}

// redirected runs a program with its input and its output in files.
func redirected(t *testing.T, path, in, out string) (status int, stderr string) {
	t.Helper()
	r, err := os.Open(in)
	require.NoError(t, err)
	w, err := os.Create(out)
	require.NoError(t, err)
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r, w, &said
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	require.NoError(t, errors.Join(r.Close(), w.Close()))
	return cmd.ProcessState.ExitCode(), said.String()
}

// terminalsIn reads what a cartridge wrote into a file, judges it, and gives the terminals by request.
func terminalsIn(t *testing.T, said []byte, out string) map[uint64]peer.Frame {
	t.Helper()
	answer, err := os.ReadFile(out)
	require.NoError(t, err)
	check := cartridgetest.NewCheck()
	_, err = check.Tap(cartridgetest.ToCartridge, nil).Write(said)
	require.NoError(t, err)
	_, err = check.Tap(cartridgetest.ToHost, nil).Write(answer)
	require.NoError(t, err)
	assert.Empty(t, check.Breaches())
	terminals := map[uint64]peer.Frame{}
	for r := bytes.NewReader(answer); ; {
		f, _, err := peer.ReadFrame(r)
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return terminals
		}
		require.NoError(t, err, "the output ends with a whole frame")
		if f.Type() == peer.TypeEnd || f.Type() == peer.TypeErr {
			terminals[f.Uint(peer.KeyID)] = f
		}
	}
}

func TestEndOfInputOnAPipe(t *testing.T) {
	needsProcess(t)
	p := live(t, stuntPath(t))
	p.Probe(`{"all":2}`)
	running := p.Request(stunt("wait"))
	running.Give(mediaText, []byte("200"))
	cut := p.Request(stunt("wait"))
	cut.Open("arg0", mediaText).Content([]byte("0"))
	p.AwaitPool("all", "two active", func(pool peer.Pool) bool { return pool.Active == 2 })
	waiting := p.Request(stunt("wait"))
	waiting.Give(mediaText, []byte("50"))
	waitingCut := p.Request(stunt("wait"))
	waitingCut.Open("arg0", mediaText)
	p.Finish()

	t.Run("R-2.30 a running request with a complete body is served", func(t *testing.T) {
		running.WantEnd()
		assert.Equal(t, "waited 200", string(running.Content()))
	})
	t.Run("R-2.30 a running request whose body is cut fails", func(*testing.T) { cut.WantErr("CONNECTION_CLOSED", "environment") })
	t.Run("R-2.30 a waiting request with a complete body is admitted and served", func(t *testing.T) {
		waiting.WantEnd()
		assert.Equal(t, "waited 50", string(waiting.Content()))
	})
	t.Run("R-2.30 a waiting request whose body is cut fails", func(*testing.T) {
		waitingCut.WantErr("CONNECTION_CLOSED", "environment")
	})
}

func TestEndOfInputClosesFeeds(t *testing.T) {
	needsProcess(t)
	t.Run("R-2.30 (e) R-9.42 a feed that goes on for hours ends with the input, and its answer is complete", func(t *testing.T) {
		const window = 4096 // more than the feed has captured by then: nothing is granted after the end
		p := live(t, probePath(t), peer.WithWindow(window))
		r := p.Request(capFeed)
		r.Give("media:live;synthetic", []byte(`{"params":{"items":1000000,"interval_ms":20}}`))
		r.AwaitChunks(3)
		p.Finish()
		r.WantEnd()
		seq := uint64(0)
		for _, f := range r.Frames() {
			if f.Type() == peer.TypeChunk {
				assert.Equal(t, seq, f.MetaUint("seq"))
				assert.Equal(t, peer.Value(bytes.Repeat([]byte{byte(seq)}, 32)), f.Payload())
				seq++
			}
		}
		assert.GreaterOrEqual(t, seq, uint64(3))
	})
}

func TestEndOfInputLetsUseTheCreditThatIsLeft(t *testing.T) {
	needsProcess(t)
	t.Run("R-2.30 an answer of a window gets out, one of more fails", func(t *testing.T) {
		const window, chunk = 4, 1024
		p := live(t, probePath(t), peer.WithManualCredit(), peer.WithWindow(window), peer.WithMaxChunk(chunk))
		fits, tooLong := p.Request(capSource), p.Request(capSource)
		fits.Give(mediaText, []byte(fmt.Sprint(window*chunk)))
		tooLong.Give(mediaText, []byte(fmt.Sprint(window*chunk+1)))
		p.Finish()
		fits.WantEnd()
		assert.Len(t, fits.Content(), window*chunk)
		tooLong.WantErr("CONNECTION_CLOSED", "environment")
		assert.Len(t, tooLong.Content(), window*chunk)
	})
}
