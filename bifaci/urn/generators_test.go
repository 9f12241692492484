package urn_test

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// Generators draw from few keys and values, so that URNs often have to do with each other.

// storedGenerator draws a stored value of any form.
func storedGenerator() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		value := rapid.SampledFrom([]string{"1", "2", "B c"}).Draw(t, "value")
		switch rapid.IntRange(0, 5).Draw(t, "form") {
		case 0:
			return "?"
		case 1:
			return "?=" + value
		case 2:
			return "*"
		case 3:
			return "!=" + value
		case 4:
			return "!"
		default:
			return value
		}
	})
}

func tagsGenerator() *rapid.Generator[map[string]string] {
	return rapid.MapOfN(rapid.SampledFrom([]string{"p", "q", "r"}), storedGenerator(), 0, 3)
}

func mediaGenerator() *rapid.Generator[urn.Media] {
	return rapid.Custom(func(t *rapid.T) urn.Media {
		m, err := urn.MediaFromTags(tagsGenerator().Draw(t, "tags"))
		if err != nil {
			panic(fmt.Sprint("generator made an illegal media URN: ", err))
		}
		return m
	})
}

// capGenerator draws legal caps; what the parts do not allow is drawn again.
func capGenerator() *rapid.Generator[urn.Cap] {
	draw := rapid.Custom(func(t *rapid.T) urn.Cap {
		effect := rapid.SampledFrom([]urn.Effect{urn.EffectDeclared, urn.EffectDeclared, urn.EffectNone, urn.EffectPatch, urn.EffectAny})
		c, err := urn.NewCap(mediaGenerator().Draw(t, "in"), mediaGenerator().Draw(t, "out"),
			effect.Draw(t, "effect"), tagsGenerator().Draw(t, "tags"))
		if err != nil {
			return urn.Cap{}
		}
		return c
	})
	return draw.Filter(func(c urn.Cap) bool { return !c.IsZero() })
}
