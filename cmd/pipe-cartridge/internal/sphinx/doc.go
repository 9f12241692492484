// Package sphinx is the pocketsphinx engine: open speech, or the sentences of a grammar, recognised by one child
// process per request, the program pocketsphinx_continuous of the Debian package of that name.
//
// A reader meets first [Config] and [Engine]. Transcribe is a small pipeline around the child:
//
//	audio ─▶ feeder goroutine ─▶ child's stdin ─▶ child ─▶ child's stdout ─▶ caller's goroutine ─▶ emit
//	                                                └─▶ child's stderr ─▶ log goroutine (tail, grammar errors)
//
// # Back-pressure
//
// Audio is pulled only as the child takes it: the pipe's buffer (64 KiB, two seconds, on Linux) is all that lies
// between. While emit waits no block is pulled at all.
//
// # Where an utterance ends
//
// Normally the program's own voice detection says so, half a second after the last word. It never cuts, so the feeder
// adds digital silence ([cutSilence]) where an utterance has to end for certain: at a gap in the audio, in a clear
// pause, and, when there was none for three quarters of Config.MaxUtterance, at the next quiet point, which is what
// counts as quiet growing until MaxUtterance is reached and any point will do. Where it is added depends on the
// samples only, never on how blocks are cut or on timing: the same audio gives the same segments.
//
// # Times
//
// The program's word times count every sample it was given, silence that it leaves out of the recognition included
// (measured: after a minute of silence the words were placed as exactly as before it). The feeder keeps a list of
// where added silence and gaps lie, and times are mapped back through it; a time inside added silence becomes that of
// the cut. A segment starts with its first word and ends with its last. Resolution is 10 ms; words are within some
// 50 ms of the truth in clean speech. The program prints seconds in single precision: 1 ms at three hours, 8 ms after
// a day, 60 ms after twelve.
//
// # How things end
//
// Whatever ends a call, the process group of the child is killed unless it has ended by itself, the child is waited
// for, the goroutines are joined and the temporary grammar is removed before Transcribe returns or its panic goes on.
// The one thing that cannot be interrupted from here is audio itself: a pull that waits has to be released by ctx,
// which the caller's sequence shares. A child that ends before its input has ended is a failure, with any status.
//
// Known limits: 110 MB of memory and about a fifth of a core per stream with the full language model; the first
// moments of loud noise may be heard as a word ("ah"). Confidence is the mean of the program's word posteriors; in
// grammar mode it prints 1 for everything, so none is reported.
package sphinx
