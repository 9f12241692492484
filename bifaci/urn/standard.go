package urn

import "strings"

// Caps that every runtime knows, and the text generator (spec/urn.md section 13), in canonical form.
const (
	Identity         = "cap:effect=none"                                                                  // gives back what it gets
	Discard          = "cap:out=media:void"                                                               // takes anything, gives nothing
	AdapterSelection = `cap:out="media:adapter-selection;fmt=json;record"`                                // picks an adapter for a media
	LLMGenerateText  = `cap:generate-text;in="media:enc=utf-8";llm;ml-model;out="` + MediaPlainText + `"` // prompts a language model
)

// The functions below give the canonical URN of a standard cap. They take media URNs in any spelling; the error for one
// that is none is a *ParseError of kind InvalidInSpec or InvalidOutSpec.

// GenerateThumbnailURN is the cap that makes a small PNG of the media.
func GenerateThumbnailURN(media string) (string, error) {
	return standardCap("generate-thumbnail", media, "media:ext=png;image;thumbnail")
}

// ExtractMetadataURN is the cap that reads a file's metadata.
func ExtractMetadataURN(media string) (string, error) {
	return standardCap("extract-metadata", media, "media:enc=utf-8;file-metadata;record")
}

// ExtractOutlineURN is the cap that reads a document's outline.
func ExtractOutlineURN(media string) (string, error) {
	return standardCap("extract-outline", media, "media:document-outline;enc=utf-8;record")
}

// DisbindURN is the cap that takes a document apart into pages of text.
func DisbindURN(media string) (string, error) { return standardCap("disbind", media, MediaTextPage) }

// RenderPageImageURN is the cap that makes PNGs of a document's pages.
func RenderPageImageURN(media string) (string, error) {
	return standardCap("render-page-image", media, MediaPNG)
}

// FormatConversionURN is the cap that converts one media into another.
func FormatConversionURN(from, to string) (string, error) {
	return standardCap("convert-format", from, to)
}

// CoercionURN is the cap that coerces between two of the types string, integer, number, boolean and object, or lists of
// them: string-list or string-array, and so on. An unknown name is InvalidInSpec or InvalidOutSpec.
func CoercionURN(from, to string) (string, error) {
	in, ok := typeMedia(from)
	if !ok {
		return "", fault(InvalidInSpec, 0, "no type is named %s", quoted(from))
	}
	out, ok := typeMedia(to)
	if !ok {
		return "", fault(InvalidOutSpec, 0, "no type is named %s", quoted(to))
	}
	return standardCap("coerce", in, out)
}

func typeMedia(name string) (media string, ok bool) {
	if element, isArray := strings.CutSuffix(name, "-array"); isArray {
		name = element + "-list"
	}
	switch name {
	case "string":
		return MediaString, true
	case "string-list":
		return MediaStringList, true
	case "integer":
		return MediaInteger, true
	case "integer-list":
		return MediaIntegerList, true
	case "number":
		return MediaNumber, true
	case "number-list":
		return MediaNumberList, true
	case "boolean":
		return MediaBoolean, true
	case "boolean-list":
		return MediaBooleanList, true
	case "object":
		return MediaObject, true
	case "object-list":
		return MediaObjectList, true
	}
	return "", false
}

// Judgment is one of the standard judgments over text.
type Judgment string

// The judgments, named as their markers.
const (
	Classify  Judgment = "classify"
	Same      Judgment = "same"
	Score     Judgment = "score"
	Verify    Judgment = "verify"
	Route     Judgment = "route"
	Normalize Judgment = "normalize"
	Extract   Judgment = "extract"
	Ask       Judgment = "ask"
	Explain   Judgment = "explain"
)

// JudgmentURN is the cap that judges text in a language, which is a stored value such as "en". A judgment that is none of
// the above is InvalidTagFormat.
func JudgmentURN(judgment Judgment, language string) (string, error) {
	switch judgment {
	case Classify, Same, Score, Verify, Route, Normalize, Extract, Ask, Explain:
	default:
		return "", impossible(InvalidTagFormat, "no standard judgment is named %s", quoted(string(judgment)))
	}
	return languageCap(string(judgment), language, "media:fmt=json;record;semantic-judgment")
}

// SummarizeURN is the cap that summarizes text in a language, which is a stored value such as "en".
func SummarizeURN(language string) (string, error) {
	return languageCap("summarize", language, MediaPlainText)
}

func standardCap(marker, in, out string) (string, error) {
	c, err := NewBuilder().Marker(marker).In(in).Out(out).Build()
	return c.text, err
}

func languageCap(marker, language, out string) (string, error) {
	c, err := NewBuilder().Marker(marker).Marker("constrained").Tag("language", language).In(MediaString).Out(out).Build()
	return c.text, err
}

// The functions below give the canonical media URN for a file name extension without its dot; its case does not count.

// FileMediaURN is a file of that type.
func FileMediaURN(ext string) (string, error) { return extensionMedia(ext) }

// TextMediaURN is a text file of that type.
func TextMediaURN(ext string) (string, error) { return extensionMedia(ext, "enc", "utf-8") }

// ImageMediaURN is an image file of that type.
func ImageMediaURN(ext string) (string, error) { return extensionMedia(ext, "image", storedPresent) }

// AudioMediaURN is a sound file of that type.
func AudioMediaURN(ext string) (string, error) { return extensionMedia(ext, "audio", storedPresent) }

func extensionMedia(ext string, more ...string) (string, error) {
	b := NewMediaBuilder().Tag("ext", strings.ToLower(ext))
	for i := 0; i+1 < len(more); i += 2 {
		b.Tag(more[i], more[i+1])
	}
	m, err := b.Build()
	return m.text, err
}
