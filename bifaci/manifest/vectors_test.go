package manifest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// vector is a row of index.json.
type vector struct {
	File           string
	Valid          bool
	Caps           int
	Slugs          []string
	Declared       map[string]uint64
	Chains         map[string][]string
	Aliases        map[string]string
	SequenceShape  []bool `json:"sequence_shape"`
	StreamingShape []bool `json:"streaming_shape"`
	Code           manifest.Code
	Stage          string
	Reason         string
	URNError       urn.Reason `json:"urn_error"`
}

const vectorFolder = "../../test/vectors/manifests"

func vectors(tb testing.TB) (rows []vector, texts map[string][]byte) {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join(vectorFolder, "index.json"))
	require.NoError(tb, err)
	require.NoError(tb, json.Unmarshal(b, &rows))
	texts = map[string][]byte{}
	for _, row := range rows {
		texts[row.File], err = os.ReadFile(filepath.Join(vectorFolder, row.File))
		require.NoError(tb, err)
	}
	return rows, texts
}

func TestVectors(t *testing.T) {
	rows, texts := vectors(t)
	files, err := filepath.Glob(filepath.Join(vectorFolder, "*.json"))
	require.NoError(t, err)
	require.Len(t, rows, len(files)-1, "the index names every file")
	for _, row := range rows {
		if row.Valid {
			t.Run(row.File, func(t *testing.T) { checkValid(t, row, texts[row.File]) })
			continue
		}
		t.Run(fmt.Sprintf("%s %s", row.Code, row.File), func(t *testing.T) { checkInvalid(t, row, texts[row.File]) })
	}
}

func checkValid(t *testing.T, row vector, text []byte) {
	m, err := manifest.Parse(text)
	require.NoError(t, err)
	require.NoError(t, m.Validate())

	var slugs []string
	var sequence, streaming []bool // of the last cap whose shapes are not both false
	shape := func(in, out bool, last []bool) []bool {
		if in || out {
			return []bool{in, out}
		}
		return last
	}
	for c := range m.Caps() {
		slugs = append(slugs, c.Slug)
		in, out := c.SequenceShape()
		sequence = shape(in, out, sequence)
		in, out = c.StreamingShape()
		streaming = shape(in, out, streaming)
	}
	assert.Equal(t, row.Slugs, slugs)
	assert.Len(t, m.CapURNs(), row.Caps)
	assert.Equal(t, row.SequenceShape, sequence)
	assert.Equal(t, row.StreamingShape, streaming)

	states, err := m.DeclaredStates()
	require.NoError(t, err)
	for name, want := range row.Declared {
		require.Contains(t, states, name)
		assert.Equal(t, want, states[name].Declared, "declared of %s", name)
		assert.Equal(t, want, states[name].Configured, "configured of %s", name)
	}
	if row.Declared != nil {
		assert.Len(t, states, len(row.Declared))
	}
	for cap, want := range row.Chains {
		d, err := m.Declarations()
		require.NoError(t, err)
		assert.Equal(t, want, d.Chain(cap))
	}
	for alias, slug := range row.Aliases {
		c, ok := m.Lookup(alias)
		require.True(t, ok, alias)
		assert.Equal(t, slug, c.Slug)
	}

	written, err := m.JSON()
	require.NoError(t, err)
	again, err := manifest.Parse(written)
	require.NoError(t, err)
	assert.Equal(t, m.WithChannel(manifestChannel(m)), again, "written and read again")
	indented, err := m.IndentedJSON()
	require.NoError(t, err)
	assert.JSONEq(t, string(written), string(indented))
}

// manifestChannel is the channel that is written.
func manifestChannel(m *manifest.Manifest) string {
	if m.Channel == "" {
		return manifest.Nightly
	}
	return m.Channel
}

func checkInvalid(t *testing.T, row vector, text []byte) {
	m, err := manifest.Parse(text)
	require.Error(t, err, row.Reason)
	require.Nil(t, m)
	assert.ErrorIs(t, err, manifest.ErrInvalid)
	assert.Equal(t, row.Code == manifest.CodeIdentity, errors.Is(err, manifest.ErrIdentityMissing))
	var problems manifest.Problems
	require.ErrorAs(t, err, &problems)
	require.Len(t, problems, 1, "the vectors have one fault each: %v", err)
	assert.Equal(t, row.Code, problems[0].Code, err.Error())
	assert.Regexp(t, `^`+string(row.Code)+`: \S`, err.Error())
	assert.NotContains(t, err.Error(), "\n")
	assert.Equal(t, row.URNError, urnReason(row, problems[0]), err.Error())
}

// urnReason is the reason of the cap URN's parser.
func urnReason(row vector, e *manifest.Error) urn.Reason {
	if row.URNError == "" {
		return ""
	}
	return urn.ReasonOf(e.Err)
}
