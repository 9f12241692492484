package urn_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// vectors reads one file of golden data and insists on its number of rows, so that a file that came out empty proves
// nothing by accident.
func vectors[Row any](tb testing.TB, name string, rows int) []Row {
	tb.Helper()
	var all []Row
	loadVectors(tb, name, &all)
	require.Len(tb, all, rows, name)
	return all
}

func loadVectors(tb testing.TB, name string, into any) {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "test", "vectors", name))
	require.NoError(tb, err)
	require.NoError(tb, json.Unmarshal(text, into))
}

type parseRow struct {
	Input, Kind, Canonical, Error string
	Tags                          map[string]string
	Specificity                   int
	In, Out, Effect               string
	CapKind                       string `json:"cap_kind"`
}

func TestParseVectors(t *testing.T) {
	for i, row := range vectors[parseRow](t, "urn_parse.json", 358) {
		t.Run(fmt.Sprintf("%d/%s", i, row.Input), func(t *testing.T) {
			got, err := parseAs(row.Kind, row.Input)
			if row.Error != "" {
				require.Error(t, err)
				assert.Equal(t, row.Error, string(urn.ReasonOf(err)), err)
				var parse *urn.ParseError
				require.ErrorAs(t, err, &parse)
				assert.Equal(t, row.Input, parse.URN)
				assert.ErrorIs(t, err, urn.Reason(row.Error))
				assert.GreaterOrEqual(t, parse.Offset, 0)
				assert.LessOrEqual(t, parse.Offset, len(row.Input))
				return
			}
			require.NoError(t, err)
			assert.Equal(t, row.Canonical, got.String())
			assert.Equal(t, row.Tags, got.Tags())
			assert.Equal(t, row.Specificity, got.Specificity())
			if c, ok := got.(urn.Cap); ok {
				assert.Equal(t, row.In, c.In().String())
				assert.Equal(t, row.Out, c.Out().String())
				assert.Equal(t, row.Effect, c.Effect().String())
				assert.Equal(t, row.CapKind, c.Kind().String())
			}
		})
	}
}

// anyURN is what the three kinds have in common.
type anyURN interface {
	fmt.Stringer
	Tags() map[string]string
	Specificity() int
}

func parseAs(kind, text string) (anyURN, error) {
	switch kind {
	case "media":
		return urn.ParseMedia(text)
	case "cap":
		return urn.ParseCap(text)
	default:
		return urn.ParseTagged(text)
	}
}

type relationRow struct {
	Instance, Pattern          string
	Conforms, Meets, Satisfies bool
}

func TestRelationVectors(t *testing.T) {
	for i, row := range vectors[relationRow](t, "urn_relations.json", 220) {
		t.Run(fmt.Sprintf("%d/%s/%s", i, row.Instance, row.Pattern), func(t *testing.T) {
			a, b := urn.MustMedia(row.Instance), urn.MustMedia(row.Pattern)
			assert.Equal(t, row.Conforms, a.ConformsTo(b), "conforms")
			assert.Equal(t, row.Conforms, b.Accepts(a), "accepts is conforms the other way round")
			assert.Equal(t, row.Meets, a.Meets(b), "meets")
			assert.Equal(t, row.Meets, b.Meets(a), "meets is symmetric")
			assert.Equal(t, row.Satisfies, a.Satisfies(b), "satisfies")

			conforms, err := a.Tagged().ConformsTo(b.Tagged())
			require.NoError(t, err)
			assert.Equal(t, row.Conforms, conforms, "as tagged URNs")
		})
	}
}

type dispatchRow struct {
	Candidate, Request                            string
	Dispatchable, Equivalent, Comparable, Accepts bool
	CandidateSpecificity                          int `json:"candidate_specificity"`
	RequestSpecificity                            int `json:"request_specificity"`
}

func TestDispatchVectors(t *testing.T) {
	for i, row := range vectors[dispatchRow](t, "urn_dispatch.json", 556) {
		t.Run(fmt.Sprintf("R-1.40 %d/%s/%s", i, row.Candidate, row.Request), func(t *testing.T) {
			p, r := urn.MustCap(row.Candidate), urn.MustCap(row.Request)
			assert.Equal(t, row.Dispatchable, p.IsDispatchable(r), "dispatchable")
			assert.Equal(t, row.Equivalent, p.Equivalent(r), "equivalent")
			assert.Equal(t, row.Equivalent, r.Equivalent(p), "equivalent is symmetric")
			assert.Equal(t, row.Comparable, p.Comparable(r), "comparable")
			assert.Equal(t, row.Comparable, r.Comparable(p), "comparable is symmetric")
			assert.Equal(t, row.Accepts, p.Accepts(r), "accepts")
			assert.Equal(t, row.Accepts, r.ConformsTo(p), "conforms is accepts the other way round")
			assert.Equal(t, row.CandidateSpecificity, p.Specificity())
			assert.Equal(t, row.RequestSpecificity, r.Specificity())
		})
	}
}

type effectRow struct {
	Cap           string
	InputMedia    string `json:"input_media"`
	OutputMedia   string `json:"output_media"`
	Error         string
	ResponseMedia string `json:"response_media"`
	ResponseError string `json:"response_error"`
	Emissions     []struct {
		Media      string
		Conformant bool
	}
}

func TestEffectVectors(t *testing.T) {
	for i, row := range vectors[effectRow](t, "urn_effect.json", 91) {
		t.Run(fmt.Sprintf("R-6.30 %d/%s", i, row.Cap), func(t *testing.T) {
			c, err := urn.ParseCap(row.Cap)
			if row.ResponseMedia == "" && row.ResponseError == "" {
				assert.Equal(t, row.Error, string(urn.ReasonOf(err)), "the cap itself is refused")
				_, err = urn.ResponseMedia(row.Cap)
				assert.Equal(t, row.Error, string(urn.ReasonOf(err)))
				return
			}
			require.NoError(t, err)

			response, err := urn.ResponseMedia(row.Cap)
			assert.Equal(t, row.ResponseMedia, response)
			assert.Equal(t, row.ResponseError, string(urn.ReasonOf(err)))

			input := urn.MustMedia(row.InputMedia)
			output, err := c.Infer(input)
			assert.Equal(t, row.OutputMedia, output.String())
			assert.Equal(t, row.Error, string(urn.ReasonOf(err)))
			if row.Error != "" {
				_, err = c.IsConformantOutput(input, input)
				assert.ErrorIs(t, err, urn.Reason(row.Error), "a conformance question fails as the inference does")
			}
			for _, emission := range row.Emissions {
				ok, err := c.IsConformantOutput(input, urn.MustMedia(emission.Media))
				require.NoError(t, err)
				assert.Equal(t, emission.Conformant, ok, emission.Media)
			}
		})
	}
}
