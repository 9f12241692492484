package conform

import (
	"encoding/json"
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func sample() *Report {
	return &Report{Cartridge: "./a<b", Name: "sample", Version: "1.2.3", Roles: map[string]string{"echo": "cap:echo"},
		Took: 1500 * time.Millisecond, Results: []Result{
			{ID: "one", Rule: "R-1.1", Title: "is fine", Verdict: Passed, Took: time.Second},
			{ID: "two", Rule: "R-1.2", Title: "is wrong", Verdict: Failed, Failure: &Failure{Expected: "seq 1", Seen: "seq 2", Frame: "end id=7",
				Frames: []string{"host→cartridge end", "cartridge→host end"}, Stderr: "a\nb\n"}},
			{ID: "three", Rule: "R-1.3", Title: "is missing", Verdict: Unchecked, Why: "no role"},
		}}
}

func TestTextShowsFailuresInFull(t *testing.T) {
	var b strings.Builder
	require.NoError(t, sample().WriteText(&b, false))
	text := b.String()
	for _, want := range []string{"FAIL       two", "R-1.2", "expected: seq 1", "seen:     seq 2", "frame:    end id=7",
		"cartridge→host end", "a\n", "unchecked  three", "no role",
		"1 passed, 1 failed, 1 unchecked: sample 1.2.3 (1.5s)"} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "is fine")
	require.NoError(t, sample().WriteText(&b, true))
	assert.Contains(t, b.String(), "is fine")
}

func TestJSONHoldsTheReport(t *testing.T) {
	var b strings.Builder
	require.NoError(t, sample().WriteJSON(&b))
	var again Report
	require.NoError(t, json.Unmarshal([]byte(b.String()), &again))
	assert.Equal(t, sample(), &again)
}

func TestJUnitIsOneSuite(t *testing.T) {
	var b strings.Builder
	require.NoError(t, sample().WriteJUnit(&b))
	var suite junitSuite
	require.NoError(t, xml.Unmarshal([]byte(b.String()), &suite))
	assert.Equal(t, []any{"bifaci conform ./a<b", 3, 1, 1, "1.500"}, []any{suite.Name, suite.Tests, suite.Failures, suite.Skipped, suite.Time})
	require.Len(t, suite.Cases, 3)
	assert.Nil(t, suite.Cases[0].Failure)
	assert.Contains(t, suite.Cases[1].Failure.Text, "seq 2")
	assert.Equal(t, "no role", suite.Cases[2].Skipped.Message)
}

func TestCapsAreReadStrictly(t *testing.T) {
	named, err := ReadCaps(strings.NewReader("# mine\n\necho=cap:in=\"media:\";out=\"media:\";mirror\n sink=cap:in=media:;swallow;out=media: \n"))
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"echo": `cap:in="media:";out="media:";mirror`, "sink": "cap:in=media:;swallow;out=media:"}, named)
	for _, bad := range []string{"echo", "mirror=cap:x", "echo=media:", "echo=", "=cap:x"} {
		_, err := ReadCaps(strings.NewReader("\n" + bad))
		assert.ErrorContains(t, err, "line 2", bad)
	}
}

func TestChecksHaveNamesAndRules(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Checks() {
		assert.False(t, seen[c.ID], "twice: %s", c.ID)
		seen[c.ID] = true
		assert.Regexp(t, `^[a-z0-9-]{3,26}$`, c.ID)
		assert.Regexp(t, `^(R-\d+\.\d+|wire \d+(\.\d+)?( L\d+(\.\d+)?)?)$`, c.Rule, c.ID)
		assert.NotEmpty(t, c.Title, c.ID)
		for _, role := range c.Needs {
			assert.Contains(t, Roles(), role, c.ID)
		}
	}
	_, err := choose([]string{"end-idle", "no-such-check"})
	assert.ErrorContains(t, err, "no-such-check")
}
