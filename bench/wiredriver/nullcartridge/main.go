//go:build linux

// Nullcartridge is a cartridge that does as little as the protocol permits.
// Driving it gives the ceiling of the driver, the pipes and the machine: a
// figure no real cartridge will pass.
//
// It keeps no goroutine per request, runs handlers inline on the reader, and
// by default trusts checksums. Set NULL_VERIFY=1 to verify the checksum of
// every chunk received and to compute one for every chunk sent, as a real
// cartridge must; an echo then pays for both. NULL_VERIFY=4 does the same for
// sink and source, four chunks at a time. NULL_PIPE=bytes enlarges the pipes
// from the cartridge's side.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/fxamacker/cbor/v2"

	"github.com/pipe-cartridge/pipe/bench/wiredriver/wire"
)

var (
	version     uint64
	maxChunk    uint64
	window      uint64
	verify      = os.Getenv("NULL_VERIFY") == "1"
	verify4     = os.Getenv("NULL_VERIFY") == "4"
	metaRequest []byte
	metaDone    []byte
)

func mustMarshal(v any) []byte {
	b, err := cbor.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func main() {
	if n, err := strconv.Atoi(os.Getenv("NULL_PIPE")); err == nil {
		for fd := uintptr(0); fd < 2; fd++ {
			syscall.Syscall(syscall.SYS_FCNTL, fd, 1031 /* F_SETPIPE_SZ */, uintptr(n))
		}
	}
	metaRequest = mustMarshal(map[string]string{"credit_dir": "request"})
	metaDone = mustMarshal(map[string]any{"exit_code": 0, "progress": 1.0})
	s := &server{out: os.Stdout, reqs: map[wire.ID]*request{}}
	r := wire.NewReader(os.Stdin, 1<<20)
	if err := s.hello(r); err != nil {
		fmt.Fprintln(os.Stderr, "nullcartridge:", err)
		os.Exit(1)
	}
	r.BeforeRead = s.flush
	var f wire.Frame
	for {
		if err := r.Next(&f); err != nil {
			break
		}
		s.handle(&f)
	}
	s.flush()
	for _, q := range s.reqs {
		q.close()
	}
	s.live.Wait()
}

func (s *server) hello(r *wire.Reader) error {
	var f wire.Frame
	if err := r.Next(&f); err != nil {
		return err
	}
	var m struct {
		Version uint64 `cbor:"version"`
		Chunk   uint64 `cbor:"max_chunk"`
		Credit  uint64 `cbor:"initial_credit"`
	}
	if err := cbor.Unmarshal(f.Meta, &m); err != nil {
		return err
	}
	version, maxChunk, window = m.Version, min(m.Chunk, 262144), min(m.Credit, 32)
	var caps []map[string]any
	for _, u := range []string{"cap:effect=none", `cap:in="media:";out="media:enc=utf-8";sink`,
		`cap:in="media:enc=utf-8";out="media:";source`, `cap:in="media:";out="media:";echo`,
		`cap:in="media:enc=utf-8";out="media:";items`, `cap:in="media:enc=utf-8";out="media:enc=utf-8";tokens`,
		`cap:in="media:enc=utf-8";out="media:enc=utf-8";spin`} {
		caps = append(caps, map[string]any{"urn": u, "title": u, "aliases": []string{u}, "args": []any{}})
	}
	manifest, err := json.Marshal(map[string]any{"name": "nullcartridge", "version": "1.0.0", "channel": "release",
		"registry_url": nil, "description": "measures the driver", "cap_groups": []any{map[string]any{"name": "default", "caps": caps}}})
	if err != nil {
		return err
	}
	meta := mustMarshal(map[string]any{"version": version, "max_frame": 3670016, "max_chunk": 262144,
		"max_reorder_buffer": 64, "initial_credit": 32, "manifest": manifest, "pools": []byte(`{"all":{"declared":0,"configured":0,"active":0,"queued":0}}`)})
	g := wire.Frame{Has: 1 << wire.KMeta, Version: version, Type: wire.Hello, ID: wire.IntID(0), Meta: meta}
	s.write(g.Append(nil))
	return nil
}
