package stages

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFailAndTheEndOfTheContextAreOne(t *testing.T) {
	t.Run("R-8.20 R-3.50 who finds the context ended reads no more, and whose read fails finds it ended", func(t *testing.T) {
		l := newTestLink(withCredit(8)).run()
		p := l.receive()
		in := p.start(t, "s", false)
		p.chunks(t, "s", encoded(t, "unread"))
		gone, ended := errors.New("gone"), false
		read := make(chan error, 1)
		p.FailThen(gone, func() {
			assert.True(t, p.failed.Load(), "the context ends, and an item can still be read")
			go func() { // ends with its read
				_, err := in.Next(t.Context())
				assert.True(t, ended, "the read has failed, and the context has not ended")
				read <- err
			}()
			ended = true
		})
		require.ErrorIs(t, <-read, gone)
		again := false
		p.FailThen(errors.New("too late"), func() { again = true })
		assert.True(t, again, "the context ends in any case")
		_, err := in.Next(t.Context())
		require.ErrorIs(t, err, gone)
		l.finish(t)
	})
}
