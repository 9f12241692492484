package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

type effectQuestion struct {
	Cap        *string    `json:"cap"`
	InputMedia *string    `json:"input_media"`
	Emissions  []emission `json:"emissions"`
}

// emission is a media that the cap might emit. In a question it may be the bare text as well.
type emission struct {
	Media      string `json:"media"`
	Conformant bool   `json:"conformant"`
}

func (e *emission) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &e.Media); err == nil {
		return nil
	}
	var object struct {
		Media *string `json:"media"`
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	media, err := textMember("emissions.media", object.Media)
	e.Media = media
	return err
}

type effectAnswer struct {
	OutputMedia   urn.Media  `json:"output_media,omitzero"`
	Error         urn.Reason `json:"error,omitempty"`
	ResponseMedia urn.Media  `json:"response_media,omitzero"`
	ResponseError urn.Reason `json:"response_error,omitempty"`
	Emissions     []emission `json:"emissions,omitempty"`
}

func (q effectQuestion) answer() (any, error) {
	c, err := capMember("cap", q.Cap)
	if err != nil {
		return nil, err
	}
	input, err := mediaMember("input_media", q.InputMedia)
	if err != nil {
		return nil, err
	}
	var a effectAnswer
	a.ResponseMedia, err = c.ResponseMedia()
	a.ResponseError = urn.ReasonOf(err)
	a.OutputMedia, err = c.Infer(input)
	if a.Error = urn.ReasonOf(err); a.Error != "" {
		return a, nil
	}
	for _, e := range q.Emissions {
		emitted, err := urn.ParseMedia(e.Media)
		if err != nil {
			return nil, err
		}
		if e.Conformant, err = c.IsConformantOutput(input, emitted); err != nil {
			return nil, err
		}
		a.Emissions = append(a.Emissions, e)
	}
	return a, nil
}

// mediaQuestion asks for a join when it has inputs, and for predicates otherwise.
type mediaQuestion struct {
	Inputs *[]string `json:"inputs"`
	Media  *string   `json:"media"`
}

type joinAnswer struct {
	Join urn.Media `json:"join"`
}

type predicatesAnswer struct {
	Predicates map[string]bool `json:"predicates"`
	Extension  *string         `json:"extension,omitempty"`
}

func (q mediaQuestion) answer() (any, error) {
	if q.Inputs != nil {
		inputs := make([]urn.Media, len(*q.Inputs))
		for i, spelling := range *q.Inputs {
			var err error
			if inputs[i], err = urn.ParseMedia(spelling); err != nil {
				return nil, err
			}
		}
		return joinAnswer{urn.Join(inputs...)}, nil
	}
	m, err := mediaMember("media", q.Media)
	if err != nil {
		return nil, err
	}
	a := predicatesAnswer{Predicates: map[string]bool{
		"is_top": m.IsTop(), "is_void": m.IsVoid(), "is_list": m.IsList(), "is_scalar": m.IsScalar(),
		"is_record": m.IsRecord(), "is_opaque": m.IsOpaque(), "is_json": m.IsJSON(), "is_yaml": m.IsYAML(),
		"is_csv": m.IsCSV(), "is_image": m.IsImage(), "is_audio": m.IsAudio(), "is_video": m.IsVideo(),
		"is_numeric": m.IsNumeric(), "is_bool": m.IsBool(), "is_file_path": m.IsFilePath(), "is_live_feed": m.IsLiveFeed(),
	}}
	if extension, ok := m.Extension(); ok {
		a.Extension = &extension
	}
	return a, nil
}

type helperQuestion struct {
	Helper *string `json:"helper"`
	Arg    string  `json:"arg"` // two arguments have a "|" between them
}

type helperAnswer struct {
	URN string `json:"urn"`
}

func (q helperQuestion) answer() (any, error) {
	name, err := textMember("helper", q.Helper)
	if err != nil {
		return nil, err
	}
	result, err := callHelper(name, q.Arg)
	return helperAnswer{result}, err
}

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
	case "classify", "same", "score", "verify", "route", "normalize", "extract", "ask", "explain":
		return urn.JudgmentURN(urn.Judgment(name), arg)
	case "file_media_urn_for_ext":
		return urn.FileMediaURN(arg)
	case "text_media_urn_for_ext":
		return urn.TextMediaURN(arg)
	case "image_media_urn_for_ext":
		return urn.ImageMediaURN(arg)
	case "audio_media_urn_for_ext":
		return urn.AudioMediaURN(arg)
	}
	return "", fmt.Errorf("helper %q is unknown", name)
}
