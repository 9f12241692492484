package manifest_test

import (
	"testing"

	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzParse: any bytes give faults or a manifest that is valid, and whose JSON is read back as the same manifest.
func FuzzParse(f *testing.F) {
	_, texts := vectors(f)
	for _, text := range texts {
		f.Add(text)
	}
	f.Add([]byte(fullJSON))
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := manifest.Parse(in)
		lenient, _, lenientErr := manifest.ParseLenientHello(in)
		if err != nil {
			require.ErrorIs(t, err, manifest.ErrInvalid)
			require.NotEmpty(t, err.Error())
			require.Nil(t, m)
			if lenientErr == nil {
				checkParsed(t, lenient)
			}
			return
		}
		require.NoError(t, lenientErr)
		require.Equal(t, m, lenient)
		checkParsed(t, m)
	})
}

func checkParsed(t *testing.T, m *manifest.Manifest) {
	require.NoError(t, m.Validate())
	_, err := m.DeclaredStates()
	require.NoError(t, err)
	for c := range m.Caps() {
		found, ok := m.Lookup(c.Slug)
		require.True(t, ok)
		require.Equal(t, c.Slug, found.Slug)
		for i := range c.Args {
			c.PositionOf(i)
			require.NotEmpty(t, c.Args[i].StreamURN())
		}
	}
	text, err := m.JSON()
	require.NoError(t, err)
	again, err := manifest.Parse(text)
	require.NoError(t, err, string(text))
	twice, err := again.JSON()
	require.NoError(t, err)
	assert.Equal(t, string(text), string(twice))
}

// FuzzParseInstall: any bytes give faults or a record that survives writing and reading.
func FuzzParseInstall(f *testing.F) {
	f.Add([]byte(installJSON))
	f.Add([]byte(`{"name":"n","version":"1","channel":"nightly","registry_url":"https://h","entry":"a/b","installed_at":"2026-04-12T10:00:00.5Z"}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := manifest.ParseInstall(in)
		if err != nil {
			require.ErrorIs(t, err, manifest.ErrInvalid)
			return
		}
		text, err := r.JSON()
		require.NoError(t, err)
		again, err := manifest.ParseInstall(text)
		require.NoError(t, err, string(text))
		require.Equal(t, r, again)
	})
}
