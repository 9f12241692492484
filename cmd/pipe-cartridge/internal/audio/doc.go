// Package audio is the front end of the transcriber: bytes of a WAV stream or of raw PCM go in as they come, and
// blocks of mono audio at the engines' rate come out, at their right times.
//
// A reader meets first [DecodeWAV] and [DecodeRaw], which put the stages together; [WAV], [Converter] and [Resampler],
// the stages themselves; and [VAD], which marks the utterances in what they give:
//
//	bytes ─▶ WAV ─▶ Converter ─▶ Resampler ─▶ engine.Block ─▶ VAD ─▶ Mark
//	         raw ─▶
//
// A stage is a small state machine: it is fed with whatever has arrived and calls emit for whatever that makes ready.
// It starts no goroutine, never waits, and holds a bounded amount of what it has seen (a few KiB; at most [Limits]'
// TailBytes while something behind the samples looks like a chunk). How the input is cut makes no difference: the
// samples are the same to the last bit. Slices given to emit are valid until it returns. A stage serves one stream
// and is not safe for concurrent use.
//
// Input that is no audio, or audio of a kind nobody here can read, is a failure of class input that says what was
// found and what would be right (codes [CodeBad] and [CodeUnsupported]); it is never read as noise.
//
// Known limits: the data of one WAV data chunk is read, a second one is not; channels are mixed with equal weight
// whatever their position; when the header's length is wrong, the pad byte behind 8-bit mono samples of an odd number
// cannot be told from a sample if nothing follows it.
package audio
