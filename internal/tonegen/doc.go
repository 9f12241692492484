// Package tonegen makes tone signalling and the files that carry it: Morse code and DTMF with the truth of what was sent
// and when, noise of several kinds, samples in every PCM format, and WAV headers regular and odd. Tests and the demo use
// it to feed the transcriber with recordings whose right answer is known.
//
// A reader meets [Signal], [Morse] and [Encode] first. Everything is pure: the same arguments give the same samples, and
// randomness comes only from seeds that the caller names. Nothing here blocks or starts a goroutine.
//
// The package knows nothing of any decoder and shares no code or table with one, so that a mistake in one of them
// cannot hide behind the same mistake in the other.
package tonegen
