package urn_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

type mediaVectors struct {
	LeastUpperBound []struct {
		Inputs []string
		Join   string
	} `json:"least_upper_bound"`
	Predicates []struct {
		Media      string
		Predicates map[string]bool
		Extension  *string
	}
}

func loadMediaVectors(tb testing.TB) mediaVectors {
	tb.Helper()
	var all mediaVectors
	loadVectors(tb, "urn_media.json", &all)
	require.Len(tb, all.LeastUpperBound, 15)
	require.Len(tb, all.Predicates, 16)
	return all
}

func TestJoinVectors(t *testing.T) {
	for _, row := range loadMediaVectors(t).LeastUpperBound {
		t.Run(strings.Join(row.Inputs, " "), func(t *testing.T) {
			var inputs []urn.Media
			for _, input := range row.Inputs {
				inputs = append(inputs, urn.MustMedia(input))
			}
			assert.Equal(t, row.Join, urn.Join(inputs...).String())
		})
	}
}

func TestPredicateVectors(t *testing.T) {
	for _, row := range loadMediaVectors(t).Predicates {
		t.Run(row.Media, func(t *testing.T) {
			m := urn.MustMedia(row.Media)
			assert.Equal(t, row.Predicates, map[string]bool{
				"is_top": m.IsTop(), "is_void": m.IsVoid(), "is_list": m.IsList(), "is_scalar": m.IsScalar(),
				"is_record": m.IsRecord(), "is_opaque": m.IsOpaque(), "is_json": m.IsJSON(), "is_yaml": m.IsYAML(),
				"is_csv": m.IsCSV(), "is_image": m.IsImage(), "is_audio": m.IsAudio(), "is_video": m.IsVideo(),
				"is_numeric": m.IsNumeric(), "is_bool": m.IsBool(), "is_file_path": m.IsFilePath(),
				"is_live_feed": m.IsLiveFeed(),
			})
			extension, ok := m.Extension()
			require.Equal(t, row.Extension != nil, ok)
			if ok {
				assert.Equal(t, *row.Extension, extension)
			}
		})
	}
}

func TestMediaTagsReadTheStoredValue(t *testing.T) {
	m := urn.MustMedia(`media:list;!draft;?maybe;ext=pdf;v!=1;w?=2;title="A B"`)
	for key, want := range map[string]string{
		"list": "*", "LIST": "*", "draft": "!", "maybe": "?", "ext": "pdf", "v": "!=1", "w": "?=2", "title": "A B",
	} {
		got, ok := m.Tag(key)
		assert.True(t, ok, key)
		assert.Equal(t, want, got, key)
		assert.True(t, m.HasTag(key, want), key)
	}
	_, ok := m.Tag("nothing")
	assert.False(t, ok)
	assert.True(t, m.HasMarker("List"))
	assert.False(t, m.HasMarker("ext"), "a key with a value is no marker")
	assert.False(t, m.HasTag("title", "a b"), "the case of a value counts")
	assert.True(t, urn.MustMedia("media:!list").IsScalar())
	assert.True(t, urn.MustMedia("media:!void").IsVoid(), "in any form")
	assert.True(t, urn.MustMedia("media:?x;?y").IsOpen())
	assert.False(t, urn.MustMedia("media:?x").IsTop())
}

func TestNamedMediaAreCanonical(t *testing.T) {
	names := []string{urn.MediaTop, urn.MediaVoid, urn.MediaString, urn.MediaStringList, urn.MediaInteger,
		urn.MediaIntegerList, urn.MediaNumber, urn.MediaNumberList, urn.MediaBoolean, urn.MediaBooleanList, urn.MediaObject,
		urn.MediaObjectList, urn.MediaList, urn.MediaJSON, urn.MediaJSONValue, urn.MediaYAML, urn.MediaYAMLValue,
		urn.MediaCSV, urn.MediaPDF, urn.MediaEPUB, urn.MediaTextFile, urn.MediaMarkdown, urn.MediaPlainText,
		urn.MediaTextPage, urn.MediaPNG, urn.MediaJPEG, urn.MediaWAV, urn.MediaSpeech, urn.MediaMP3, urn.MediaMP4,
		urn.MediaFilePath, urn.MediaTranscription, urn.MediaAdapterSelection, urn.MediaCapURN}
	for _, name := range names {
		assert.Equal(t, name, urn.MustMedia(name).String())
	}
}

func TestMediaChangesAreCheckedAgain(t *testing.T) {
	m := urn.MustMedia("media:ext=pdf")
	changed, err := m.WithTag("Draft", "!")
	require.NoError(t, err)
	assert.Equal(t, "media:!draft;ext=pdf", changed.String())
	assert.Equal(t, "media:ext=pdf", m.String(), "the old value stays")
	assert.Equal(t, "media:!draft", changed.WithoutTag("EXT").String())

	replaced, err := m.WithTag("ext", "Pdf")
	require.NoError(t, err)
	assert.Equal(t, `media:ext="Pdf"`, replaced.String())

	for name, attempt := range map[urn.Reason]func() error{
		urn.VoidNotAtomic:     func() error { _, err := m.WithTag("void", "?"); return err },
		urn.EmptyTagComponent: func() error { _, err := m.WithTag("x", ""); return err },
		urn.NumericKey:        func() error { _, err := m.WithTag("12", "x"); return err },
		urn.InvalidCharacter:  func() error { _, err := m.WithTag("a b", "x"); return err },
		urn.DuplicateKey: func() error {
			_, err := urn.MediaFromTags(map[string]string{"a": "1", "A": "2"})
			return err
		},
	} {
		assert.ErrorIs(t, attempt(), name)
	}
	_, err = urn.MustMedia("media:v=1").Apply(urn.MustMedia(urn.MediaTop).DeltaTo(urn.MustMedia(urn.MediaVoid)))
	assert.ErrorIs(t, err, urn.VoidNotAtomic)
}

func TestDelta(t *testing.T) {
	d := urn.MustMedia("media:a=1;b;c").DeltaTo(urn.MustMedia("media:a=2;b;d?=x"))
	assert.Equal(t, []string{"a", "c"}, d.Removed())
	assert.Equal(t, map[string]string{"a": "2", "d": "?=x"}, d.Added())
	for _, m := range []string{"media:!c;a=7;b=3;z", "media:b=3;d=9;z"} {
		got, err := urn.MustMedia(m).Apply(d)
		require.NoError(t, err)
		assert.Equal(t, "media:a=2;b=3;d?=x;z", got.String(), m)
	}
}

func TestZeroMedia(t *testing.T) {
	var zero urn.Media
	assert.True(t, zero.IsZero())
	assert.Empty(t, zero.String())
	assert.True(t, zero.Equivalent(urn.MustMedia(urn.MediaTop)))
	_, err := json.Marshal(zero)
	assert.ErrorIs(t, err, urn.Empty)
}

func TestJSONForms(t *testing.T) {
	type document struct {
		Media urn.Media `json:"media"`
		Cap   urn.Cap   `json:"cap"`
		Other urn.Tagged
	}
	var d document
	require.NoError(t, json.Unmarshal([]byte(`{"media":"MEDIA:b;A","cap":"cap:y;x;in=media:","Other":"X:b;a"}`), &d))
	text, err := json.Marshal(d)
	require.NoError(t, err)
	assert.JSONEq(t, `{"media":"media:a;b","cap":"cap:x;y","Other":"x:a;b"}`, string(text))

	for _, bad := range []string{`{"media":"cap:x"}`, `{"cap":"cap:"}`, `{"Other":""}`} {
		assert.Error(t, json.Unmarshal([]byte(bad), &d), bad)
	}
}
