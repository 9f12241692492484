package feed

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// roleVariable makes the test binary play the program arecord: started again with a role, it plays it and ends.
const roleVariable = "FEED_TEST_ROLE"

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
