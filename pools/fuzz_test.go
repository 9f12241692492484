package pools_test

import (
	"testing"

	"github.com/pipe-cartridge/pipe/pools"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzDecodeStates: any bytes give an error or a map that survives writing and reading.
func FuzzDecodeStates(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `[]`, `{"a":{"declared":1,"configured":2,"active":3,"queued":4}}`,
		`{"all":{"declared":0,"configured":0,"available":0,"active":0,"queued":0,"caps":["cap:a","cap:b"]}}`,
		`{"a":{"declared":1,"configured":2,"active":3,"queued":4,"caps":[],"x":null}} `, `{"\ud800":{}}`, "{\"\xff\":1}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		states, err := pools.DecodeStates(in)
		if err != nil {
			assert.Nil(t, states)
			return
		}
		out, err := states.Encode()
		require.NoError(t, err)
		again, err := pools.DecodeStates(out)
		require.NoError(t, err)
		require.Equal(t, states, again)
	})
}

// FuzzDecodeDesired: any bytes give an error or a wish that a table takes or refuses as a whole.
func FuzzDecodeDesired(f *testing.F) {
	for _, s := range []string{`{}`, `null`, `{"all":2}`, `{"cap:a":18446744073709551615,"all":0}`, `{"all":1,"b":2}`, `{"all":-1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		desired, err := pools.DecodeDesired(in)
		if err != nil {
			assert.Nil(t, desired)
			return
		}
		table, err := pools.NewTable([]string{"cap:a"}, pools.Declarations{})
		require.NoError(t, err)
		before := table.Snapshot()
		if table.ApplyDesired(desired) != nil {
			require.Equal(t, before, table.Snapshot())
			return
		}
		for name, n := range desired {
			require.Equal(t, n, table.Snapshot()[name].Configured)
		}
	})
}
