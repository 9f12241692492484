//go:build unix

package feed

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// placeVariable names a folder that a role and its test share.
const placeVariable = "FEED_TEST_PLACE"

// roles are what the child does instead of recording. Samples count up from 0, so that a lost or moved byte shows.
var roles = map[string]func(){
	"record": func() {
		connect()
		place := os.Getenv(placeVariable)
		_ = os.WriteFile(filepath.Join(place, "arguments"), []byte(strings.Join(os.Args[1:], "\n")), 0o600)
		_ = os.WriteFile(filepath.Join(place, "language"), []byte(os.Getenv("LC_ALL")), 0o600)
		for n := 0; ; n++ {
			samples(n, 320)
			pace()
		}
	},
	"odd pieces": func() { // no write is an item, and none is whole samples
		var all []byte
		for i := range 5 * 320 {
			all = binary.LittleEndian.AppendUint16(all, uint16(i))
		}
		for len(all) > 0 {
			n := min(len(all), 333)
			_, _ = os.Stdout.Write(all[:n])
			all = all[n:]
			pace()
		}
		wait()
	},
	"refuse": func() {
		fmt.Fprintln(os.Stderr, "ALSA lib pcm.c:2666:(snd_pcm_open_noupdate) Unknown PCM nosuch\narecord: main:831: audio open error: No such file or directory")
		os.Exit(1)
	},
	"unplugged": func() { // an item and a half
		samples(0, 480)
		fmt.Fprintln(os.Stderr, "arecord: pcm_read:2221: read error: No such device")
		os.Exit(1)
	},
	"finished": func() { samples(0, 640) },
	"output closed": func() { // and goes on
		connect()
		samples(0, 640)
		_ = os.Stdout.Close()
		wait()
	},
	"silent": func() {
		connect()
		wait()
	},
	"overrun": func() {
		for n := 0; ; n++ {
			if n == 4 {
				fmt.Fprint(os.Stderr, "overrun!!! (at le")
				pace()
				fmt.Fprint(os.Stderr, "ast 61.250 ms long)\n")
			}
			samples(n, 320)
			pace()
		}
	},
	"another rate": func() {
		fmt.Fprintln(os.Stderr, "Warning: rate is not accurate (requested = 16000Hz, got = 44100Hz)\n         please, try the plug plugin")
		for n := 0; ; n++ {
			samples(n, 320)
			pace()
		}
	},
	"muted": func() { // no write ever tells it that nobody listens
		connect()
		samples(0, 960)
		wait()
	},
	"abandoned": func() { // it dies and leaves a child behind that never writes
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), roleVariable+"=hidden")
		output, _ := child.StdoutPipe()
		_ = child.Start()
		_, _ = io.ReadAll(output) // until it is connected
		samples(0, 640)
		os.Exit(3)
	},
	"hidden": func() {
		connect()
		_ = os.Stdout.Close()
		wait()
	},
	"escaped": func() { // it has left a child in another group with its output
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), roleVariable+"=until disconnected")
		child.Stdout = os.Stdout
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = child.Start()
		samples(0, 640)
		wait()
	},
	"until disconnected": func() {
		connect()
		_, _ = alive.Read(make([]byte, 1))
	},
	"wrapper": func() { // a script that has the recording done by a child of its own
		child := exec.Command(os.Args[0], os.Args[1:]...)
		child.Env = append(os.Environ(), roleVariable+"=muted")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		_ = child.Run()
	},
}

// samples writes item n of some samples.
func samples(n, count int) {
	var b []byte
	for i := range count {
		b = binary.LittleEndian.AppendUint16(b, uint16(n*count+i))
	}
	if _, err := os.Stdout.Write(b); err != nil {
		os.Exit(0)
	}
}

// pace lets a short time pass, as a device does; nothing depends on how long it is.
func pace() { time.Sleep(2 * time.Millisecond) }

// wait lasts until somebody ends the process; an hour is for a test that fails to.
func wait() { time.Sleep(time.Hour) }

// connect holds a connection to the test for as long as the process lives.
func connect() {
	if conn, err := net.Dial("unix", filepath.Join(os.Getenv(placeVariable), "alive")); err == nil {
		alive = conn
	}
}

var alive net.Conn // of a child; keeps the collector from closing it
