package urn_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

func TestCapCoordinates(t *testing.T) {
	c := urn.MustCap(`cap:OUT=media:Record;in="media:ext=pdf;document";Extract;target=metadata`)
	assert.Equal(t, `cap:extract;in="media:document;ext=pdf";out=media:record;target=metadata`, c.String())
	for key, want := range map[string]string{
		"IN": "media:document;ext=pdf", "out": "media:record", "effect": "declared", "Extract": "*", "target": "metadata",
	} {
		got, ok := c.Tag(key)
		assert.True(t, ok, key)
		assert.Equal(t, want, got, key)
		assert.True(t, c.HasTag(key, want), key)
	}
	_, ok := c.Tag("nothing")
	assert.False(t, ok)
	assert.True(t, c.HasMarker("extract"))
	assert.False(t, c.HasMarker("target"))
	assert.Equal(t, fmt.Sprintf("%x", sha256.Sum256([]byte(c.String()))), c.Hash())
}

func TestStandardURNsAreCanonical(t *testing.T) {
	for _, text := range []string{urn.Identity, urn.Discard, urn.AdapterSelection, urn.LLMGenerateText} {
		assert.Equal(t, text, urn.MustCap(text).String())
	}
	assert.Equal(t, urn.KindIdentity, urn.MustCap("cap:in=media:;out=media:;effect=none").Kind())
}

func TestCapChangesAreCheckedAgain(t *testing.T) {
	c := urn.MustCap("cap:effect=none;in=media:pdf;out=media:pdf;x")
	changed, err := c.WithTag("Y", "V")
	require.NoError(t, err)
	assert.Equal(t, `cap:effect=none;in=media:pdf;out=media:pdf;x;y="V"`, changed.String())
	assert.Equal(t, c.Specificity()+4, changed.Specificity())
	changed, err = changed.WithoutTag("X")
	require.NoError(t, err)
	assert.False(t, changed.HasMarker("x"))
	assert.True(t, c.HasMarker("x"), "the old value stays")

	changed, err = c.WithIn(urn.MustMedia("media:pdf;v=2"))
	require.NoError(t, err)
	assert.Equal(t, `cap:effect=none;in="media:pdf;v=2";out=media:pdf;x`, changed.String())
	changed, err = c.WithOut(urn.Media{})
	require.NoError(t, err)
	assert.Equal(t, "cap:effect=none;in=media:pdf;x", changed.String())
	assert.Equal(t, "media:", changed.Out().String())
	changed, err = c.WithEffect(urn.EffectAny)
	require.NoError(t, err)
	assert.Equal(t, "cap:?effect;in=media:pdf;out=media:pdf;x", changed.String())

	lone := urn.MustCap("cap:x")
	for _, attempt := range []struct {
		name string
		want urn.Reason
		do   func() (urn.Cap, error)
	}{
		{"in that out does not cover", urn.IllegalDeclaration, func() (urn.Cap, error) { return c.WithIn(urn.MustMedia("media:x")) }},
		{"out that in does not reach", urn.IllegalDeclaration, func() (urn.Cap, error) { return c.WithOut(urn.MustMedia("media:x")) }},
		{"the last tag", urn.IllegalDeclaration, func() (urn.Cap, error) { return lone.WithoutTag("x") }},
		{"an effect that contradicts", urn.IllegalDeclaration,
			func() (urn.Cap, error) { return urn.MustCap("cap:out=media:x").WithEffect(urn.EffectNone) }},
		{"an unknown effect", urn.InvalidEffect, func() (urn.Cap, error) { return c.WithEffect(17) }},
		{"a reserved key", urn.InvalidTagFormat, func() (urn.Cap, error) { return c.WithTag("IN", "media:x") }},
		{"a reserved key removed", urn.InvalidTagFormat, func() (urn.Cap, error) { return c.WithoutTag("effect") }},
		{"an empty value", urn.EmptyValue, func() (urn.Cap, error) { return c.WithTag("x", "") }},
		{"a numeric key", urn.NumericKey, func() (urn.Cap, error) { return c.WithTag("1", "x") }},
	} {
		t.Run(attempt.name, func(t *testing.T) {
			got, err := attempt.do()
			assert.ErrorIs(t, err, attempt.want)
			assert.True(t, got.IsZero())
		})
	}
}

func TestCapFromParts(t *testing.T) {
	c, err := urn.CapFromTags(map[string]string{"Extract": "*", "OUT": "media:Record", "in": "*"})
	require.NoError(t, err)
	assert.Equal(t, "cap:extract;out=media:record", c.String())
	_, err = urn.CapFromTags(map[string]string{"x": "*", "in": "?"})
	assert.ErrorIs(t, err, urn.InvalidInSpec)
	_, err = urn.CapFromTags(nil)
	assert.ErrorIs(t, err, urn.IllegalDeclaration)

	c, err = urn.NewCap(urn.Media{}, urn.MustMedia("media:x"), urn.EffectDeclared,
		map[string]string{"IN": "media:y", "Effect": "none", "a": "!"})
	require.NoError(t, err)
	assert.Equal(t, "cap:!a;out=media:x", c.String(), "reserved keys among the tags are dropped")
	_, err = urn.NewCap(urn.Media{}, urn.Media{}, 9, nil)
	assert.ErrorIs(t, err, urn.InvalidEffect)
}

