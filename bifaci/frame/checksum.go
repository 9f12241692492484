package frame

// The constants of FNV-1a with 64 bits (spec/wire.md 8.1).
const (
	fnvOffset uint64 = 0xcbf29ce484222325
	fnvPrime  uint64 = 0x100000001b3
)

// Checksum is FNV-1a, 64 bit, of p: what key 16 of a CHUNK says about its payload (spec/wire.md 8.1).
func Checksum(p []byte) uint64 { return checksumOn(fnvOffset, p) }

func checksumOn(h uint64, p []byte) uint64 {
	for _, c := range p {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}

// Checksum4 sets sums[i] to the checksum of p[i], for any lengths. One hash is a chain of multiplications, each waiting
// for the one before; four chains side by side keep the multiplier busy, which makes four payloads cost about as much
// time as the longest alone.
func Checksum4(p *[4][]byte, sums *[4]uint64) {
	rest := *p
	*sums = [4]uint64{fnvOffset, fnvOffset, fnvOffset, fnvOffset}
	for {
		// The lanes that have bytes left, and how far they can go together.
		lanes, n, some := 0, 0, 0
		for i := range rest {
			if len(rest[i]) == 0 {
				continue
			}
			if lanes == 0 || len(rest[i]) < n {
				n = len(rest[i])
			}
			lanes, some = lanes+1, i
		}
		switch lanes {
		case 0:
			return
		case 1:
			sums[some] = checksumOn(sums[some], rest[some])
			return
		}
		// An empty lane hashes another's bytes into a sum nobody reads; that costs nothing beside the others.
		step, junk := rest, *sums
		for i := range step {
			if len(step[i]) == 0 {
				step[i] = rest[some]
			}
		}
		advance4(&step, n, &junk)
		for i := range rest {
			if len(rest[i]) > 0 {
				sums[i], rest[i] = junk[i], rest[i][n:]
			}
		}
	}
}

// advance4 takes n bytes of each lane into its sum.
func advance4(p *[4][]byte, n int, sums *[4]uint64) {
	a, b, c, d := p[0][:n], p[1][:n], p[2][:n], p[3][:n]
	ha, hb, hc, hd := sums[0], sums[1], sums[2], sums[3]
	for i := range a {
		ha = (ha ^ uint64(a[i])) * fnvPrime
		hb = (hb ^ uint64(b[i])) * fnvPrime
		hc = (hc ^ uint64(c[i])) * fnvPrime
		hd = (hd ^ uint64(d[i])) * fnvPrime
	}
	*sums = [4]uint64{ha, hb, hc, hd}
}
