package bench

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/pipe-cartridge/pipe/test/probecartridge/probe"
)

// childEnv makes the test binary the cartridge that a benchmark starts.
const childEnv = "PIPE_BENCH_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		probe.New().Main()
		return
	}
	goleak.VerifyTestMain(m)
}
