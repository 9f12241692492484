package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/pipe-cartridge/pipe/bifaci/host"
	"github.com/pipe-cartridge/pipe/test/probecartridge/probe"
)

const (
	capSink = `cap:in="media:";out="media:enc=utf-8";sink`
	capEcho = `cap:in="media:";out="media:";echo`
)

// links are the ways to a whole cartridge; what each costs more than the one before it is the pipe's, and then the process's.
var links = []struct {
	name string
	open func(*testing.B) *host.Conn
}{
	{"io.Pipe", func(b *testing.B) *host.Conn {
		in, toCartridge := io.Pipe()
		fromCartridge, out := io.Pipe()
		return serve(b, in, toCartridge, fromCartridge, out)
	}},
	{"OS pipe", func(b *testing.B) *host.Conn {
		in, toCartridge := osPipe(b)
		fromCartridge, out := osPipe(b)
		return serve(b, in, toCartridge, fromCartridge, out)
	}},
	{"child process", startChild},
}

func BenchmarkCartridge(b *testing.B) {
	for _, link := range links {
		b.Run("link="+link.name, func(b *testing.B) {
			conn := link.open(b)
			b.Run("unary", func(b *testing.B) { benchmarkCall(b, conn, capSink, make([]byte, 8), []byte("8")) })
			b.Run("upload=1MiB", func(b *testing.B) { benchmarkCall(b, conn, capSink, make([]byte, 1<<20), []byte("1048576")) })
			large := make([]byte, 1<<20)
			b.Run("echo=1MiB", func(b *testing.B) { benchmarkCall(b, conn, capEcho, large, large) })
		})
	}
}

// benchmarkCall is one request and its answer, the host's work included.
func benchmarkCall(b *testing.B, conn *host.Conn, capURN string, value, want []byte) {
	b.ReportAllocs()
	if len(value) > 1<<10 { // a rate in MB/s says nothing of a few bytes
		b.SetBytes(int64(len(value)))
	}
	for b.Loop() {
		got, err := conn.CallBytes(b.Context(), capURN, host.Argument{MediaURN: "media:", Value: value})
		if err != nil {
			b.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			b.Fatalf("got %d bytes, want %d", len(got), len(want))
		}
	}
}

// serve runs the probe cartridge in this process until the benchmark ends.
func serve(b *testing.B, in io.ReadCloser, toCartridge io.WriteCloser, fromCartridge io.ReadCloser, out io.WriteCloser) *host.Conn {
	served := make(chan error, 1)
	go func() { // the clean-up waits for it
		err := probe.New().Serve(context.Background(), in, out)
		served <- errors.Join(err, out.Close())
	}()
	conn, err := host.Connect(b.Context(), fromCartridge, toCartridge)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		err := toCartridge.Close()
		err = errors.Join(err, <-served)
		<-conn.Done()
		conn.Close()
		for _, end := range []io.Closer{in, fromCartridge} { // the reading ends; a link may have closed its own
			if e := end.Close(); !errors.Is(e, os.ErrClosed) {
				err = errors.Join(err, e)
			}
		}
		if err != nil {
			b.Error(err)
		}
	})
	return conn
}

func osPipe(b *testing.B) (*os.File, *os.File) {
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	return r, w
}

func startChild(b *testing.B) *host.Conn {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	p, err := host.Start(b.Context(), self, host.WithEnv(childEnv+"=1"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := p.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return p.Conn
}
