package feed

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

const (
	arecord        = "arecord" // the program, looked up in PATH
	arecordPackage = "alsa-utils"

	bufferTime     = 20 * time.Millisecond // of audio per item, cut to whole frames
	bytesPerSample = 2                     // s16le

	// What arecord takes. A smaller rate it reads as kHz.
	minSampleRate, maxSampleRate = 2000, 768_000
	maxChannels                  = 256
)

// microphone records through the program arecord, so it needs ALSA at run time and nothing at build time.
type microphone struct{}

// Open starts arecord and waits for the first audio, so that a device that is not there or does not have the format is
// an error of opening.
func (microphone) Open(ctx context.Context, s Selector) (Capture, error) {
	f, err := newPCMFormat(s)
	if err != nil {
		return Capture{}, err
	}
	if err := checkDevice(s.Device); err != nil {
		return Capture{}, err
	}
	path, err := exec.LookPath(arecord)
	if err != nil {
		return Capture{}, unavailable("microphone: no program %s, which is in the Debian package %s: %w", arecord, arecordPackage, err)
	}
	rec, err := startRecorder(ctx, path, f.arguments(s.Device))
	if err != nil {
		return Capture{}, unavailable("microphone: start %s: %w", path, err)
	}
	first, err := f.record(rec)
	if err != nil {
		rec.stop()
		return Capture{}, unavailable("microphone: %w", err)
	}
	return Capture{
		Meta: frame.Meta{"feed": "microphone", "sample_rate": integer(f.sampleRate), "channels": integer(f.channels), "sample_format": "s16le"},
		Run: func(_ context.Context, to *Sink) error { // the context is the recorder's, which ends with it
			defer rec.stop()
			return f.run(rec, first, to)
		},
	}, nil
}

// deviceName is what a device may be called: a PCM name of the ALSA configuration, with simple arguments.
var deviceName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_=,.-]+)?$`)

// checkDevice keeps everything else from ALSA, whose names are a language: they can define devices that write files and
// run commands, and a selector comes from whoever sends the request.
func checkDevice(device string) error {
	if device == "" || deviceName.MatchString(device) && !strings.HasPrefix(device, "file:") && !strings.HasPrefix(device, "tee:") {
		return nil
	}
	return selectorf("device %q, want the name of an ALSA capture device such as hw:1,0 or sysdefault:CARD=Device", quotable(device))
}

// pcmFormat is what is recorded and how it is cut.
type pcmFormat struct {
	sampleRate uint64 // Hz
	channels   uint64
}

func newPCMFormat(s Selector) (pcmFormat, error) {
	f := pcmFormat{sampleRate: 48_000, channels: 1}
	err := readParams(s.Params,
		param{"sample_rate", &f.sampleRate, minSampleRate, maxSampleRate},
		param{"channels", &f.channels, 1, maxChannels})
	return f, err
}

// frames is the number of sample frames in an item.
func (f pcmFormat) frames() uint64 { return f.sampleRate * uint64(bufferTime/time.Millisecond) / 1000 }

// itemTime is how much audio an item is.
func (f pcmFormat) itemTime() time.Duration {
	return time.Duration(f.frames()) * time.Second / time.Duration(f.sampleRate)
}

// arguments make arecord write raw samples to its output. It must not be quiet, for what it says is listened to.
func (f pcmFormat) arguments(device string) []string {
	args := []string{"-t", "raw", "-f", "S16_LE", "-r", fmt.Sprint(f.sampleRate), "-c", fmt.Sprint(f.channels),
		"-F", fmt.Sprint(bufferTime.Microseconds())}
	if device != "" {
		args = append(args, "--device="+device)
	}
	return args
}

// record reads one item.
func (f pcmFormat) record(rec *recorder) (Sample, error) {
	data := make([]byte, f.frames()*f.channels*bytesPerSample)
	if err := rec.read(data); err != nil {
		return Sample{}, err
	}
	if got := rec.log.actualRate(); got != 0 {
		return Sample{}, fmt.Errorf("the device records at %d Hz and not at %d; ask for that sample_rate, or for a device that converts (plughw)",
			got, f.sampleRate)
	}
	return Sample{Data: data, Captured: time.Now().Add(-f.itemTime()), Lost: f.items(rec.log.takeLost())}, nil
}

// run pushes the first item and all that follow. Their time is that of the samples and of what arecord says is lost
// between them; the wall clock is read at each, so that it does not drift with the device's clock.
func (f pcmFormat) run(rec *recorder, first Sample, to *Sink) error {
	x := first
	var position uint64 // of the item, in items since the start
	for {
		position += x.Lost
		x.PTS = f.timeAt(position)
		if !to.Push(x) {
			return nil
		}
		position++
		var err error
		if x, err = f.record(rec); err != nil {
			return fmt.Errorf("microphone: %w", err)
		}
	}
}

// timeAt is the beginning of an item, exact to the nanosecond at any position.
func (f pcmFormat) timeAt(item uint64) time.Duration {
	frames := item * f.frames()
	return time.Duration(frames/f.sampleRate)*time.Second + time.Duration(frames%f.sampleRate)*time.Second/time.Duration(f.sampleRate)
}

// items is how many items so much lost audio is; a loss is at least one.
func (f pcmFormat) items(lost time.Duration) uint64 {
	if lost <= 0 {
		return 0
	}
	item := f.itemTime()
	return uint64(max(1, (lost+item/2)/item))
}
