// Package tones is an engine that transcribes tone signalling: Morse code (ITU-R M.1677 letters, digits and marks, 10 to
// 35 words a minute with some margin, pitch 400 to 1000 Hz) and DTMF (all 16 keys). It finds pitch, speed and level by
// itself, and it knows nothing but the samples: no dictionary, no list of expected texts.
//
// A reader meets [Engine] first, then bank (samples to a spectrum every 2 ms), tracker (spectra to marks: stretches of
// tone with exact edges), listener (marks to utterances) and timing (lengths of marks and spaces to text).
//
// # What comes out
//
// One segment is one transmission of one kind. Its text has capitals, one space between words, and U+FFFD for a run of
// marks that is no Morse character. It ends
//
//   - after a pause of 12 dots, at least 0.8 s and at most 1.5 s (Morse), or 1 s (DTMF);
//   - where the kind, or for Morse the pitch, changes;
//   - at a gap in the audio and at its end;
//   - at the first space between words after 12 s, so that text comes out while a long transmission still goes on, and
//     at the first space between characters after 60 s; DTMF is cut between keys after 60 s.
//
// DTMF keys stand without spaces, whatever the pauses between them: a pause says nothing about meaning there.
//
// # What is ambiguous
//
// A transmission of equal marks with equal spaces, like S and TTT, fits two speeds, one three times the other; and a lone
// mark is E or T. What fits the last transmission on the same pitch better is taken, or what is closer to 20 words a
// minute when there was none.
//
// # Limits
//
// One tone at a time: two stations that key at once are not told apart. Tones weaker than -60 dB of full scale are not
// heard. Morse needs a tone about as strong as white noise over the whole 8 kHz; with less than 0.3 s of tone in all it
// needs one 4 dB stronger and quiet surroundings, because voices are full of short tones; even so a voice may give a lone
// E or T once in ten minutes or so. DTMF keys must sound for 40 ms. Memory is bounded whatever comes; one second of audio
// costs a few milliseconds of one processor. Nothing here starts a goroutine.
package tones
