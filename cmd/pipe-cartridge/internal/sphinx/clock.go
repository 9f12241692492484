package sphinx

import (
	"sort"
	"sync"
	"time"

	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
)

// samplePeriod is exact: 62.5 µs.
const samplePeriod = time.Second / engine.SampleRate

// clock maps the child's time, which counts the samples it was given, to the time of the audio, in which added silence
// takes no time and a gap takes its own. Safe for concurrent use by the feeder, which writes, and the relay, which
// reads.
type clock struct {
	mu     sync.Mutex
	points []point // guarded by mu; ordered by fed, never empty
	fed    int64   // guarded by mu: samples given to the child so far
}

// point says what holds from the sample fed on, until the next point: the audio's time is at and goes on with the
// samples, or, in added silence, stands still.
type point struct {
	fed   int64
	at    time.Duration
	still bool
}

func newClock() *clock { return &clock{points: []point{{}}} }

// advance counts n samples more, before they are given to the child.
func (c *clock) advance(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fed += int64(n)
}

// mark says that from here on the audio's time is at. A mark at the place of the one before takes its place.
func (c *clock) mark(at time.Duration, still bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := point{c.fed, at, still}
	if last := &c.points[len(c.points)-1]; last.fed == c.fed {
		*last = p
		return
	}
	c.points = append(c.points, p)
}

// span maps an utterance from start to end, in the child's samples. What reaches into added silence is drawn back to
// the audio's side: a start to what follows the silence, an end to what was before it.
func (c *clock) span(start, end int64) (from, to time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	start, end = min(start, c.fed), min(end, c.fed)
	i := c.index(start)
	if c.points[i].still && i+1 < len(c.points) {
		i++
		start = c.points[i].fed
	}
	from = c.points[i].time(start)
	to = c.points[c.index(end)].time(end)
	return from, max(from, to)
}

// forget drops what lies before the given sample of the child, so that a stream without end needs no memory.
func (c *clock) forget(before int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := copy(c.points, c.points[c.index(before):])
	c.points = c.points[:n]
}

// index finds the point that holds at sample. The caller has the lock.
func (c *clock) index(sample int64) int {
	return max(0, sort.Search(len(c.points), func(i int) bool { return c.points[i].fed > sample })-1)
}

func (p point) time(sample int64) time.Duration {
	if p.still {
		return p.at
	}
	return p.at + time.Duration(max(0, sample-p.fed))*samplePeriod
}
