//go:build linux

package main

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pipe-cartridge/pipe/bench/wiredriver/wire"
)

// upload sends size bytes as one scalar stream on c, in pieces of chunk bytes.
func upload(c *call, media string, size int64, chunk int) error {
	full := wire.NewSlab(wire.CBORBytes(pattern(chunk)))
	b := c.appendReq(nil)
	b = c.appendStart(b, media, false)
	if err := c.s.w.Write(b); err != nil {
		return err
	}
	var n uint64
	for left := size; left > 0; n++ {
		if !c.acquire() {
			return nil // ended early; the caller sees why
		}
		slab := full
		if left < int64(chunk) {
			slab = wire.NewSlab(wire.CBORBytes(pattern(int(left))))
		}
		f := c.chunkFrame(n)
		if err := c.s.w.Write(slab.Build(&f)); err != nil {
			return err
		}
		left -= int64(min(left, int64(chunk)))
	}
	return c.s.w.Write(c.appendFinish(nil, n))
}

func runUpload(s *session, p params, r result) error {
	r["unit"], r["units"] = "MB", float64(p.Size)/1e6
	start := time.Now()
	err := inParallel(split(p.Size, p.Parallel), func(n int64) error {
		c := s.newCall(p.Caps["sink"], "in")
		s.register(c)
		if err := upload(c, "media:", n, p.Chunk); err != nil {
			return err
		}
		if err := c.wait(p.Timeout); err != nil {
			return err
		}
		if got := string(c.head); got != strconv.FormatInt(n, 10) {
			return fmt.Errorf("sink counted %q bytes, sent %d", got, n)
		}
		return nil
	})
	rate(r, "mb_per_s", float64(p.Size)/1e6, time.Since(start))
	return err
}

func runDownload(s *session, p params, r result) error {
	r["unit"], r["units"] = "MB", float64(p.Size)/1e6
	start := time.Now()
	var chunks atomic.Uint64
	err := inParallel(split(p.Size, p.Parallel), func(n int64) error {
		c := s.newCall(p.Caps["source"], "arg")
		s.register(c)
		if err := s.w.Write(c.oneShot(nil, []byte(strconv.FormatInt(n, 10)))); err != nil {
			return err
		}
		if err := c.wait(p.Timeout); err != nil {
			return err
		}
		chunks.Add(c.chunks)
		if c.bytes != uint64(n) {
			return fmt.Errorf("received %d bytes, want %d", c.bytes, n)
		}
		return nil
	})
	r["chunks"] = chunks.Load()
	rate(r, "mb_per_s", float64(p.Size)/1e6, time.Since(start))
	return err
}

func runEcho(s *session, p params, r result) error {
	r["unit"], r["units"] = "MB", float64(p.Size)/1e6
	start := time.Now()
	err := inParallel(split(p.Size, p.Parallel), func(n int64) error {
		c := s.newCall(p.Caps["echo"], "in")
		s.register(c)
		if err := upload(c, "media:", n, p.Chunk); err != nil {
			return err
		}
		if err := c.wait(p.Timeout); err != nil {
			return err
		}
		if c.bytes != uint64(n) {
			return fmt.Errorf("received %d bytes back, sent %d", c.bytes, n)
		}
		return nil
	})
	rate(r, "mb_per_s", float64(p.Size)/1e6, time.Since(start)) // one direction; as much flows back
	return err
}
