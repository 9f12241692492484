package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// goldenRows gives the rows of a vector file, or of one list in it.
func goldenRows(t *testing.T, file, list string) []map[string]any {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "test", "vectors", file))
	require.NoError(t, err)
	if list != "" {
		var lists map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(content, &lists))
		content = lists[list]
	}
	var rows []map[string]any
	require.NoError(t, json.Unmarshal(content, &rows))
	return rows
}

func runURNOn(in io.Reader) (status int, answers []string, stderr string) {
	var out, errs bytes.Buffer
	status = runURN(context.Background(), nil, streams{in, &out, &errs})
	if text := strings.TrimSuffix(out.String(), "\n"); text != "" {
		answers = strings.Split(text, "\n")
	}
	return status, answers, errs.String()
}

func TestURNAnswersEveryVector(t *testing.T) {
	for _, c := range []struct {
		op, file, list string
		rows           int
		asked          []string // members of the row that belong to the question
	}{
		{"parse", "urn_parse.json", "", 358, []string{"input", "kind"}},
		{"relation", "urn_relations.json", "", 220, []string{"instance", "pattern"}},
		{"dispatch", "urn_dispatch.json", "", 556, []string{"candidate", "request"}},
		{"rank", "urn_rank.json", "", 83, []string{"candidates", "request", "preferred"}},
		{"effect", "urn_effect.json", "", 91, []string{"cap", "input_media"}},
		{"media", "urn_media.json", "least_upper_bound", 15, []string{"inputs"}},
		{"media", "urn_media.json", "predicates", 16, []string{"media"}},
		{"helper", "urn_helpers.json", "", 45, []string{"helper", "arg"}},
	} {
		t.Run(c.file+c.list, func(t *testing.T) {
			rows := goldenRows(t, c.file, c.list)
			require.Len(t, rows, c.rows)
			var input bytes.Buffer
			lines := json.NewEncoder(&input)
			want := make([]map[string]any, len(rows))
			for i, row := range rows {
				question := map[string]any{"op": c.op}
				want[i] = map[string]any{}
				for member, value := range row {
					switch {
					case slices.Contains(c.asked, member):
						question[member] = value
					case member == "emissions":
						question[member] = withoutVerdicts(value.([]any), i%2 == 0)
						want[i][member] = value
					default:
						want[i][member] = value
					}
				}
				require.NoError(t, lines.Encode(question))
			}
			status, answers, stderr := runURNOn(&input)
			assert.Equal(t, statusOK, status)
			assert.Empty(t, stderr)
			require.Len(t, answers, len(rows))
			for i := range rows {
				var got map[string]any
				require.NoError(t, json.Unmarshal([]byte(answers[i]), &got))
				assert.Equal(t, want[i], got, "row %d", i)
			}
		})
	}
}

// withoutVerdicts gives the emissions of a row as a question: objects that have only the media, or the bare media.
func withoutVerdicts(emissions []any, bare bool) []any {
	var asked []any
	for _, e := range emissions {
		media := e.(map[string]any)["media"]
		if bare {
			asked = append(asked, media)
		} else {
			asked = append(asked, map[string]any{"media": media})
		}
	}
	return asked
}

func TestURNGoesOnAfterAnUnreadableLine(t *testing.T) {
	unreadable := []string{
		`not json`,
		`{"op":"parse"`,
		`[]`,
		`{"input":"x:a","kind":"tagged"}`,
		`{"op":"guess"}`,
		`{"op":"parse","input":"x:a"}`,
		`{"op":"parse","kind":"cap"}`,
		`{"op":"parse","input":"x:a","kind":"urn"}`,
		`{"op":"parse","input":7,"kind":"cap"}`,
		`{"op":"relation","instance":"media:"}`,
		`{"op":"dispatch","request":"cap:x"}`,
		`{"op":"rank","request":"cap:x"}`,
		`{"op":"effect","cap":"cap:x"}`,
		`{"op":"effect","cap":"cap:x","input_media":"media:","emissions":[{}]}`,
		`{"op":"media"}`,
		`{"op":"helper"}`,
		`{"op":"helper","helper":"magic"}`,
		"{\"op\":\"parse\",\"kind\":\"tagged\",\"input\":\"x:a=\\\"\xff\\\"\"}",
		`{"op":"parse","kind":"tagged","input":"x:` + strings.Repeat("a", maxURNLineBytes) + `"}`,
	}
	const good = `{"op":"helper","helper":"discard"}`
	for _, line := range unreadable {
		t.Run(line[:min(len(line), 60)], func(t *testing.T) {
			status, answers, stderr := runURNOn(strings.NewReader(line + "\n\n" + good))
			assert.Equal(t, statusFailed, status)
			require.Len(t, answers, 2)
			var problem map[string]string
			require.NoError(t, json.Unmarshal([]byte(answers[0]), &problem))
			assert.NotEmpty(t, problem["error"])
			assert.Len(t, problem, 1)
			assert.Contains(t, stderr, "line 1: "+problem["error"])
			assert.JSONEq(t, `{"urn":"cap:out=media:void"}`, answers[1])
		})
	}
}

