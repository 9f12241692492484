package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/test/probecartridge/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheRelayEndsWithItsHost(t *testing.T) {
	for name, sent := range map[string]string{
		"before a frame":      "",
		"inside a prefix":     "\x00\x00",
		"inside a body":       "\x00\x00\x00\x09abc",
		"after a prefix of 0": "\x00\x00\x00\x00and what follows",
	} {
		t.Run(name, func(t *testing.T) {
			in, host := io.Pipe()
			go func() { // ends when the relay has read it
				_, err := io.WriteString(host, sent)
				_ = host.CloseWithError(err)
			}()
			var out bytes.Buffer
			err := newRelay(in, &out).serve(t.Context(), probe.New())
			require.ErrorIs(t, err, bifaci.ErrHandshake)
			assert.Zero(t, out.Len(), "nothing is written when the handshake fails")
		})
	}
}
