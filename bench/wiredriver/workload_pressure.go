//go:build linux

package main

import (
	"fmt"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/pipe-cartridge/pipe/bench/wiredriver/wire"
)

// runStall uploads to echo, never grants response credit, and reports how
// much the cartridge lets itself be sent before it stops granting. With
// backpressure from end to end that is a few windows, whatever the size.
func runStall(s *session, p params, r result) error {
	c := s.newCall(p.Caps["echo"], "in")
	c.noGrant = true
	s.register(c)
	slab := wire.NewSlab(wire.CBORBytes(pattern(p.Chunk)))
	if err := s.w.Write(c.appendStart(c.appendReq(nil), "media:", false)); err != nil {
		return err
	}
	var n uint64
	for int64(n)*int64(p.Chunk) < p.Size && c.acquireFor(2*time.Second) {
		f := c.chunkFrame(n)
		if err := s.w.Write(slab.Build(&f)); err != nil {
			return err
		}
		n++
	}
	d, err := s.heartbeat(p.Timeout)
	if err != nil {
		return err
	}
	time.Sleep(200 * time.Millisecond)
	r["heartbeat_us"] = us(d)
	r["accepted_chunks"], r["accepted_mb"] = n, round(float64(n)*float64(p.Chunk)/1e6, 3)
	r["peak_rss_kb"] = procStatus(s.cmd.Process.Pid)["VmHWM"]
	select {
	case <-c.done:
		return fmt.Errorf("the request ended: %s %s", c.errCode, c.errMsg)
	default:
		return nil
	}
}

// runHeartbeat probes p.N times under a load.
func runHeartbeat(s *session, p params, r result) error {
	r["load"] = p.HBLoad
	stop := make(chan struct{})
	var wg sync.WaitGroup
	loadErr := make(chan error, p.HBBusy+1)
	switch p.HBLoad {
	case "none":
	case "spin":
		// Long enough for every probe; the handlers stop by themselves.
		ms := int64(p.N)*p.Interval.Milliseconds() + 3000
		for i := 0; i < p.HBBusy; i++ {
			c := s.newCall(p.Caps["spin"], "arg")
			s.register(c)
			if err := s.w.Write(c.oneShot(nil, []byte(strconv.FormatInt(ms, 10)))); err != nil {
				return err
			}
			wg.Add(1)
			go func() { defer wg.Done(); loadErr <- c.wait(p.Timeout + time.Duration(ms)*time.Millisecond) }()
		}
		time.Sleep(300 * time.Millisecond)
	case "upload", "download", "echo":
		fn := map[string]func(*session, params, result) error{"upload": runUpload, "download": runDownload, "echo": runEcho}[p.HBLoad]
		wg.Add(1)
		go func() {
			defer wg.Done()
			q := p
			q.Size = 64 << 20
			for {
				select {
				case <-stop:
					loadErr <- nil
					return
				default:
				}
				if err := fn(s, q, result{}); err != nil {
					loadErr <- err
					return
				}
			}
		}()
		time.Sleep(100 * time.Millisecond)
	default:
		return fmt.Errorf("unknown heartbeat load %q", p.HBLoad)
	}
	lat := make([]time.Duration, 0, p.N)
	var err error
	for i := 0; i < p.N && err == nil; i++ {
		var d time.Duration
		if d, err = s.heartbeat(p.Timeout); err == nil {
			lat = append(lat, d)
			time.Sleep(max(0, p.Interval-d))
		}
	}
	close(stop)
	wg.Wait()
	close(loadErr)
	for e := range loadErr {
		if e != nil && err == nil {
			err = fmt.Errorf("load: %w", e)
		}
	}
	addLatency(r, lat)
	over := sort.Search(len(lat), func(i int) bool { return lat[i] > 10*time.Millisecond })
	r["probes"], r["over_10ms"] = len(lat), len(lat)-over
	return err
}
