package conform

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pipe-cartridge/pipe/test/peer"
)

// programs are built when they are first asked for, without the race detector.
var programs peer.Programs

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		beRole(role)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		if err := programs.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = max(status, 1)
		}
		os.Exit(status)
	}))
}

func needsProcess(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
}

// caught has, for each defect of test/faulty, the check that is named for it.
var caught = map[string]string{
	"seq-gap":                      "seq-without-gap",
	"seq-from-one":                 "seq-without-gap",
	"seq-on-control":               "seq-of-control",
	"frame-after-terminal":         "terminal-is-last",
	"two-terminals":                "one-terminal",
	"end-without-exit-code":        "end-exit-code",
	"chunk-count-wrong":            "chunk-count",
	"chunk-count-missing":          "chunk-count",
	"index-repeated":               "chunk-index",
	"checksum-of-inner-bytes":      "chunk-checksum",
	"payload-unwrapped":            "scalar-payload",
	"chunk-with-len":               "chunk-keys",
	"routing-forgotten-on-err":     "routing-on-err",
	"routing-forgotten-on-log":     "routing-on-log",
	"routing-forgotten-on-credit":  "routing-on-credit",
	"routing-forgotten-on-chunk":   "routing-on-data",
	"grant-without-stream":         "grant-stream",
	"grant-without-direction":      "grant-direction",
	"media-urn-generic":            "start-fields",
	"stream-left-open":             "stream-order",
	"class-invented":               "err-shape",
	"log-without-class":            "log-shape",
	"duplicate-key-sent":           "frames-decode",
	"frames-interleaved":           "frames-decode",
	"hello-twice":                  "hello-once",
	"credit-invented":              "grant-once",
	"response-window-one-off":      "response-window",
	"response-window-ignored":      "response-window",
	"credit-on-arrival":            "credit-on-reading",
	"window-not-enforced":          "window-enforced",
	"window-one-off":               "window-exact",
	"batch-never-flushed":          "grants-flushed",
	"no-credit-for-discarded":      "discard-credits",
	"policy-ignored":               "policy-live",
	"early-req-dispatched":         "early-req-refused",
	"early-req-answered-twice":     "early-req-once",
	"duplicate-key-accepted":       "cbor-duplicate-key",
	"prefix-not-checked":           "prefix-too-large",
	"status-0-after-broken-input":  "broken-input-status",
	"heartbeat-behind-handlers":    "heartbeat-under-load",
	"heartbeat-answered-twice":     "heartbeat-once",
	"reply-without-pools":          "heartbeat-reply",
	"unknown-pool-half-applied":    "capacities-all-or-none",
	"arrival-overtakes":            "arrival-no-overtake",
	"panic-leaks-slot":             "panic-frees",
	"cancel-leaks-slot":            "slot-freed",
	"self-report-wakes-nobody":     "self-report-wakes",
	"notice-without-position":      "queue-notice",
	"notice-names-own-pool":        "shared-pool",
	"dequeued-late":                "dequeued-first",
	"cancel-answered-early":        "cancel-after-handler",
	"cancel-text-invented":         "cancel-waiting",
	"cancel-class-lost":            "cancel-words",
	"second-cancel-answered":       "cancel-once",
	"close-stream-cancels":         "close-stream-ignored",
	"close-stream-ignored":         "feed-close",
	"close-stream-forgets-waiting": "feed-close-early",
	"failure-class-lost":           "failure-identity",
	"item-meta-lost":               "echo-borders",
	"stream-meta-lost":             "identity-meta",
	"tail-lost":                    "tokens-whole",
	"peer-with-routing":            "peer-call",
	"peer-without-parent":          "peer-call",
	"peer-grants-misdirected":      "peer-answer",
	"peer-not-cancelled":           "cancel-cascade",
	"peer-status-ignored":          "peer-end-status",
	"peer-answer-not-checked":      "peer-answer-checked",
	"checksum-not-checked":         "checksum-checked",
	"count-not-checked":            "count-checked",
	"index-not-checked":            "index-checked",
	"open-streams-forgiven":        "streams-checked",
	"empty-payload-accepted":       "payload-checked",
	"duplicate-req-ignored":        "duplicate-req",
	"body-err-taken-for-end":       "body-err",
	"req-payload-ignored":          "req-checked",
	"straggler-answered":           "stragglers-silent",
	"unknown-id-answered":          "unknown-silent",
	"reused-id-muted":              "reused-id",
	"second-hello-ignored":         "second-hello",
	"credit-undirected-guessed":    "credit-undirected",
	"relay-frames-ignored":         "relay-frames",
	"malformed-policy-ignored":     "policy-malformed",
	"max-frame-exceeded":           "max-frame",
	"max-chunk-exceeded":           "max-chunk",
	"hangs-at-end-of-input":        "end-idle",
	"answers-dropped-at-end":       "end-complete",
	"cut-body-taken-for-whole":     "end-cut",
	"killed-by-closed-output":      "closed-output",
	"prints-between-frames":        "stray-print",
	"identity-from-constant":       "identity-copies",
	"identity-before-policy-only":  "identity-after-policy",
	"hello-too-early":              "hello-after-hosts",
	"version-262-accepted":         "hello-version",
}

