package audio

// Sizes of a [Resampler]'s parts.
const (
	exactTableFloats = 1 << 17 // up to here there is a row of weights for every phase
	tablePhases      = 512     // otherwise so many, and what lies between is interpolated: −105 dB off
	minTablePhases   = 16
	outputFloats     = 2048 // emitted at once
	historyFloats    = 4096 // read before the history is moved down
)

// Resampler is the stage that changes the rate of mono audio. Output k belongs to the time k / to exactly, as input n
// belongs to n / from: the filter's delay is taken out, and positions are whole numbers, so nothing drifts. n inputs
// make ⌈n · to / from⌉ outputs. It needs a few milliseconds of audio behind a sample before it gives it.
//
// Up to 0.9 of the lower Nyquist frequency nothing changes; from that frequency on at least 70 dB are taken away,
// so nothing folds back. Equal rates pass through unchanged.
type Resampler struct {
	up, down int64 // to / from in lowest terms

	half   int         // samples of the input on either side of an output
	rows   [][]float32 // weights by phase; one row more than phases when interpolated
	phases int64       // 0: a row for each of up phases

	history []float32 // input, from half-1 before the next output's on
	at      int       // where in history the next output's window starts
	phase   int64     // of the next output, in units of 1/up of an input
	behind  int64     // how many inputs there are from the next output's place on
	out     []float32
}

// NewResampler makes the stage. Both rates must be from 1 to [MaxRate].
func NewResampler(from, to int) *Resampler {
	d := gcd(from, to)
	r := &Resampler{up: int64(to / d), down: int64(from / d)}
	if r.up == r.down {
		return r
	}
	filter := newLowpass(from, to)
	r.half = filter.half
	taps := 2 * r.half
	rows := int(r.up)
	if rows*taps > exactTableFloats {
		// A filter that is longer because it is slower needs fewer rows for the same exactness.
		r.phases = max(tablePhases*int64(to)/int64(max(from, to)), minTablePhases)
		rows = int(r.phases) + 1
	}
	table := make([]float32, rows*taps)
	r.rows = make([][]float32, rows)
	for i := range r.rows {
		r.rows[i] = table[i*taps : (i+1)*taps : (i+1)*taps]
		fraction := float64(i) / float64(r.up)
		if r.phases > 0 {
			fraction = float64(i) / float64(r.phases)
		}
		filter.taps(r.rows[i], fraction)
	}
	r.history = make([]float32, 0, 2*historyFloats+2*taps)
	r.out = make([]float32, 0, outputFloats)
	r.start()
	return r
}

// Feed takes the next inputs and emits the outputs they complete, at most a few thousand at once.
func (r *Resampler) Feed(in []float32, emit func([]float32) error) error {
	if r.rows == nil {
		return emit(in)
	}
	for len(in) > 0 {
		n := min(len(in), historyFloats)
		r.history = append(r.history, in[:n]...)
		r.behind += int64(n)
		in = in[n:]
		if err := r.produce(int64(r.half), emit); err != nil {
			return err
		}
		if r.at >= historyFloats {
			r.history = r.history[:copy(r.history, r.history[r.at:])]
			r.at = 0
		}
	}
	return nil
}

// Flush says that the input has ended here: it emits the outputs that were still waiting for what comes next, and
// starts anew, at time 0.
func (r *Resampler) Flush(emit func([]float32) error) error {
	if r.rows == nil {
		return nil
	}
	for range r.half {
		r.history = append(r.history, 0)
	}
	err := r.produce(0, emit)
	r.start()
	return err
}

// start forgets everything. In front of the first input there is silence.
func (r *Resampler) start() {
	r.history = r.history[:0]
	for range r.half - 1 {
		r.history = append(r.history, 0)
	}
	r.at, r.phase, r.behind = 0, 0, 0
}

// produce emits outputs as long as more than spare inputs lie behind them.
func (r *Resampler) produce(spare int64, emit func([]float32) error) error {
	taps := 2 * r.half
	for r.behind > spare {
		r.out = append(r.out, r.output(r.history[r.at:r.at+taps]))
		r.phase += r.down
		step := r.phase / r.up
		r.phase %= r.up
		r.at += int(step)
		r.behind -= step
		if len(r.out) == cap(r.out) {
			if err := r.emitOutputs(emit); err != nil {
				return err
			}
		}
	}
	return r.emitOutputs(emit)
}

func (r *Resampler) emitOutputs(emit func([]float32) error) error {
	if len(r.out) == 0 {
		return nil
	}
	out := r.out
	r.out = r.out[:0]
	return emit(out)
}

// output is the sample at phase behind the middle of window.
func (r *Resampler) output(window []float32) float32 {
	if r.phases == 0 {
		return dot(window, r.rows[r.phase])
	}
	position := r.phase * r.phases
	row, rest := position/r.up, position%r.up
	a := dot(window, r.rows[row])
	if rest == 0 {
		return a
	}
	b := dot(window, r.rows[row+1])
	return a + (b-a)*(float32(rest)/float32(r.up))
}

// dot is the sum of products of two slices of equal length, a multiple of 8. Its order never depends on anything else.
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	for len(a) >= 8 && len(b) >= 8 {
		s0 += a[0]*b[0] + a[4]*b[4]
		s1 += a[1]*b[1] + a[5]*b[5]
		s2 += a[2]*b[2] + a[6]*b[6]
		s3 += a[3]*b[3] + a[7]*b[7]
		a, b = a[8:], b[8:]
	}
	return (s0 + s1) + (s2 + s3)
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
