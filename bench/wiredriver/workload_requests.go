//go:build linux

package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/pipe-cartridge/pipe/bench/wiredriver/wire"
)

// runLatency is the round trip of tiny requests, one at a time. The next one
// is sent from the goroutine that read the answer, so that no wake-up inside
// the driver is part of the figure.
func runLatency(s *session, p params, r result) error {
	p.Conc = 1
	return runRPS(s, p, r)
}

// runRPS keeps p.Conc requests in flight until p.N have completed.
func runRPS(s *session, p params, r result) error {
	n := max(p.N, p.Conc)
	arg := pattern(8)
	var (
		mu     sync.Mutex
		issued int
		ended  int
		bad    int
		codes  = map[string]int{}
		lat    = make([]time.Duration, 0, n)
		begun  = make(map[*call]time.Time, p.Conc)
		all    = make(chan struct{})
		buf    []byte
	)
	var issue func() bool
	onDone := func(c *call) { // on the reader goroutine
		mu.Lock()
		now := time.Now()
		lat = append(lat, now.Sub(begun[c]))
		delete(begun, c)
		ended++
		if c.errCode != "" {
			codes[c.errCode]++
		} else if string(c.head) != "8" {
			bad++
		}
		if ended == n {
			close(all)
		} else {
			issue()
		}
		mu.Unlock()
	}
	issue = func() bool { // with mu held
		if issued == n {
			return false
		}
		issued++
		c := s.newCall(p.Caps["sink"], "in")
		c.onDone = onDone
		s.register(c)
		begun[c] = time.Now()
		buf = c.oneShot(buf[:0], arg)
		s.w.Queue(buf)
		return true
	}
	start := time.Now()
	for i := 0; i < p.Conc; i++ {
		mu.Lock()
		issue()
		mu.Unlock()
		if i%16 == 15 {
			s.w.Kick()
		}
	}
	s.w.Kick()
	var err error
	select {
	case <-all:
	case <-s.dead:
		err = fmt.Errorf("cartridge connection ended: %w", s.deadErr)
	case <-time.After(p.Timeout):
		err = fmt.Errorf("HANG")
	}
	d := time.Since(start)
	mu.Lock()
	defer mu.Unlock()
	if err != nil {
		return fmt.Errorf("%w: %d of %d requests ended, %d in flight", err, ended, n, issued-ended)
	}
	r["unit"], r["units"] = "request", ended
	rate(r, "req_per_s", float64(ended), d)
	addLatency(r, lat)
	if bad > 0 {
		r["wrong_answers"] = bad
	}
	if len(codes) > 0 {
		r["err_codes"] = codes
		return fmt.Errorf("%v of %d requests failed", codes, n)
	}
	return nil
}

// runOpen opens p.Conc requests and leaves their inputs open, reads the
// memory of the cartridge, then completes them.
func runOpen(s *session, p params, r result) error {
	r["unit"], r["units"] = "request", p.Conc
	base := procStatus(s.cmd.Process.Pid)
	r["rss_idle_kb"] = base["VmRSS"]
	payload := wire.CBORBytes(pattern(1024))
	sum := wire.Checksum(payload)
	calls := make([]*call, p.Conc)
	start := time.Now()
	var b []byte
	for i := range calls {
		c := s.newCall(p.Caps["sink"], "in")
		s.register(c)
		calls[i] = c
		b = c.appendReq(b[:0])
		b = c.appendStart(b, "media:", false)
		b = c.appendChunk(b, 0, payload, sum)
		if err := s.w.Write(b); err != nil {
			return err
		}
	}
	// The cartridge reads its input in order, so the reply says that
	// everything above has at least been read.
	if _, err := s.heartbeat(p.Timeout); err != nil {
		return err
	}
	rate(r, "open_req_per_s", float64(p.Conc), time.Since(start))
	time.Sleep(500 * time.Millisecond)
	st := procStatus(s.cmd.Process.Pid)
	r["rss_open_kb"], r["threads_open"] = st["VmRSS"], st["Threads"]
	r["kb_per_request"] = round(float64(st["VmRSS"]-base["VmRSS"])/float64(p.Conc), 2)
	start = time.Now()
	for _, c := range calls {
		if err := s.w.Write(c.appendFinish(b[:0], 1)); err != nil {
			return err
		}
	}
	codes := map[string]int{}
	deadline := time.Now().Add(p.Timeout)
	for i, c := range calls {
		if err := c.wait(time.Until(deadline)); err != nil {
			if c.errCode == "" {
				return fmt.Errorf("after %d: %w", i, err)
			}
			codes[c.errCode]++
		} else if string(c.head) != "1024" {
			codes["wrong answer"]++
		}
	}
	rate(r, "drain_req_per_s", float64(p.Conc), time.Since(start))
	if len(codes) > 0 {
		r["err_codes"] = codes
		return fmt.Errorf("%v", codes)
	}
	return nil
}
