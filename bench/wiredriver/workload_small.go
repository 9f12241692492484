//go:build linux

package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/pipe-cartridge/pipe/bench/wiredriver/wire"
)

func runCounted(s *session, p params, r result, capName string, n int) (*call, time.Duration, error) {
	r["unit"], r["units"] = capName, n
	c := s.newCall(p.Caps[capName], "arg")
	s.register(c)
	start := time.Now()
	if err := s.w.Write(c.oneShot(nil, []byte(strconv.Itoa(n)))); err != nil {
		return c, 0, err
	}
	err := c.wait(p.Timeout)
	d := time.Since(start)
	r["chunks"] = c.chunks
	rate(r, "frames_per_s", float64(c.chunks), d)
	return c, d, err
}

func runItems(s *session, p params, r result) error {
	c, d, err := runCounted(s, p, r, "items", p.N)
	if err == nil && c.items != uint64(p.N) {
		err = fmt.Errorf("received %d items, want %d", c.items, p.N)
	}
	rate(r, "items_per_s", float64(c.items), d)
	return err
}

func runTokens(s *session, p params, r result) error {
	c, d, err := runCounted(s, p, r, "tokens", p.N)
	if err == nil && c.bytes != uint64(p.N)*16 {
		err = fmt.Errorf("received %d bytes, want %d", c.bytes, p.N*16)
	}
	rate(r, "tokens_per_s", float64(c.bytes)/16, d)
	return err
}

// sendSmall uploads n chunks of one small payload, as many per write as
// the credit allows.
func sendSmall(c *call, seqMode bool, payload []byte, n int) error {
	sum := wire.Checksum(payload)
	b := c.appendReq(nil)
	b = c.appendStart(b, "media:", seqMode)
	for i := 0; i < n; {
		k := int(c.acquireUpTo(uint64(min(n-i, 256))))
		if k == 0 {
			return nil
		}
		for ; k > 0; k-- {
			b = c.appendChunk(b, uint64(i), payload, sum)
			i++
		}
		if err := c.s.w.Write(b); err != nil {
			return err
		}
		b = b[:0]
	}
	return c.s.w.Write(c.appendFinish(b, uint64(n)))
}

func runSmallUp(s *session, p params, r result, seqMode bool) (time.Duration, error) {
	r["unit"], r["units"] = "frame", p.N
	c := s.newCall(p.Caps["sink"], "in")
	s.register(c)
	start := time.Now()
	if err := sendSmall(c, seqMode, wire.CBORBytes(pattern(p.Small)), p.N); err != nil {
		return 0, err
	}
	if err := c.wait(p.Timeout); err != nil {
		return 0, err
	}
	d := time.Since(start)
	if got, want := string(c.head), strconv.Itoa(p.N*p.Small); got != want {
		return d, fmt.Errorf("sink counted %q bytes, want %s", got, want)
	}
	return d, nil
}

func runFrames(s *session, p params, r result) error {
	d, err := runSmallUp(s, p, r, false)
	rate(r, "frames_per_s", float64(p.N), max(d, 1))
	return err
}

func runItemsUp(s *session, p params, r result) error {
	d, err := runSmallUp(s, p, r, true)
	rate(r, "items_per_s", float64(p.N), max(d, 1))
	return err
}
