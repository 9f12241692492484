//go:build linux && !stdio_portable

package stdio

import (
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func capacityOf(t *testing.T, file *os.File) int {
	t.Helper()
	return control(t, file, func(fd uintptr) int {
		capacity, ok := pipeCapacity(fd)
		assert.True(t, ok)
		return capacity
	})
}

// smallPipe is a pipe of 16 pages, whatever the system's default is at the moment.
func smallPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	const capacity = 64 << 10
	r, w = pipe(t, t.Cleanup)
	require.True(t, control(t, w, func(fd uintptr) bool { return growPipe(fd, capacity) }))
	require.Equal(t, capacity, capacityOf(t, w))
	return r, w
}

func TestGrowReadingEnd(t *testing.T) {
	read := func(t *testing.T, in *In, bytes int) {
		t.Helper()
		n, err := in.Read(make([]byte, bytes))
		require.NoError(t, err)
		require.Equal(t, bytes, n)
	}

	t.Run("R-2.21 a pipe that is not full stays as it is", func(t *testing.T) {
		r, w := smallPipe(t)
		in, err := newIn(r)
		require.NoError(t, err)
		for range 3 {
			_, err = w.Write(make([]byte, 40<<10))
			require.NoError(t, err)
			read(t, in, 16<<10)
			read(t, in, 24<<10)
		}
		assert.Equal(t, 64<<10, capacityOf(t, r))
	})

	t.Run("R-2.21 a full one grows, seen in one large read", func(t *testing.T) {
		r, w := smallPipe(t)
		in, err := newIn(r)
		require.NoError(t, err)
		_, err = w.Write(make([]byte, 64<<10))
		require.NoError(t, err)
		read(t, in, 64<<10)
		assert.Equal(t, 1<<20, capacityOf(t, r))
	})

	t.Run("R-2.21 or in a small one, and only once", func(t *testing.T) {
		r, w := smallPipe(t)
		in, err := newIn(r)
		require.NoError(t, err)
		_, err = w.Write(make([]byte, 64<<10))
		require.NoError(t, err)
		read(t, in, 1<<10)
		assert.Equal(t, 1<<20, capacityOf(t, r))

		read(t, in, 63<<10)
		require.True(t, control(t, r, func(fd uintptr) bool { return growPipe(fd, 64<<10) }), "back to where it was")
		_, err = w.Write(make([]byte, 64<<10))
		require.NoError(t, err)
		read(t, in, 1<<10)
		assert.Equal(t, 64<<10, capacityOf(t, r))
	})
}

func TestGrowWritingEnd(t *testing.T) {
	t.Run("R-2.21 a pipe that takes everything stays as it is", func(t *testing.T) {
		_, w := smallPipe(t)
		out, err := newOut(w)
		require.NoError(t, err)
		_, err = out.Write(make([]byte, 64<<10))
		require.NoError(t, err)
		assert.Equal(t, 64<<10, capacityOf(t, w))
	})

	t.Run("R-2.21 a full one grows instead of waiting", func(t *testing.T) {
		_, w := smallPipe(t)
		out, err := newOut(w)
		require.NoError(t, err)
		_, err = out.Write(make([]byte, 64<<10))
		require.NoError(t, err)
		_, err = out.Write(make([]byte, 64<<10)) // nobody reads, so it returns only because there is room
		require.NoError(t, err)
		assert.Equal(t, 1<<20, capacityOf(t, w))
	})

	t.Run("R-2.21 and so does one that a single write overfills", func(t *testing.T) {
		_, w := smallPipe(t)
		out, err := newOut(w)
		require.NoError(t, err)
		n, err := out.WriteBuffers([][]byte{make([]byte, 50<<10), make([]byte, 500<<10)})
		require.NoError(t, err)
		assert.EqualValues(t, 550<<10, n)
		assert.Equal(t, 1<<20, capacityOf(t, w))
	})

	t.Run("R-2.21 growing happens once", func(t *testing.T) {
		r, w := smallPipe(t)
		out, err := newOut(w)
		require.NoError(t, err)
		for range 2 {
			_, err = out.Write(make([]byte, 64<<10))
			require.NoError(t, err)
		}
		_, err = io.ReadFull(r, make([]byte, 128<<10))
		require.NoError(t, err)
		require.True(t, control(t, w, func(fd uintptr) bool { return growPipe(fd, 64<<10) }), "back to where it was")

		drained := make(chan error, 1)
		go func() {
			_, err := io.ReadFull(r, make([]byte, 256<<10))
			drained <- err
		}()
		_, err = out.Write(make([]byte, 256<<10))
		require.NoError(t, err)
		require.NoError(t, <-drained)
		assert.Equal(t, 64<<10, capacityOf(t, w))
	})

	t.Run("R-2.21 a refusal is ignored", func(t *testing.T) {
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		r, w := os.NewFile(uintptr(pair[0]), "r"), os.NewFile(uintptr(pair[1]), "w")
		defer r.Close()
		out, err := newOut(w)
		require.NoError(t, err)
		defer out.Close()
		out.grown = false // as if it were a pipe
		drained := make(chan error, 1)
		go func() {
			_, err := io.ReadFull(r, make([]byte, 4<<20))
			drained <- err
		}()
		n, err := out.Write(make([]byte, 4<<20))
		require.NoError(t, err)
		assert.Equal(t, 4<<20, n)
		require.NoError(t, <-drained)
		assert.True(t, out.grown)
	})

	t.Run("R-2.21 no payload is kept alive", func(t *testing.T) {
		in, out := ends(t, t.Cleanup)
		_, err := out.WriteBuffers([][]byte{[]byte("a"), []byte("b"), []byte("c")})
		require.NoError(t, err)
		require.NoError(t, in.Close())
		_, err = out.WriteBuffers([][]byte{[]byte("a"), []byte("b")})
		require.ErrorIs(t, err, syscall.EPIPE)
		_, err = out.Write([]byte("d"))
		require.ErrorIs(t, err, syscall.EPIPE)
		for i, iovec := range out.vector.iovecs[:cap(out.vector.iovecs)] {
			assert.Nil(t, iovec.Base, "vector %d", i)
		}
		assert.Nil(t, out.vector.left)
		assert.Nil(t, out.single[0])
	})
}
