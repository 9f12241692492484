// Package wer scores a transcript against what was said: the number of words that have to be inserted, deleted or
// replaced. [Compare] is the whole of it; [Words] is how it reads a text. Nothing here blocks and nothing has state.
package wer
