package transcripts

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// scriptVariable names the transcript whose cartridge this process is to play.
const scriptVariable = "PIPE_TRANSCRIPT"

func TestMain(m *testing.M) {
	if name := os.Getenv(scriptVariable); name != "" {
		play(name) // ends the process
	}
	goleak.VerifyTestMain(m)
}
