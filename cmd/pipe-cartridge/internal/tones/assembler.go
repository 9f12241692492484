package tones

import "math"

const (
	ms = sampleRate / 1000 // samples in a millisecond

	pauseDots    = 12 // a pause that ends a transmission in Morse, in dots, within the limits below
	pauseMorse   = 800 * ms
	pauseLongest = 1500 * ms
	pauseDTMF    = 1000 * ms
	longestWait  = 1000 * ms // a mark that sounds at the end of the pause holds it open no longer than that

	cutWordAfter = 12 * sampleRate // a transmission that long is cut at the next space between words,
	cutWordDots  = 5.5
	cutCharAfter = 60 * sampleRate // and that long at the next between characters
	cutCharDots  = 2.2
	cutAnyAfter  = 75 * sampleRate // and that long anywhere, so that memory is bounded; one in DTMF after cutCharAfter

	otherPitch = 40.0 // Hz from the last mark that make another station; a drifting one stays closer
	otherLevel = 12.0 // ratio of power, 11 dB, likewise
	bounce     = 25 * ms

	clutterSpan = 800 * ms  // around a short transmission that must be quiet
	clutterRoom = 10.0      // ratio of power, 10 dB, by which clutter must be weaker; white noise 6 dB below is by 14 dB
	clutterTurn = 150 * ms  // a turn to another pitch as quick as that is no other station but a voice or noise
	resumeSpan  = 3000 * ms // within which a transmission goes on with the pitch of the last
)

// reading is a transmission that was understood; times in samples since the origin.
type reading struct {
	start, end int64
	text       string
	confidence float64
}

// assembler puts marks together to transmissions and has them read. Its user takes what is in done and empties it.
type assembler struct {
	done []reading

	open     []tone // the transmission under way, all of one kind
	deadline int64  // when it ends, unless another mark sounds by then
	timing   timing // of open, when that is Morse
	setting  setting

	clutter tone // the strongest mark of late that was no signalling
	last    struct {
		hz, dot float64
		end     int64
	} // of the last transmission in Morse that was not short
}

// setting is what surrounds a transmission. It decides how much a short one must prove.
type setting struct {
	crowded bool // something that is no signalling was about as strong right before or after
	resumed bool // a transmission on the same pitch ended right before
}

// take adds a mark to the transmission it belongs to, after ending the one it does not belong to.
func (a *assembler) take(t tone) {
	if len(a.open) == 0 || t.kind == noise {
		a.settle(t)
		return
	}
	before := &a.open[len(a.open)-1]
	switch {
	case t.power*otherLevel < before.power && t.purity < surePurity:
		t.kind = noise // a shred of it between strong marks
	case t.kind != before.kind:
		a.finish()
	case t.kind == dtmf:
		if t.key == before.key && t.start-before.end < bounce {
			before.end = t.end
			a.deadline = t.end + pauseDTMF
			return
		}
	case math.Abs(t.hz-before.hz) > otherPitch || t.power*otherLevel < before.power || before.power*otherLevel < t.power:
		if t.start-before.end < clutterTurn {
			a.disturb(t)
		}
		a.finish()
	}
	a.settle(t)
}

// settle puts a mark where it belongs when nothing speaks against the transmission under way.
func (a *assembler) settle(t tone) {
	if t.kind == noise {
		a.disturb(t)
		return
	}
	a.add(t)
}

// add puts a mark at the end of the transmission under way or begins one with it.
func (a *assembler) add(t tone) {
	if len(a.open) == 0 {
		a.begin(t)
	}
	a.open = append(a.open, t)
	if t.kind == dtmf {
		if a.deadline = t.end + pauseDTMF; t.end-a.open[0].start >= cutCharAfter {
			a.finish()
		}
		return
	}
	if n := len(a.open); n > 1 {
		a.timing.space(secondsOf(t.start - a.open[n-2].end))
	}
	a.timing.mark(secondsOf(t.end - t.start))
	a.deadline = t.end + a.patience(t.end-a.open[0].start)
}

func (a *assembler) begin(t tone) {
	a.timing = timing{}
	a.setting = setting{crowded: t.start-a.clutter.end < clutterSpan && a.clutter.power*clutterRoom > t.power}
	if t.kind == morse && a.last.dot > 0 && math.Abs(t.hz-a.last.hz) < otherPitch {
		a.timing.known = a.last.dot
		a.setting.resumed = t.start-a.last.end < resumeSpan
	}
}

// patience is the pause in samples that ends a transmission in Morse which lasts that long so far.
func (a *assembler) patience(length int64) int64 {
	dot := a.timing.dot() * sampleRate
	switch {
	case length >= cutAnyAfter:
		return 0
	case length >= cutCharAfter:
		return int64(cutCharDots * dot)
	case length >= cutWordAfter:
		return int64(cutWordDots * dot)
	}
	return max(pauseMorse, min(pauseLongest, int64(pauseDots*dot)))
}

// disturb notes a mark that is no signalling.
func (a *assembler) disturb(t tone) {
	if n := len(a.open); n > 0 && t.start-a.open[n-1].end < clutterSpan && t.power*clutterRoom > a.open[n-1].power {
		a.setting.crowded = true
	}
	if t.power > a.clutter.power || t.end-a.clutter.end > clutterSpan {
		a.clutter = t
	}
}

// tick tells that all marks before now were taken, but for the one that began at since if sounding.
func (a *assembler) tick(now, since int64, sounding bool) {
	if len(a.open) == 0 || now <= a.deadline {
		return
	}
	if sounding && since <= a.deadline && now-since < longestWait {
		return // the mark may belong to the transmission
	}
	a.finish()
}

// interrupt tells that audio is missing and that samples count from a new origin. What is known of the last speed
// stays known.
func (a *assembler) interrupt() {
	a.finish()
	a.clutter = tone{end: -clutterSpan}
	a.last.end = -resumeSpan
}

// finish reads the transmission under way, if any.
func (a *assembler) finish() {
	if len(a.open) == 0 {
		return
	}
	r := reading{start: a.open[0].start, end: a.open[len(a.open)-1].end}
	last := a.open[len(a.open)-1]
	if last.kind == dtmf {
		r.text, r.confidence = readDTMF(a.open, a.setting)
	} else {
		var dot float64
		r.text, r.confidence, dot = readMorse(a.open, a.timing.known, a.setting)
		if r.text != "" && judge(a.open).length >= littleMorse {
			a.last.hz, a.last.dot, a.last.end = last.hz, dot, last.end
		}
	}
	a.open = a.open[:0]
	if r.text == "" {
		a.disturb(last)
		return
	}
	a.done = append(a.done, r)
}
