package sphinx

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is also the program that stands in for pocketsphinx_continuous: started again with a role, the test binary
// plays it and ends.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		play, ok := roles[role]
		if !ok {
			fmt.Fprintf(os.Stderr, "no role %q\n", role)
			os.Exit(99)
		}
		play()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
