// Package segment writes segments of a transcription as ndjson, text, srt or vtt.
//
// A reader meets first [NewFormatter] and [Formatter]: one item for each segment, as soon as it is there. Every item
// ends with a newline, and the items of one stream, put behind each other, are a valid file of the format; headers,
// numbers and the blank lines between cues belong to the items.
package segment