func TestURNAnswersARefusedURNWithItsCode(t *testing.T) {
	for line, code := range map[string]string{
		`{"op":"relation","instance":"media:a","pattern":"cap:a"}`:                        "InvalidPrefix",
		`{"op":"dispatch","candidate":"cap:","request":"cap:x"}`:                          "IllegalDeclaration",
		`{"op":"rank","candidates":["cap:x","media:"],"request":"cap:x"}`:                 "MissingCapPrefix",
		`{"op":"effect","cap":"cap:x","input_media":"media"}`:                             "MissingPrefix",
		`{"op":"effect","cap":"cap:x","input_media":"media:","emissions":["media:;a b"]}`: "InvalidCharacter",
		`{"op":"media","inputs":["media:void;a"]}`:                                        "VoidNotAtomic",
		`{"op":"helper","helper":"disbind","arg":"pdf"}`:                                  "InvalidInSpec",
	} {
		status, answers, stderr := runURNOn(strings.NewReader(line))
		assert.Equal(t, statusOK, status, line)
		assert.Empty(t, stderr, line)
		require.Len(t, answers, 1, line)
		assert.JSONEq(t, fmt.Sprintf(`{"error":%q}`, code), answers[0], line)
	}
}

func TestURNTakesNoWords(t *testing.T) {
	var out, errs bytes.Buffer
	status := runURN(context.Background(), []string{"x"}, streams{strings.NewReader(""), &out, &errs})
	assert.Equal(t, statusUsage, status)
	assert.Contains(t, errs.String(), "usage")
	assert.Empty(t, out.String())
}

func TestURNOfNothingIsNothing(t *testing.T) {
	status, answers, stderr := runURNOn(strings.NewReader(""))
	assert.Equal(t, statusOK, status)
	assert.Empty(t, answers)
	assert.Empty(t, stderr)
}

// TestURNAnswersBeforeTheNextQuestion asks and waits in turns over pipes, as a program would that keeps the command
// running.
func TestURNAnswersBeforeTheNextQuestion(t *testing.T) {
	questions, ask := io.Pipe()
	answers, out := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- runURN(context.Background(), nil, streams{questions, out, io.Discard})
		out.Close()
	}()
	decoder := json.NewDecoder(answers)
	for i := range 3 {
		fmt.Fprintf(ask, `{"op":"parse","kind":"media","input":"media:x%d"}`+"\n", i)
		var answer struct{ Canonical string }
		require.NoError(t, decoder.Decode(&answer))
		assert.Equal(t, fmt.Sprintf("media:x%d", i), answer.Canonical)
	}
	ask.Close()
	assert.Equal(t, statusOK, <-status)
}

func TestURNReportsBrokenStreams(t *testing.T) {
	broken := errors.New("the reader broke")
	status, answers, stderr := runURNOn(io.MultiReader(
		strings.NewReader(`{"op":"helper","helper":"identity"}`+"\n"), &failingStream{broken}))
	assert.Equal(t, statusFailed, status)
	assert.Len(t, answers, 1)
	assert.Contains(t, stderr, broken.Error())

	var errs bytes.Buffer
	status = runURN(context.Background(), nil,
		streams{strings.NewReader(`{"op":"helper","helper":"identity"}`), &failingStream{broken}, &errs})
	assert.Equal(t, statusFailed, status)
	assert.Contains(t, errs.String(), broken.Error())
}

// failingStream is a stream that only fails.
type failingStream struct{ err error }

func (f *failingStream) Read([]byte) (int, error)  { return 0, f.err }
func (f *failingStream) Write([]byte) (int, error) { return 0, f.err }

func TestURNEndsOnASignalWhileItWaits(t *testing.T) {
	questions, ask := io.Pipe()
	defer ask.Close() // lets the reading goroutine go
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	assert.Equal(t, statusFailed, runURN(ctx, nil, streams{questions, io.Discard, io.Discard}))
}
