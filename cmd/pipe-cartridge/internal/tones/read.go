package tones

import "math"

const (
	leastConfidence = 0.35 // less is not told
	clearPurity     = 0.95 // purity of a tone 6 dB above white noise, full marks
	mostWobble      = 0.20 // of a keyed tone's amplitude; 0.03 at 6 dB above white noise, narrow noise has 0.5
	pitchScale      = 6.0  // Hz from mark to mark at which the confidence has fallen to 37 %; keyed tones stay within 1
	levelScale      = 3.0  // dB from mark to mark, likewise
	residueScale    = 0.30 // residue, likewise; a hand that is 15 % off has 0.09
	mostUnknown     = 0.34 // share of the characters

	// What is short must be clearer, because noise and voices are full of short tones.
	littleMorse = sampleRate * 3 / 10 // samples with tone
	surePurity  = 0.88
	sureWobble  = 0.06
	sureLength  = 26 * ms // of a mark, in the mean
	littleDTMF  = 3       // keys
)

// readMorse gives the text of a transmission, how sure it is, and the seconds of a dot; no text when it is none. known
// is the dot of the last transmission on the same pitch, or 0.
func readMorse(tones []tone, known float64, around setting) (text string, confidence, dot float64) {
	q := judge(tones)
	d := decode(tones, known)
	confidence = q.confidence() * d.known * bell(d.residue/residueScale)
	if !around.resumed {
		confidence *= 1 - 0.5/float64(len(tones)) // a lone mark has no rhythm that could bear it out
	}
	if d.known < 1-mostUnknown || confidence < leastConfidence {
		return "", 0, 0
	}
	short := q.length < littleMorse && !around.resumed
	if short && (around.crowded || q.purity < surePurity || q.wobble > sureWobble || q.length < sureLength*int64(len(tones))) {
		return "", 0, 0
	}
	return d.text, confidence, d.dot
}

// readDTMF gives the keys of a transmission and how sure it is; no text when it is none.
func readDTMF(tones []tone, around setting) (text string, confidence float64) {
	q := judge(tones)
	confidence = q.confidence()
	if confidence < leastConfidence || q.purity < surePurity || len(tones) < littleDTMF && around.crowded {
		return "", 0
	}
	keys := make([]byte, len(tones))
	for i, t := range tones {
		keys[i] = t.key
	}
	return string(keys), confidence
}

// quality sums up how much like keyed tones the marks are.
type quality struct {
	length int64   // samples with tone
	purity float64 // mean
	wobble float64 // mean over the marks that are long enough to tell
	pitch  float64 // root mean square change from mark to mark, Hz; 0 for DTMF
	level  float64 // likewise, dB; 0 for DTMF, whose levels hang on the key
}

func judge(tones []tone) quality {
	var q quality
	var wobbling int64
	for i, t := range tones {
		length := t.end - t.start
		q.length += length
		q.purity += t.purity * float64(length)
		if t.wobble > 0 {
			q.wobble += t.wobble * float64(length)
			wobbling += length
		}
		if i > 0 && t.kind == morse {
			hz, level := t.hz-tones[i-1].hz, 10*math.Log10(t.power/tones[i-1].power)
			q.pitch += hz * hz
			q.level += level * level
		}
	}
	q.purity /= float64(max(q.length, 1))
	q.wobble /= float64(max(wobbling, 1))
	q.pitch = math.Sqrt(q.pitch / float64(max(len(tones)-1, 1)))
	q.level = math.Sqrt(q.level / float64(max(len(tones)-1, 1)))
	return q
}

// confidence is the product of what each measure allows, 0 to 1.
func (q quality) confidence() float64 {
	tone := (q.purity - leastPurity) / (clearPurity - leastPurity)
	return max(0, min(1, tone)) * bell(q.wobble/mostWobble) * bell(q.pitch/pitchScale) * bell(q.level/levelScale)
}

// bell falls from 1 at 0 through 0.37 at 1.
func bell(x float64) float64 { return math.Exp(-x * x) }
