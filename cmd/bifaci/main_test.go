package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

// TestMain is also the cartridge that the tests of run start: this binary, started again with a variable set.
func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		newRoleCartridge().Main()
	}
	goleak.VerifyTestMain(m)
}

// buffer is written to by several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// dispatched runs a command line of bifaci.
func dispatched(ctx context.Context, stdin io.Reader, words ...string) (status int, stdout, stderr string) {
	var out, errs buffer
	status = dispatch(ctx, words, streams{stdin, &out, &errs})
	return status, out.String(), errs.String()
}

func TestDispatch(t *testing.T) {
	for name, row := range map[string]struct {
		words    []string
		status   int
		out, err string
	}{
		"no word":      {nil, statusUsage, "", "usage: bifaci COMMAND"},
		"help":         {[]string{"help"}, statusOK, "usage: bifaci COMMAND", ""},
		"--help":       {[]string{"--help"}, statusOK, "usage: bifaci COMMAND", ""},
		"-h":           {[]string{"-h"}, statusOK, "usage: bifaci COMMAND", ""},
		"unknown word": {[]string{"fly"}, statusUsage, "", `unknown sub-command "fly"`},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, errs := dispatched(t.Context(), strings.NewReader(""), row.words...)
			assert.Equal(t, row.status, status)
			assert.Contains(t, out, row.out)
			assert.Contains(t, errs, row.err)
			assert.Equal(t, row.out == "", out == "")
			assert.Equal(t, row.err == "", errs == "")
		})
	}
	var out buffer
	usage(&out)
	for _, c := range commands() {
		assert.Contains(t, out.String(), c.usage)
	}
}