// silent are the defects that show by nothing coming: their checks wait in vain, so they wait for a short time only. All others show
// by something that comes, however long that takes.
var silent = map[string]bool{
	"batch-never-flushed": true, "cancel-leaks-slot": true, "close-stream-forgets-waiting": true, "close-stream-ignored": true,
	"hangs-at-end-of-input": true, "heartbeat-behind-handlers": true, "no-credit-for-discarded": true, "panic-leaks-slot": true,
	"policy-ignored": true, "prefix-not-checked": true, "reused-id-muted": true, "self-report-wakes-nobody": true,
}

// faultyPath is the program with the defects.
func faultyPath(t *testing.T) string { return programs.Path(t, "test/faulty") }

// TestEveryDefectIsCaughtByItsCheck plants each defect and makes the one check that is to find it.
func TestEveryDefectIsCaughtByItsCheck(t *testing.T) {
	needsProcess(t)
	list, err := exec.CommandContext(t.Context(), faultyPath(t), "list").Output()
	require.NoError(t, err)
	known := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		name, _, _ := strings.Cut(line, "\t")
		known[name] = true
		assert.NotEmpty(t, caught[name], "the check for defect %s", name)
	}
	places := make(chan struct{}, DefaultJobs)
	var runs sync.WaitGroup
	reports := map[string]*Report{}
	var mu sync.Mutex
	for defect, id := range caught {
		if !assert.True(t, known[defect], "the defect %s is one of test/faulty", defect) {
			continue
		}
		places <- struct{}{}
		patience := goodPatience
		if silent[defect] {
			patience = silencePatience
		}
		runs.Go(func() {
			defer func() { <-places }()
			report, err := Run(t.Context(), faultyPath(t), Options{Only: []string{id}, Jobs: 1, Patience: patience, Opening: goodPatience,
				Env: append(os.Environ(), "FAULTY_DEFECT="+defect)})
			if assert.NoError(t, err, defect) {
				mu.Lock()
				reports[defect] = report
				mu.Unlock()
			}
		})
	}
	runs.Wait()
	for defect, report := range reports {
		t.Run(defect, func(t *testing.T) {
			result := report.Results[len(report.Results)-1] // the first may be that it does not become live
			require.Equal(t, caught[defect], result.ID)
			t.Logf("%s: %s (%v)", result.ID, result.Verdict, result.Took)
			if result.Failure != nil {
				t.Log(result.Failure)
			}
			require.Equal(t, Failed, result.Verdict, "%s: %s", result.ID, result.Why)
			inVain := strings.Contains(result.Failure.Seen, inVain)
			assert.Equal(t, silent[defect], inVain, "nothing came: %s", result.Failure.Seen)
		})
	}
}

// TestNoFalseAlarm holds the good cartridges against every check.
func TestNoFalseAlarm(t *testing.T) {
	needsProcess(t)
	named := slices.Compact(slices.Sorted(maps.Values(caught)))
	for _, c := range []struct {
		pkg       string
		only      []string
		unchecked bool // some caps are missing
	}{
		{"test/probecartridge", nil, false},
		{"test/faulty", named, false}, // without a defect the relay changes nothing
		{"cmd/pipe-cartridge", nil, true},
	} {
		t.Run(path.Base(c.pkg), func(t *testing.T) {
			report, err := Run(t.Context(), programs.Path(t, c.pkg), Options{Only: c.only, Patience: goodPatience})
			require.NoError(t, err)
			for _, r := range report.Results {
				if r.Verdict == Failed || r.Verdict == Unchecked && !c.unchecked {
					t.Errorf("%s: %s %s\n%v", r.ID, r.Verdict, r.Why, r.Failure)
				}
			}
			assert.Greater(t, report.Count(Passed), 30)
		})
	}
}

const (
	goodPatience    = time.Minute     // far above what anything takes
	silencePatience = 4 * time.Second // for what does not come; see silent
)
