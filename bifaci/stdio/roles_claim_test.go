package stdio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

const (
	strayFrames = 100
	strayBytes  = 1 << 20 // of each kind of stray print
)

// strayFrame stands for a frame: its number and a body that no print contains.
func strayFrame(i int) []byte {
	return fmt.Appendf(nil, "<%03d %s>", i, strings.Repeat("=", 200+i*37))
}

// playEcho copies its input to its output, and says on standard error that it is done.
func playEcho() int {
	if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
		return fail("copy", err)
	}
	fmt.Fprint(os.Stderr, "done")
	return 0
}

// playPrint prints to its standard output what a careless child prints.
func playPrint() int {
	if _, err := os.Stdout.Write(bytes.Repeat([]byte{'c'}, strayBytes)); err != nil {
		return fail("print", err)
	}
	return 0
}

// playStray writes frames while everything else in the process prints to what it takes for standard output.
func playStray() int {
	link, err := Claim()
	if err != nil {
		return fail("claim", err)
	}
	defer link.Close()
	printed := make(chan error, 4)
	go func() {
		_, err := fmt.Print(strings.Repeat("p", strayBytes))
		printed <- err
	}()
	go func() {
		printed <- log.New(os.Stdout, "", 0).Output(1, strings.Repeat("l", strayBytes-1)) // and a newline
	}()
	go func() {
		printed <- writeDescriptor1(bytes.Repeat([]byte{'r'}, strayBytes))
	}()
	go func() {
		cmd := exec.Command(os.Args[0])
		cmd.Env = childEnv("print")
		cmd.Stdout = os.Stdout
		printed <- cmd.Run()
	}()
	for i := range strayFrames {
		frame := strayFrame(i)
		if _, err := link.Out.WriteBuffers([][]byte{frame[:5], frame[5:]}); err != nil {
			return fail("write frame", err)
		}
	}
	for range cap(printed) {
		if err := <-printed; err != nil {
			return fail("print", err)
		}
	}
	return 0
}

// playDrain reads its standard input to the end; the status says whether there was anything.
func playDrain() int {
	n, err := io.Copy(io.Discard, os.Stdin)
	if err != nil {
		return fail("read", err)
	}
	if n > 0 {
		return 1
	}
	return 0
}

// playNoInput lets a handler and a child of it look for input before the link reads any.
func playNoInput() int {
	link, err := Claim()
	if err != nil {
		return fail("claim", err)
	}
	defer link.Close()
	if status := playDrain(); status != 0 {
		return fail("the process's own standard input", errors.New("not empty"))
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = childEnv("drain")
	cmd.Stdin = os.Stdin
	if err := cmd.Run(); err != nil {
		return fail("the child's standard input", err)
	}
	if _, err := io.Copy(link.Out, link.In); err != nil {
		return fail("echo", err)
	}
	return 0
}

// playIdle waits for input that never comes until it is asked to end.
func playIdle() int {
	link, err := Claim()
	if err != nil {
		return fail("claim", err)
	}
	defer link.Close()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	go func() {
		<-asked
		link.In.Interrupt()
	}()
	if _, err := link.Out.Write([]byte("ready")); err != nil {
		return fail("write", err)
	}
	_, err = link.In.Read(make([]byte, 1))
	if !errors.Is(err, ErrInterrupted) {
		return fail("read", err)
	}
	if _, err := link.Out.Write([]byte(", interrupted")); err != nil {
		return fail("write", err)
	}
	return 7
}

// playRestore takes the descriptors and gives them back.
func playRestore() int {
	link, err := Claim()
	if err != nil {
		return fail("claim", err)
	}
	fmt.Print("stray ")
	if err := link.Restore(); err != nil {
		return fail("restore", err)
	}
	if _, err := link.Out.Write([]byte("too late")); !errors.Is(err, os.ErrClosed) {
		return fail("write after restore", err)
	}
	if err := link.Restore(); !errors.Is(err, os.ErrClosed) {
		return fail("restore again", err)
	}
	if err := link.Close(); err != nil {
		return fail("close after restore", err)
	}
	return playEcho()
}
