//go:build linux

package main

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/pipe-cartridge/pipe/bench/wiredriver/wire"
)

const capIdentity = "cap:effect=none"

type limits struct {
	MaxFrame, MaxChunk, MaxReorder, Credit uint64
}

type sessionConfig struct {
	Path        string
	Version     uint64
	Policy      bool
	XID         bool
	Limits      limits
	PipeSize    int
	Stderr      string
	VerifyEvery uint64
	GrantBatch  uint64
	ReadBuffer  int
	Timeout     time.Duration
}

// session is one running cartridge and the connection to it.
type session struct {
	cfg      sessionConfig
	cmd      *exec.Cmd
	out      *os.File // read by r
	w        *wire.Writer
	r        *wire.Reader
	lim      limits // negotiated
	batch    uint64
	manifest []byte
	spawned  time.Time
	ready    time.Duration // spawn to connection live

	idSeq  uint64
	idBase [16]byte
	xidSeq atomic.Uint64
	hbSeq  atomic.Uint64

	mu    sync.Mutex // guards calls and hb
	calls map[wire.ID]*call
	hb    map[uint64]chan time.Time

	dead    chan struct{} // closed by the reader goroutine when it ends
	deadErr error         // set before dead is closed

	goroutines sync.WaitGroup // the reader and the watch; close waits for them
	stopWatch  chan struct{}  // closed by close
	hung       atomic.Bool    // the watch has killed the cartridge

	scratch []byte // owned by the reader goroutine

	strays     atomic.Uint64
	badSums    atomic.Uint64
	logFrames  atomic.Uint64
	framesIn   atomic.Uint64
	bytesIn    atomic.Uint64
	violations atomic.Uint64
}

// startSession spawns the cartridge and brings the connection up to where
// requests may be sent. The session has to be closed.
func startSession(cfg sessionConfig) (*session, error) {
	s := &session{cfg: cfg, calls: map[wire.ID]*call{}, hb: map[uint64]chan time.Time{}, dead: make(chan struct{}),
		stopWatch: make(chan struct{})}
	if _, err := rand.Read(s.idBase[:]); err != nil {
		return nil, err
	}
	if err := s.spawn(); err != nil {
		return nil, err
	}
	s.goroutines.Go(s.watch)
	if err := s.begin(); err != nil {
		err = s.cause(err)
		s.kill()
		s.close()
		return nil, err
	}
	s.ready = time.Since(s.spawned)
	return s, nil
}

func (s *session) spawn() error {
	childIn, parentOut, err := os.Pipe()
	if err != nil {
		return err
	}
	defer childIn.Close()
	parentIn, childOut, err := os.Pipe()
	if err != nil {
		parentOut.Close()
		return err
	}
	defer childOut.Close()
	if s.cfg.PipeSize > 0 {
		if err = errors.Join(setPipeSize(parentOut, s.cfg.PipeSize), setPipeSize(parentIn, s.cfg.PipeSize)); err != nil {
			err = fmt.Errorf("set pipe size: %w", err)
		}
	}
	s.cmd = exec.Command(s.cfg.Path)
	s.cmd.Stdin, s.cmd.Stdout = childIn, childOut
	switch s.cfg.Stderr {
	case "inherit":
		s.cmd.Stderr = os.Stderr
	case "pipe":
		s.cmd.Stderr = discard{}
	default:
		s.cmd.Stderr = nil // the null device
	}
	s.spawned = time.Now()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		parentOut.Close()
		parentIn.Close()
		return err
	}
	s.out = parentIn
	s.w = wire.NewWriter(parentOut)
	s.r = wire.NewReader(parentIn, s.cfg.ReadBuffer)
	return nil
}

// begin does what comes before the first request.
func (s *session) begin() error {
	if err := s.handshake(); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	s.r.BeforeRead = s.w.TryFlush
	s.goroutines.Go(s.readLoop)
	if err := s.verifyIdentity(); err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	if !s.cfg.Policy {
		return nil
	}
	meta, err := cbor.Marshal(map[string]any{"network": map[string]any{
		"name": "online", "third_party": true, "our_services": true, "telemetry": true}})
	if err != nil {
		return err
	}
	f := wire.Frame{Has: 1 << wire.KMeta, Version: s.cfg.Version, Type: wire.Policy, ID: wire.IntID(0), Meta: meta}
	return s.w.Write(f.Append(nil))
}

