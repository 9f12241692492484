package urn_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

func mustTagged(tb testing.TB, text string) urn.Tagged {
	tb.Helper()
	u, err := urn.ParseTagged(text)
	require.NoError(tb, err)
	return u
}

func TestPrefixMismatchInEveryOperation(t *testing.T) {
	a, b := mustTagged(t, "x:a"), mustTagged(t, "y:a")
	for name, relation := range map[string]func(urn.Tagged) (bool, error){
		"ConformsTo": a.ConformsTo, "Accepts": a.Accepts, "Meets": a.Meets, "Satisfies": a.Satisfies,
		"Equivalent": a.Equivalent, "Comparable": a.Comparable,
	} {
		ok, err := relation(b)
		assert.ErrorIs(t, err, urn.PrefixMismatch, name)
		assert.False(t, ok, name)
		ok, err = relation(mustTagged(t, "X:A"))
		require.NoError(t, err, name)
		assert.True(t, ok, name)
	}
	_, err := a.Merge(b)
	assert.ErrorIs(t, err, urn.PrefixMismatch)
	_, err = a.DeltaTo(b)
	assert.ErrorIs(t, err, urn.PrefixMismatch)
}

func TestTaggedChanges(t *testing.T) {
	a := mustTagged(t, "x:a=1;b")
	merged, err := a.Merge(mustTagged(t, "x:a=2;c"))
	require.NoError(t, err)
	assert.Equal(t, "x:a=2;b;c", merged.String())
	assert.Equal(t, 8, merged.Specificity())

	changed, err := a.WithTag("A", "?=Z")
	require.NoError(t, err)
	assert.Equal(t, `x:a?="Z";b`, changed.String())
	assert.Equal(t, "x:b", changed.WithoutTag("A").String())
	assert.Equal(t, a, a.WithoutTag("nothing"))

	d, err := a.DeltaTo(mustTagged(t, "x:b;c"))
	require.NoError(t, err)
	assert.Equal(t, "x:b;c;d", mustTagged(t, "x:a=9;b;d").Apply(d).String())
}

func TestNewTaggedTakesStoredValues(t *testing.T) {
	u, err := urn.NewTagged("X", map[string]string{"A": "*", "b": "?", "c": "!", "d": "?=v", "e": "!=v", "f": "V"})
	require.NoError(t, err)
	assert.Equal(t, `x:a;?b;!c;d?=v;e!=v;f="V"`, u.String())
	assert.Equal(t, "x", u.Prefix())

	for prefix, want := range map[string]urn.Reason{
		"": urn.EmptyPrefix, "a:b": urn.InvalidCharacter, " a": urn.InvalidCharacter, "\xff": urn.InvalidCharacter,
	} {
		_, err := urn.NewTagged(prefix, nil)
		assert.ErrorIs(t, err, want, "prefix %q", prefix)
	}
	for value, want := range map[string]urn.Reason{
		"": urn.EmptyTagComponent, "?=": urn.EmptyTagComponent, "!=": urn.EmptyTagComponent,
		"?=*": urn.InvalidCharacter, "!=?": urn.InvalidCharacter, "\xff": urn.InvalidCharacter,
	} {
		_, err := urn.NewTagged("x", map[string]string{"a": value})
		assert.ErrorIs(t, err, want, "value %q", value)
	}
	for key, want := range map[string]urn.Reason{
		"": urn.EmptyTagComponent, "7": urn.NumericKey, "a*": urn.InvalidCharacter, "\xff": urn.InvalidCharacter,
	} {
		_, err := urn.NewTagged("x", map[string]string{key: "v"})
		assert.ErrorIs(t, err, want, "key %q", key)
	}
}

// TestTextsBeyondTheVectors has what the golden rows leave out: quoted values that read as forms which cannot be written,
// letters that are not ASCII, and bytes that are not UTF-8.
func TestTextsBeyondTheVectors(t *testing.T) {
	for text, want := range map[string]string{
		`x:a="ÄÖ"`:           `x:a="ÄÖ"`,
		`x:Ä=Ö`:              `x:ä=ö`,
		`x:a="ä"`:            `x:a=ä`,
		`x:a="b,c"`:          `x:a="b,c"`,
		`x:a?="?=v"`:         `x:a?="?=v"`,
		`x:a="\"\\"`:         `x:a="\"\\"`,
		"x:a=\"\n\"":         "x:a=\"\n\"",
		"x:a=\"\U0001d400\"": "x:a=\"\U0001d400\"", // an upper-case letter that has no lower case
	} {
		u, err := urn.ParseTagged(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, u.String())
	}
	for text, want := range map[string]urn.Reason{
		`x:a="?="`:      urn.EmptyTagComponent,
		`x:a="!=*"`:     urn.InvalidCharacter,
		"x:a=\"\xff\"":  urn.InvalidCharacter,
		"x\xff:a":       urn.InvalidCharacter,
		"\u00a0x:a":     urn.WhitespaceInInput,
		"   ":           urn.WhitespaceInInput,
		"x:a=\"b\u2003": urn.WhitespaceInInput,
	} {
		_, err := urn.ParseTagged(text)
		assert.ErrorIs(t, err, want, "%q", text)
	}
}

func TestErrorsNameThePlace(t *testing.T) {
	for text, at := range map[string]int{
		"x:a;b c":            5,
		"x:abc;abc":          6,
		"x:a;12":             4,
		`x:a="b`:             4,
		`x:a="b\n"`:          6,
		"x:a=;b":             4,
		"x:?a;b=?c;!d=e;?f!": 17,
	} {
		_, err := urn.ParseTagged(text)
		var parse *urn.ParseError
		require.ErrorAs(t, err, &parse, text)
		assert.Equal(t, at, parse.Offset, text)
		assert.Contains(t, parse.Error(), fmt.Sprint("byte ", at))
		assert.Contains(t, parse.Error(), string(parse.Kind))
	}
	_, err := urn.ParseCap("cap:a;out=media:x;in=pdf")
	var parse *urn.ParseError
	require.ErrorAs(t, err, &parse)
	assert.Equal(t, urn.InvalidInSpec, parse.Kind)
	assert.Equal(t, 18, parse.Offset)
	assert.ErrorIs(t, err, urn.MissingPrefix, "the inner reason is there too")
	assert.Equal(t, urn.InvalidInSpec, urn.ReasonOf(fmt.Errorf("outer: %w", err)))
	assert.Empty(t, urn.ReasonOf(fmt.Errorf("foreign")))

	_, err = urn.ParseTagged("x:" + strings.Repeat("a", 100_000) + "*")
	require.Error(t, err)
	assert.Less(t, len(err.Error()), 1000, "a stranger's text is not repeated whole")
}

func TestManyTagsAreReadInOrder(t *testing.T) {
	var text strings.Builder
	text.WriteString("x:")
	const n = 20_000
	for i := n; i > 0; i-- {
		fmt.Fprintf(&text, "k%d=%d;", i, i)
	}
	u, err := urn.ParseTagged(text.String())
	require.NoError(t, err)
	assert.Equal(t, 4*n, u.Specificity())
	value, ok := u.Tag("K777")
	assert.True(t, ok)
	assert.Equal(t, "777", value)

	_, err = urn.ParseTagged(text.String() + "k5")
	assert.ErrorIs(t, err, urn.DuplicateKey)
	_, err = urn.ParseTagged(text.String() + "k5;b c")
	assert.ErrorIs(t, err, urn.DuplicateKey, "the first fault counts")
}
