package wire

// Checksum is FNV-1a 64.
func Checksum(b []byte) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, c := range b {
		h ^= uint64(c)
		h *= 0x100000001b3
	}
	return h
}

// Checksum4 computes the checksums of four payloads of any lengths in one
// interleaved pass. One checksum is bound by the latency of its multiply;
// four at once keep the multiplier busy.
func Checksum4(p *[4][]byte) (sums [4]uint64) {
	const prime = 0x100000001b3
	const basis = 0xcbf29ce484222325
	n := min(len(p[0]), len(p[1]), len(p[2]), len(p[3]))
	a, b, c, d := uint64(basis), uint64(basis), uint64(basis), uint64(basis)
	p0, p1, p2, p3 := p[0][:n], p[1][:n], p[2][:n], p[3][:n]
	for i := range p0 {
		a = (a ^ uint64(p0[i])) * prime
		b = (b ^ uint64(p1[i])) * prime
		c = (c ^ uint64(p2[i])) * prime
		d = (d ^ uint64(p3[i])) * prime
	}
	sums = [4]uint64{a, b, c, d}
	for k := range p {
		for _, x := range p[k][n:] {
			sums[k] = (sums[k] ^ uint64(x)) * prime
		}
	}
	return sums
}
