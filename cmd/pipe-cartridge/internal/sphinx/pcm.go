package sphinx

import "math"

// fullScale is what a sample of 1 becomes: the inverse of the usual reading of 16-bit audio, so that 16-bit input goes
// through unchanged. +1 itself is clipped to 32 767.
const fullScale = 32768

// toS16 rounds a sample to 16 bits and clips it. A sample that is no number is silence.
func toS16(sample float32) int16 {
	if sample != sample {
		return 0
	}
	return int16(max(math.MinInt16, min(math.MaxInt16, math.Round(float64(sample)*fullScale))))
}
