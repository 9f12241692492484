package tonegen

import (
	"math/rand/v2"
	"strings"
)

// RandomText draws groups of one to six characters out of everything [Morse] can key, with single spaces between them.
// The first group has at least three characters. No group is a word of a language, so nothing can be guessed from it.
func RandomText(seed uint64, groups int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789?/="
	random := rand.New(rand.NewPCG(seed, 0x74657874))
	words := make([]string, groups)
	for g := range words {
		length := 1 + random.IntN(6)
		if g == 0 {
			length = max(length, 3)
		}
		words[g] = draw(random, alphabet, length)
	}
	return strings.Join(words, " ")
}

// RandomKeys draws n keys of the DTMF keypad.
func RandomKeys(seed uint64, n int) string {
	return draw(rand.New(rand.NewPCG(seed, 0x6b657973)), "0123456789ABCD*#", n)
}

func draw(random *rand.Rand, alphabet string, n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte(alphabet[random.IntN(len(alphabet))])
	}
	return b.String()
}
