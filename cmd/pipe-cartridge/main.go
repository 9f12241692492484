// Command pipe-cartridge is the reference cartridge: a transcriber that gives text out while the audio is still arriving, and
// two small text capabilities. Without arguments it speaks frames on standard input and output, with arguments it is a
// command-line tool; see pipe-cartridge --help.
package main

import "github.com/pipe-cartridge/pipe/bifaci"

func main() { newCartridge().Main() }

// newCartridge joins the manifest with its handlers.
func newCartridge() *bifaci.Cartridge {
	c := bifaci.Must(bifaci.New(newManifest()))
	c.HandleFunc(transcribeURN, transcribe)
	c.HandleFunc(listenURN, listen)
	c.HandleFunc(wordsURN, words)
	c.HandleFunc(upperURN, upper)
	return c
}
