package stdio

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// ends is an In and an Out on the two ends of one pipe.
func ends(t require.TestingT, cleanup func(func())) (*In, *Out) {
	r, w := pipe(t, cleanup)
	in, err := newIn(r)
	require.NoError(t, err)
	out, err := newOut(w)
	require.NoError(t, err)
	return in, out
}

func TestInterruptRead(t *testing.T) {
	t.Run("F5 an idle read is woken", func(t *testing.T) {
		in, _ := ends(t, t.Cleanup)
		require.True(t, in.Interruptible())
		result := make(chan error, 1)
		go func() {
			_, err := in.Read(make([]byte, 1))
			result <- err
		}()
		eventually(t, "the read waits", func() bool { return waitsIn("stdio.(*In).Read") })
		in.Interrupt()
		assert.ErrorIs(t, <-result, ErrInterrupted)
	})

	t.Run("F5 and so is every later one, data or not", func(t *testing.T) {
		in, out := ends(t, t.Cleanup)
		_, err := out.Write([]byte("unread"))
		require.NoError(t, err)
		in.Interrupt()
		in.Interrupt()
		for range 2 {
			n, err := in.Read(make([]byte, 1))
			assert.Zero(t, n)
			assert.ErrorIs(t, err, ErrInterrupted)
		}
	})

	t.Run("F5 closing wakes as well", func(t *testing.T) {
		in, _ := ends(t, t.Cleanup)
		result := make(chan error, 1)
		go func() {
			_, err := in.Read(make([]byte, 1))
			result <- err
		}()
		eventually(t, "the read waits", func() bool { return waitsIn("stdio.(*In).Read") })
		require.NoError(t, in.Close())
		assert.ErrorIs(t, <-result, os.ErrClosed)
		assert.NoError(t, in.Close(), "a second time")
		_, err := in.Read(make([]byte, 1))
		assert.ErrorIs(t, err, os.ErrClosed)
		in.Interrupt()
		_, err = in.Read(make([]byte, 1))
		assert.ErrorIs(t, err, os.ErrClosed, "closed is for ever")
	})

	t.Run("F5 a file is read until interrupted", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "frames")
		require.NoError(t, os.WriteFile(path, []byte("frames"), 0o600))
		file, err := os.Open(path)
		require.NoError(t, err)
		in, err := newIn(file)
		require.NoError(t, err)
		defer in.Close()
		if canCancelReads {
			assert.True(t, in.Interruptible())
		} else {
			assert.False(t, in.Interruptible(), "a file is read blocking")
		}
		p := make([]byte, 3)
		_, err = in.Read(p)
		require.NoError(t, err)
		assert.Equal(t, "fra", string(p))
		in.Interrupt()
		_, err = in.Read(p)
		assert.ErrorIs(t, err, ErrInterrupted)
		assert.ErrorContains(t, err, path, "the error says where")
	})
}

func TestReadEnd(t *testing.T) {
	t.Run("R-2.21 everything written is read before the end", func(t *testing.T) {
		in, out := ends(t, t.Cleanup)
		_, err := out.Write([]byte("last words"))
		require.NoError(t, err)
		require.NoError(t, out.Close())
		text, err := io.ReadAll(iotest.OneByteReader(in))
		require.NoError(t, err)
		assert.Equal(t, "last words", string(text))
		_, err = in.Read(make([]byte, 1))
		assert.Equal(t, io.EOF, err)
	})
}

