package frame_test

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// valueOf turns the JSON form of a value in the vectors (spec/wire.md section 17) into the Go value it stands for.
func valueOf(t testing.TB, v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n
		}
		require.False(t, strings.ContainsAny(v.String(), ".eE"), "plain numbers are integers")
		return number(t, v)
	case []any:
		list := make([]any, 0, len(v))
		for _, e := range v {
			list = append(list, valueOf(t, e))
		}
		return list
	case map[string]any:
		if s, ok := v["$bytes"].(string); ok {
			b, err := hex.DecodeString(s)
			require.NoError(t, err)
			return b
		}
		if n, ok := v["$float"].(json.Number); ok {
			f, err := n.Float64()
			require.NoError(t, err)
			return f
		}
		if _, ok := v["$uint"]; ok {
			return number(t, v)
		}
		if n, ok := v["$tag"]; ok {
			return cbor.Tag{Number: number(t, n), Content: valueOf(t, v["$value"])}
		}
		if _, ok := v["$undefined"]; ok {
			return frame.Undefined
		}
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = valueOf(t, e)
		}
		return m
	}
	return v
}
