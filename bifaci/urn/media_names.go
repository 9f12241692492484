package urn

// Media URNs with a name (spec/urn.md 7.7), in canonical form.
const (
	MediaTop         = "media:" // any data
	MediaVoid        = "media:void"
	MediaString      = "media:enc=utf-8"
	MediaStringList  = "media:enc=utf-8;list"
	MediaInteger     = "media:integer;numeric"
	MediaIntegerList = "media:integer;list;numeric"
	MediaNumber      = "media:numeric"
	MediaNumberList  = "media:list;numeric"
	MediaBoolean     = "media:bool;enc=utf-8"
	MediaBooleanList = "media:bool;enc=utf-8;list"
	MediaObject      = "media:record"
	MediaObjectList  = "media:list;record"
	MediaList        = "media:list"

	MediaJSON      = "media:fmt=json;record"
	MediaJSONValue = "media:fmt=json"
	MediaYAML      = "media:fmt=yaml;record"
	MediaYAMLValue = "media:fmt=yaml"
	MediaCSV       = "media:fmt=csv;list;record"

	MediaPDF       = "media:ext=pdf"
	MediaEPUB      = "media:ext=epub"
	MediaTextFile  = "media:enc=utf-8;ext=txt"
	MediaMarkdown  = "media:enc=utf-8;ext=md"
	MediaPlainText = "media:enc=utf-8;ext=txt;plain-text"
	MediaTextPage  = "media:enc=utf-8;ext=txt;page;plain-text"
	MediaPNG       = "media:ext=png;image"
	MediaJPEG      = "media:ext=jpeg;image"
	MediaWAV       = "media:audio;ext=wav"
	MediaSpeech    = "media:audio;ext=wav;speech"
	MediaMP3       = "media:audio;ext=mp3"
	MediaMP4       = "media:ext=mp4;video"

	MediaFilePath         = "media:enc=utf-8;file-path"
	MediaTranscription    = "media:enc=utf-8;record;transcription"
	MediaAdapterSelection = "media:adapter-selection;fmt=json;record"
	MediaCapURN           = "media:cap-urn;enc=utf-8"
)