func TestInterruptWrite(t *testing.T) {
	t.Run("F5 a write into a full pipe is woken and says how far it came", func(t *testing.T) {
		in, out := ends(t, t.Cleanup)
		sent := pattern(4 << 20)
		type outcome struct {
			n   int
			err error
		}
		result := make(chan outcome, 1)
		go func() {
			n, err := out.Write(sent)
			result <- outcome{n, err}
		}()
		eventually(t, "the write waits", func() bool { return waitsIn("stdio.(*Out).Write") })
		out.Interrupt()
		got := <-result
		assert.ErrorIs(t, got.err, ErrInterrupted)
		assert.Positive(t, got.n)

		n, err := out.Write([]byte("more"))
		assert.Zero(t, n)
		assert.ErrorIs(t, err, ErrInterrupted)
		n64, err := out.WriteBuffers(nil)
		assert.Zero(t, n64)
		assert.ErrorIs(t, err, ErrInterrupted)

		require.NoError(t, out.Close())
		arrived, err := io.ReadAll(in)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(sent[:got.n], arrived), "%d bytes arrived, %d were reported", len(arrived), got.n)
	})

	t.Run("F5 closing wakes as well", func(t *testing.T) {
		_, out := ends(t, t.Cleanup)
		result := make(chan error, 1)
		go func() {
			_, err := out.Write(make([]byte, 4<<20))
			result <- err
		}()
		eventually(t, "the write waits", func() bool { return waitsIn("stdio.(*Out).Write") })
		require.NoError(t, out.Close())
		assert.ErrorIs(t, <-result, os.ErrClosed)
		assert.NoError(t, out.Close(), "a second time")
		_, err := out.Write([]byte("more"))
		assert.ErrorIs(t, err, os.ErrClosed)
	})
}

func TestWriteBuffers(t *testing.T) {
	t.Run("R-2.21 arrives as one, whatever the cuts", rapid.MakeCheck(func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 40), rapid.IntRange(30_000, 140_000)), 0, 60).
			Draw(t, "sizes")
		checkWriteBuffers(t, sizes)
	}))

	t.Run("R-2.21 more buffers than one system call takes", func(t *testing.T) {
		sizes := make([]int, 5_000)
		for i := range sizes {
			sizes[i] = i % 301 // some of them empty
		}
		checkWriteBuffers(t, sizes)
	})

	t.Run("R-2.21 nothing to write", func(t *testing.T) {
		checkWriteBuffers(t, nil)
		checkWriteBuffers(t, []int{0, 0, 0})
		checkWriteBuffers(t, make([]int, 3_000))
	})

	t.Run("R-2.22 a reader that is gone is an error", func(t *testing.T) {
		in, out := ends(t, t.Cleanup)
		require.NoError(t, in.Close())
		n, err := out.WriteBuffers([][]byte{[]byte("a"), []byte("b")})
		assert.Zero(t, n)
		assertBrokenPipe(t, err)
		var named *os.PathError
		require.True(t, errors.As(err, &named))
		assert.Equal(t, "write", named.Op)
	})
}

// checkWriteBuffers sends buffers of the given sizes through a pipe and compares.
func checkWriteBuffers(t require.TestingT, sizes []int) {
	var closers []func()
	defer func() {
		for _, c := range closers {
			c()
		}
	}()
	in, out := ends(t, func(c func()) { closers = append(closers, c) })

	total := 0
	for _, size := range sizes {
		total += size
	}
	want := pattern(total)
	bufs := make([][]byte, 0, len(sizes))
	for rest := slices.Clone(want); len(bufs) < len(sizes); {
		size := sizes[len(bufs)]
		bufs = append(bufs, rest[:size:size])
		rest = rest[size:]
	}
	kept := slices.Clone(bufs)

	arrived := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(in) // what is missing shows in the comparison
		arrived <- all
	}()
	n, err := out.WriteBuffers(bufs)
	closeErr := out.Close()
	got := <-arrived
	require.NoError(t, err)
	require.NoError(t, closeErr)
	assert.EqualValues(t, total, n)
	assert.True(t, bytes.Equal(want, got), "%d bytes sent, %d arrived, or not the same", len(want), len(got))
	for i := range bufs {
		require.Len(t, bufs[i], len(kept[i]), "buffer %d was changed", i)
	}
	assert.True(t, bytes.Equal(want, slices.Concat(bufs...)), "the caller's bytes were changed")
}

// pattern is n bytes in which no stretch looks like another nearby.
func pattern(n int) []byte {
	p := make([]byte, n)
	x := uint32(1)
	for i := range p {
		x = x*1664525 + 1013904223
		p[i] = byte(x >> 24)
	}
	return p
}
