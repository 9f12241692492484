package urn_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

type helperRow struct{ Helper, Arg, URN string }

func callHelper(name, arg string) (string, error) {
	first, second, _ := strings.Cut(arg, "|")
	switch name {
	case "identity":
		return urn.Identity, nil
	case "discard":
		return urn.Discard, nil
	case "adapter_selection":
		return urn.AdapterSelection, nil
	case "llm_generate_text":
		return urn.LLMGenerateText, nil
	case "generate_thumbnail":
		return urn.GenerateThumbnailURN(arg)
	case "extract_metadata":
		return urn.ExtractMetadataURN(arg)
	case "extract_outline":
		return urn.ExtractOutlineURN(arg)
	case "disbind":
		return urn.DisbindURN(arg)
	case "render_page_image":
		return urn.RenderPageImageURN(arg)
	case "format_conversion":
		return urn.FormatConversionURN(first, second)
	case "coercion":
		return urn.CoercionURN(first, second)
	case "summarize":
		return urn.SummarizeURN(arg)
	case "file_media_urn_for_ext":
		return urn.FileMediaURN(arg)
	case "text_media_urn_for_ext":
		return urn.TextMediaURN(arg)
	case "image_media_urn_for_ext":
		return urn.ImageMediaURN(arg)
	case "audio_media_urn_for_ext":
		return urn.AudioMediaURN(arg)
	default:
		return urn.JudgmentURN(urn.Judgment(name), arg)
	}
}

func TestHelperVectors(t *testing.T) {
	for i, row := range vectors[helperRow](t, "urn_helpers.json", 45) {
		t.Run(fmt.Sprintf("%d/%s/%s", i, row.Helper, row.Arg), func(t *testing.T) {
			got, err := callHelper(row.Helper, row.Arg)
			require.NoError(t, err)
			assert.Equal(t, row.URN, got)
		})
	}
}

func TestHelpersRefuseWhatIsNoMedia(t *testing.T) {
	for _, name := range []string{"generate_thumbnail", "extract_metadata", "extract_outline", "disbind", "render_page_image"} {
		_, err := callHelper(name, "cap:x")
		assert.ErrorIs(t, err, urn.InvalidInSpec, name)
	}
	_, err := urn.FormatConversionURN("media:", "pdf")
	assert.ErrorIs(t, err, urn.InvalidOutSpec)
	_, err = urn.SummarizeURN("")
	assert.ErrorIs(t, err, urn.EmptyTagComponent)
	_, err = urn.FileMediaURN("")
	assert.ErrorIs(t, err, urn.EmptyTagComponent)
	_, err = urn.JudgmentURN("guess", "en")
	assert.ErrorIs(t, err, urn.InvalidTagFormat)
}

func TestCoercionNames(t *testing.T) {
	for name, media := range map[string]string{
		"string": urn.MediaString, "integer": urn.MediaInteger, "number": urn.MediaNumber, "boolean": urn.MediaBoolean,
		"object": urn.MediaObject, "string-list": urn.MediaStringList, "integer-array": urn.MediaIntegerList,
		"number-list": urn.MediaNumberList, "boolean-array": urn.MediaBooleanList, "object-list": urn.MediaObjectList,
	} {
		got, err := urn.CoercionURN(name, "object")
		require.NoError(t, err, name)
		assert.Equal(t, media, urn.MustCap(got).In().String(), name)
		assert.Equal(t, urn.MediaObject, urn.MustCap(got).Out().String(), name)
	}
	_, err := urn.CoercionURN("text", "object")
	assert.ErrorIs(t, err, urn.InvalidInSpec)
	_, err = urn.CoercionURN("object", "list")
	assert.ErrorIs(t, err, urn.InvalidOutSpec)
}

func TestMediaForExtensionIgnoresCase(t *testing.T) {
	got, err := urn.ImageMediaURN("PNG")
	require.NoError(t, err)
	assert.Equal(t, urn.MediaPNG, got)
}
