package conform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/pools"
)

// roleVariable, when set, makes this binary something to be judged.
const roleVariable = "PIPE_TEST_CONFORM_ROLE"

// beRole is such a program.
func beRole(role string) {
	switch role {
	case "deaf": // reads, and says nothing
		_, err := io.Copy(io.Discard, os.Stdin)
		fmt.Fprintln(os.Stderr, "deaf:", err)
	case "dead":
		fmt.Fprintln(os.Stderr, "no licence")
		os.Exit(3)
	case "narrow": // an honest cartridge that serves one request at a time
		m := manifest.New("narrow", "1.0.0", "one at a time", manifest.DefaultGroup(manifest.IdentityCap())).
			WithPools(pools.Declarations{Capacities: map[string]uint64{"all": 1, identityCap: 1}})
		bifaci.MustNew(m).Main()
	}
	os.Exit(0)
}

func judged(t *testing.T, role string, opts Options) *Report {
	t.Helper()
	needsProcess(t)
	opts.Env = append(os.Environ(), roleVariable+"="+role, "GORACE=atexit_sleep_ms=0")
	report, err := Run(t.Context(), os.Args[0], opts)
	require.NoError(t, err)
	return report
}

func TestAProgramThatIsNoCartridgeFailsAndTheRestIsUnchecked(t *testing.T) {
	for role, opts := range map[string]Options{
		"dead": {Opening: goodPatience},
		"deaf": {Opening: 200 * time.Millisecond}, // how long it says nothing makes no difference
	} {
		t.Run(role, func(t *testing.T) {
			report := judged(t, role, opts)
			require.Equal(t, "becomes-live", report.Results[0].ID)
			assert.Equal(t, Failed, report.Results[0].Verdict)
			if role == "dead" {
				assert.Contains(t, report.Results[0].Failure.Stderr, "no licence")
			}
			for _, r := range report.Results {
				if r.ID == "end-idle" || r.ID == "cancel-words" {
					assert.Equal(t, Unchecked, r.Verdict, r.ID)
				}
			}
		})
	}
}

func TestACartridgeOfOnePlacePasses(t *testing.T) {
	report := judged(t, "narrow", Options{Patience: goodPatience, Only: []string{
		"duplex", "id-forms", "cancel-blocked", "capacities-unreadable", "heartbeat-under-load", "capacity-lowered", "end-complete",
		"end-cut", "queue-order"}})
	for _, r := range report.Results {
		assert.Equal(t, Passed, r.Verdict, "%s: %s\n%v", r.ID, r.Why, r.Failure)
	}
}

func TestWhatCannotBeJudgedIsAnError(t *testing.T) {
	_, err := Run(t.Context(), filepath.Join(t.TempDir(), "none"), Options{})
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = Run(t.Context(), os.Args[0], Options{Only: []string{"no-such-check"}})
	assert.ErrorContains(t, err, "no-such-check")
}

func TestRunEndsWithItsContext(t *testing.T) {
	needsProcess(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("enough")) })
	_, err := Run(ctx, os.Args[0], Options{Env: append(os.Environ(), roleVariable+"=deaf"), Patience: time.Hour})
	assert.ErrorIs(t, err, context.Canceled)
}