func TestBuilder(t *testing.T) {
	c, err := urn.NewBuilder().In("media:ext=pdf;document").Out("media:record").Marker("extract").Tag("Target", "x").
		Tag("target", "Metadata").Tag("v", "!=draft").Effect(urn.EffectPatch).Build()
	require.NoError(t, err)
	assert.Equal(t,
		`cap:effect=patch;extract;in="media:document;ext=pdf";out=media:record;target="Metadata";v!=draft`, c.String())

	for _, bad := range []struct {
		name string
		want urn.Reason
		b    *urn.Builder
	}{
		{"no direction: in first", urn.MissingInSpec, urn.NewBuilder().Marker("x")},
		{"no out", urn.MissingOutSpec, urn.NewBuilder().In("media:").Marker("x")},
		{"a star is no media URN", urn.InvalidInSpec, urn.NewBuilder().In("*").Out("media:")},
		{"out is no media URN", urn.InvalidOutSpec, urn.NewBuilder().In("media:").Out("cap:x")},
		{"a reserved key", urn.InvalidTagFormat, urn.NewBuilder().In("media:").Out("media:").Tag("Out", "media:")},
		{"no value", urn.EmptyTagComponent, urn.NewBuilder().In("media:").Out("media:").Tag("x", "")},
		{"a numeric key", urn.NumericKey, urn.NewBuilder().In("media:").Out("media:").Marker("42")},
		{"an illegal key", urn.InvalidCharacter, urn.NewBuilder().In("media:").Out("media:").Marker("a b")},
		{"says nothing", urn.IllegalDeclaration, urn.NewBuilder().In("media:").Out("media:")},
		{"contradicts itself", urn.IllegalDeclaration,
			urn.NewBuilder().In("media:").Out("media:x").Effect(urn.EffectNone)},
		{"an unknown effect", urn.InvalidEffect, urn.NewBuilder().In("media:").Out("media:x").Effect(9)},
		{"the first error counts", urn.NumericKey, urn.NewBuilder().Marker("1").Marker("a b").In("x")},
	} {
		t.Run(bad.name, func(t *testing.T) {
			_, err := bad.b.Build()
			assert.Equal(t, bad.want, urn.ReasonOf(err), err)
		})
	}
}

func TestBuilderCanGoOnAfterBuild(t *testing.T) {
	b := urn.NewBuilder().In("media:").Out("media:").Marker("b").Marker("c").Marker("d")
	first, err := b.Build()
	require.NoError(t, err)
	second, err := b.Marker("a").Build()
	require.NoError(t, err)
	third, err := b.Tag("b", "1").Build()
	require.NoError(t, err)
	for want, c := range map[string]urn.Cap{"cap:b;c;d": first, "cap:a;b;c;d": second, "cap:a;b=1;c;d": third} {
		assert.Equal(t, want, c.String())
		assert.Equal(t, urn.MustCap(want).Tags(), c.Tags(), "the tags are the cap's own")
	}
}

func TestMediaBuilder(t *testing.T) {
	m, err := urn.NewMediaBuilder().Tag("Ext", "wav").Marker("audio").Tag("lossy", "!").Build()
	require.NoError(t, err)
	assert.Equal(t, "media:audio;ext=wav;!lossy", m.String())
	_, err = urn.NewMediaBuilder().Marker("void").Marker("x").Build()
	assert.ErrorIs(t, err, urn.VoidNotAtomic)
	_, err = urn.NewMediaBuilder().Tag("x", "").Marker("1").Build()
	assert.ErrorIs(t, err, urn.EmptyTagComponent)
	m, err = urn.NewMediaBuilder().Build()
	require.NoError(t, err)
	assert.Equal(t, "media:", m.String())
}

func TestCapOrder(t *testing.T) {
	want := []string{
		"cap:x", "cap:x=1", "cap:effect=none;x", "cap:effect=patch;x", "cap:?effect;x", "cap:out=media:a;x",
		"cap:in=media:a;x", "cap:in=media:a;out=media:a;x", `cap:in="media:a;b";x`, "cap:in=media:b;x",
	}
	caps := mustCaps(want...)
	slices.Reverse(caps)
	slices.SortFunc(caps, urn.Cap.Compare)
	var got []string
	for _, c := range caps {
		got = append(got, c.String())
	}
	assert.Equal(t, want, got)
}

func TestDispatchIsNotTransitive(t *testing.T) {
	a, b, c := urn.MustCap("cap:in=media:pdf;op"), urn.MustCap("cap:op"), urn.MustCap("cap:in=media:png;op")
	assert.True(t, a.IsDispatchable(b))
	assert.True(t, b.IsDispatchable(c))
	assert.False(t, a.IsDispatchable(c))
}

func TestStandardCapsServeNothingElse(t *testing.T) {
	request := urn.MustCap(`cap:in="media:void";nonexistent;out="media:void"`)
	for _, text := range []string{urn.Identity, urn.Discard, urn.AdapterSelection} {
		assert.False(t, urn.MustCap(text).IsDispatchable(request), text)
	}
}