// watch kills a cartridge that neither takes nor gives a byte for longer than
// any wait may last. Its end ends every read, write and wait for credit.
func (s *session) watch() {
	const looks = 4
	tick := time.NewTicker(s.cfg.Timeout / looks)
	defer tick.Stop()
	var last uint64
	for idle := 0; ; {
		select {
		case <-s.stopWatch:
			return
		case <-tick.C:
		}
		if now := s.bytesIn.Load() + s.w.Bytes.Load(); now != last {
			last, idle = now, 0
		} else if idle++; idle > looks {
			s.hung.Store(true)
			s.kill()
			return
		}
	}
}

// cause is err, unless the cartridge was killed because it hung.
func (s *session) cause(err error) error {
	if err != nil && s.hung.Load() {
		return fmt.Errorf("HANG: nothing moved for %v: %w", s.cfg.Timeout, err)
	}
	return err
}

// kill ends the cartridge at once. One that has ended by itself is fine too.
func (s *session) kill() { _ = s.cmd.Process.Kill() }

// discard makes os/exec create a pipe and drain it, which a nil Stderr
// does not.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func setPipeSize(f *os.File, n int) error {
	const setPipeSize = 1031 // F_SETPIPE_SZ of Linux
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var errno syscall.Errno
	if err := raw.Control(func(fd uintptr) { _, _, errno = syscall.Syscall(syscall.SYS_FCNTL, fd, setPipeSize, uintptr(n)) }); err != nil {
		return err
	}
	if errno != 0 {
		return errno
	}
	return nil
}

func (s *session) handshake() error {
	l := s.cfg.Limits
	meta, err := cbor.Marshal(map[string]any{
		"version": s.cfg.Version, "max_frame": l.MaxFrame, "max_chunk": l.MaxChunk,
		"max_reorder_buffer": l.MaxReorder, "initial_credit": l.Credit, "handler_capacity": 0,
	})
	if err != nil {
		return err
	}
	f := wire.Frame{Has: 1 << wire.KMeta, Version: s.cfg.Version, Type: wire.Hello, ID: wire.IntID(0), Meta: meta}
	if err := s.w.Write(f.Append(nil)); err != nil {
		return err
	}
	var g wire.Frame
	if err := s.r.Next(&g); err != nil {
		return err
	}
	if g.Type != wire.Hello {
		return fmt.Errorf("first frame is %s", wire.TypeName(g.Type))
	}
	var m struct {
		Version    uint64 `cbor:"version"`
		MaxFrame   uint64 `cbor:"max_frame"`
		MaxChunk   uint64 `cbor:"max_chunk"`
		MaxReorder uint64 `cbor:"max_reorder_buffer"`
		Credit     uint64 `cbor:"initial_credit"`
		Manifest   []byte `cbor:"manifest"`
	}
	if err := cbor.Unmarshal(g.Meta, &m); err != nil {
		return fmt.Errorf("HELLO meta: %w", err)
	}
	if m.Version != s.cfg.Version {
		return fmt.Errorf("cartridge declares version %d, want %d", m.Version, s.cfg.Version)
	}
	if len(m.Manifest) == 0 {
		return errors.New("HELLO carries no manifest")
	}
	s.manifest = m.Manifest
	s.lim = limits{min(l.MaxFrame, m.MaxFrame), min(l.MaxChunk, m.MaxChunk), min(l.MaxReorder, m.MaxReorder), min(l.Credit, m.Credit)}
	if s.lim.Credit == 0 || s.lim.MaxChunk == 0 || s.lim.MaxFrame == 0 {
		return errors.New("a limit negotiated to zero")
	}
	s.batch = s.cfg.GrantBatch
	if s.batch == 0 {
		s.batch = s.lim.Credit / 2
	}
	s.batch = max(1, min(s.batch, s.lim.Credit))
	return nil
}

func (s *session) verifyIdentity() error {
	nonce, err := cbor.Marshal("bifaci")
	if err != nil {
		return err
	}
	c := s.newCall(capIdentity, "identity-verify")
	c.xid = wire.IntID(0)
	s.register(c)
	if err := s.w.Write(c.oneShot(nil, nonce)); err != nil {
		return err
	}
	if err := c.wait(s.cfg.Timeout); err != nil {
		return err
	}
	if !bytes.Equal(c.head, nonce) {
		return fmt.Errorf("echo is %x, want %x", c.head, nonce)
	}
	return nil
}

// close ends the cartridge by closing its input, waits for all goroutines of
// the session, and returns how the cartridge went.
func (s *session) close() (exit string, ru *syscall.Rusage) {
	const patience = 10 * time.Second
	var late atomic.Bool
	kill := time.AfterFunc(patience, func() { late.Store(true); s.kill() })
	inErr := s.w.Close()
	err := errors.Join(s.cmd.Wait(), inErr)
	kill.Stop()
	switch {
	case late.Load():
		exit = fmt.Sprintf("killed after %v", patience)
	case err != nil:
		exit = err.Error()
	default:
		exit = "ok"
	}
	close(s.stopWatch)
	s.out.Close() // ends a read that a grandchild would keep waiting
	s.goroutines.Wait()
	ru, _ = s.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return exit, ru
}

