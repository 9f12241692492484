package stdio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// standing is what a refused Claim must leave as it was.
type standing struct {
	inodes   [3]uint64
	nonblock [3]bool
	open     int
}

func standingNow() (s standing, err error) {
	for fd := range 3 {
		var stat syscall.Stat_t
		if err := syscall.Fstat(fd, &stat); err != nil {
			return s, err
		}
		s.inodes[fd], s.nonblock[fd] = stat.Ino, isNonblock(fd)
	}
	entries, err := os.ReadDir("/proc/self/fd")
	s.open = len(entries)
	return s, err
}

// playScarce claims with one more descriptor allowed each time, until it works, and prints how often it did not.
func playScarce() int {
	r, w, err := os.Pipe() // makes the runtime open its poller, which it could not do without later
	if err != nil {
		return fail("pipe", err)
	}
	_, _ = r.Close(), w.Close()
	before, err := standingNow()
	if err != nil {
		return fail("look", err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fail("limit", err)
	}
	refused := 0
	for allowed := uint64(3); ; allowed++ {
		scarce := syscall.Rlimit{Cur: allowed, Max: limit.Max}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &scarce); err != nil {
			return fail("lower the limit", err)
		}
		link, err := Claim()
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			return fail("raise the limit", err)
		}
		if err == nil {
			if _, err := fmt.Fprintf(link.Out, "refused %d times", refused); err != nil {
				return fail("write", err)
			}
			if _, err := io.Copy(link.Out, link.In); err != nil {
				return fail("echo", err)
			}
			return 0
		}
		if !errors.Is(err, syscall.EMFILE) {
			return fail("claim", err)
		}
		refused++
		after, err := standingNow()
		if err != nil {
			return fail("look", err)
		}
		if after != before {
			return fail("compare", fmt.Errorf("%d descriptors allowed: %+v, was %+v", allowed, after, before))
		}
	}
}

func TestClaimScarce(t *testing.T) {
	t.Run("R-2.20 a refused claim leaves everything as it was", func(t *testing.T) {
		var out, errs bytes.Buffer
		cmd := self(t, "scarce")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(", frames"), &out, &errs
		require.NoError(t, cmd.Run(), "%s", &errs)
		var refused int
		_, err := fmt.Sscanf(out.String(), "refused %d times, frames", &refused)
		require.NoError(t, err, "%q", &out)
		assert.GreaterOrEqual(t, refused, 5, "duplicates, the null device, and both private files")
	})
}
