package stdio

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
)

// childRoles are what the test binary plays when it is started as a child; the result is its exit status.
func childRoles() map[string]func() int {
	roles := map[string]func() int{
		"exit 3":   func() int { return 3 },
		"echo":     playEcho,
		"forever":  playForever,
		"family":   playFamily,
		"orphans":  playOrphans,
		"print":    playPrint,
		"idle":     playIdle,
		"restore":  playRestore,
		"stray":    playStray,
		"drain":    playDrain,
		"no input": playNoInput,
	}
	maps.Copy(roles, systemRoles())
	return roles
}

// fail says on standard error why a role cannot be played on.
func fail(what string, err error) int {
	fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
	return 99
}

// playForever ends for nobody but SIGKILL: neither for the end of its input nor for being asked.
func playForever() int {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked)
	fmt.Println("ready")
	for range asked {
		continue
	}
	return 0
}

// startForever starts a grandchild that holds on to all of its parent's descriptors, and returns when it is there.
func startForever() error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = childEnv("forever")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Start()
}

func playFamily() int {
	if err := startForever(); err != nil {
		return fail("start grandchild", err)
	}
	return playForever()
}

func playOrphans() int {
	if err := startForever(); err != nil {
		return fail("start grandchild", err)
	}
	return 0
}