func (s *session) nextID() wire.ID {
	n := atomic.AddUint64(&s.idSeq, 1)
	id := wire.ID{UUID: s.idBase}
	binary.BigEndian.PutUint64(id.UUID[8:], binary.BigEndian.Uint64(s.idBase[8:])^n)
	id.UUID[6] = id.UUID[6]&0x0f | 0x40
	id.UUID[8] = id.UUID[8]&0x3f | 0x80
	return id
}

func (s *session) register(c *call) {
	s.mu.Lock()
	s.calls[c.id] = c
	s.mu.Unlock()
}

func (s *session) readLoop() {
	var f wire.Frame
	var err error
	for {
		if err = s.r.Next(&f); err != nil {
			break
		}
		s.framesIn.Store(s.r.Frames)
		s.bytesIn.Store(s.r.Bytes)
		if f.Version != s.cfg.Version {
			err = fmt.Errorf("frame of version %d", f.Version)
			break
		}
		s.handle(&f)
	}
	s.deadErr = err
	close(s.dead)
	s.mu.Lock()
	for _, c := range s.calls {
		c.closeCredit()
	}
	s.mu.Unlock()
}

func (s *session) handle(f *wire.Frame) {
	if f.Type == wire.Heartbeat {
		now := time.Now()
		s.mu.Lock()
		ch, ok := s.hb[f.ID.Num]
		delete(s.hb, f.ID.Num)
		s.mu.Unlock()
		if ok && f.ID.Int {
			ch <- now
		} else {
			// The cartridge's own probe: answer it.
			g := wire.Frame{Version: s.cfg.Version, Type: wire.Heartbeat, ID: f.ID}
			s.w.Queue(g.Append(nil))
		}
		return
	}
	s.mu.Lock()
	c := s.calls[f.ID]
	s.mu.Unlock()
	if c == nil {
		s.strays.Add(1)
		return
	}
	switch f.Type {
	case wire.Credit:
		var m struct {
			Dir string `cbor:"credit_dir"`
		}
		if bytes.Contains(f.Meta, []byte("request")) {
			c.grant(f.Credit)
		} else if cbor.Unmarshal(f.Meta, &m) != nil || m.Dir != "request" {
			s.violations.Add(1)
		}
	case wire.StreamStart:
		c.seqMode = f.IsSequence
	case wire.Chunk:
		s.onChunk(c, f)
	case wire.StreamEnd:
		c.announced, c.hasCount = f.ChunkCount, f.HasKey(wire.KChunkCount)
		if c.hasCount && c.announced != c.chunks {
			s.violations.Add(1)
		}
	case wire.Log:
		s.logFrames.Add(1)
	case wire.End, wire.Err:
		if f.Type == wire.Err {
			var m struct {
				Code    string `cbor:"code"`
				Message string `cbor:"message"`
			}
			if err := cbor.Unmarshal(f.Meta, &m); err != nil {
				m.Message = "its meta does not decode: " + err.Error()
			}
			c.errCode, c.errMsg = m.Code, m.Message
			if c.errCode == "" {
				c.errCode = "(no code)"
			}
		}
		s.mu.Lock()
		delete(s.calls, f.ID)
		s.mu.Unlock()
		c.closeCredit()
		if c.onDone != nil {
			c.onDone(c)
		}
		close(c.done)
	default:
		s.strays.Add(1)
	}
}

// heartbeat sends one probe and returns its round trip.
func (s *session) heartbeat(timeout time.Duration) (time.Duration, error) {
	n := s.hbSeq.Add(1)
	ch := make(chan time.Time, 1)
	s.mu.Lock()
	s.hb[n] = ch
	s.mu.Unlock()
	f := wire.Frame{Version: s.cfg.Version, Type: wire.Heartbeat, ID: wire.IntID(n)}
	start := time.Now()
	if err := s.w.Write(f.Append(nil)); err != nil {
		return 0, err
	}
	select {
	case t := <-ch:
		return t.Sub(start), nil
	case <-s.dead:
		return 0, fmt.Errorf("cartridge connection ended: %w", s.deadErr)
	case <-time.After(timeout):
		return 0, fmt.Errorf("HANG: no heartbeat reply within %v", timeout)
	}
}
