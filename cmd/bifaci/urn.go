package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// maxURNLineBytes bounds an input line. URNs are short; a megabyte holds thousands of candidates.
const maxURNLineBytes = 1 << 20

// runURN is the sub-command urn: it reads JSON lines from stdin and writes one JSON line for each, in order. A line is a
// question of the golden vectors (spec/urn.md section 16) with the member op, and its answer has that row's answer
// members:
//
//	parse      input, kind                     → canonical, tags, specificity; for caps in, out, effect, cap_kind
//	relation   instance, pattern               → conforms, meets, satisfies
//	dispatch   candidate, request              → dispatchable, equivalent, comparable, accepts, both specificities
//	rank       candidates, request, preferred  → ranked, distances, selected
//	effect     cap, input_media, emissions     → output_media, response_media or response_error, emissions
//	media      inputs, or media                → join, or predicates and extension
//	helper     helper, arg                     → urn
//
// A URN that is refused is answered with {"error": code}. Only a line that is not understood counts as a failure.
func runURN(ctx context.Context, args []string, std streams) int {
	if len(args) != 0 {
		fmt.Fprintln(std.err, "usage: bifaci urn < LINES")
		return statusUsage
	}
	return batch{"urn", maxURNLineBytes, answerURN}.run(ctx, std)
}

// refusal is the answer to a question about a URN that is refused.
type refusal struct {
	Error urn.Reason `json:"error"`
}

// answerURN gives the answer to one line; the error says why it is not understood.
func answerURN(line []byte) (any, error) {
	if !utf8.Valid(line) {
		return nil, errors.New("the line is not UTF-8")
	}
	var question struct {
		Op *string `json:"op"`
	}
	if err := json.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	if question.Op == nil {
		return nil, errors.New(`no member "op"`)
	}
	answer, err := answerOp(*question.Op, line)
	if reason := urn.ReasonOf(err); reason != "" {
		return refusal{reason}, nil
	}
	return answer, err
}

func answerOp(op string, line []byte) (any, error) {
	switch op {
	case "parse":
		return ask[parseQuestion](line)
	case "relation":
		return ask[relationQuestion](line)
	case "dispatch":
		return ask[dispatchQuestion](line)
	case "rank":
		return ask[rankQuestion](line)
	case "effect":
		return ask[effectQuestion](line)
	case "media":
		return ask[mediaQuestion](line)
	case "helper":
		return ask[helperQuestion](line)
	}
	return nil, fmt.Errorf("op %q is none of parse, relation, dispatch, rank, effect, media, helper", op)
}

// question is a line with the members of one op. Members are pointers where the question makes no sense without them.
type question interface{ answer() (any, error) }

func ask[Q question](line []byte) (any, error) {
	var q Q
	if err := json.Unmarshal(line, &q); err != nil {
		return nil, err
	}
	return q.answer()
}

// textMember gives a member that must be there.
func textMember(name string, member *string) (string, error) {
	if member == nil {
		return "", fmt.Errorf("no member %q", name)
	}
	return *member, nil
}

func mediaMember(name string, member *string) (urn.Media, error) {
	t, err := textMember(name, member)
	if err != nil {
		return urn.Media{}, err
	}
	return urn.ParseMedia(t)
}

func capMember(name string, member *string) (urn.Cap, error) {
	t, err := textMember(name, member)
	if err != nil {
		return urn.Cap{}, err
	}
	return urn.ParseCap(t)
}

type parseQuestion struct {
	Input *string `json:"input"`
	Kind  *string `json:"kind"`
}

type parseAnswer struct {
	Canonical   string            `json:"canonical"`
	Tags        map[string]string `json:"tags"`
	Specificity int               `json:"specificity"`
	*capParts
}

// capParts are the members that only caps have.
type capParts struct {
	In      urn.Media `json:"in"`
	Out     urn.Media `json:"out"`
	Effect  string    `json:"effect"`
	CapKind string    `json:"cap_kind"`
}

func (q parseQuestion) answer() (any, error) {
	input, err := textMember("input", q.Input)
	if err != nil {
		return nil, err
	}
	kind, err := textMember("kind", q.Kind)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "tagged":
		u, err := urn.ParseTagged(input)
		return parseAnswer{u.String(), u.Tags(), u.Specificity(), nil}, err
	case "media":
		m, err := urn.ParseMedia(input)
		return parseAnswer{m.String(), m.Tags(), m.Specificity(), nil}, err
	case "cap":
		c, err := urn.ParseCap(input)
		parts := &capParts{c.In(), c.Out(), c.Effect().String(), c.Kind().String()}
		return parseAnswer{c.String(), c.Tags(), c.Specificity(), parts}, err
	}
	return nil, fmt.Errorf("kind %q is none of tagged, media, cap", kind)
}

type relationQuestion struct {
	Instance *string `json:"instance"`
	Pattern  *string `json:"pattern"`
}

type relationAnswer struct {
	Conforms  bool `json:"conforms"`
	Meets     bool `json:"meets"`
	Satisfies bool `json:"satisfies"`
}

func (q relationQuestion) answer() (any, error) {
	a, err := mediaMember("instance", q.Instance)
	if err != nil {
		return nil, err
	}
	b, err := mediaMember("pattern", q.Pattern)
	return relationAnswer{a.ConformsTo(b), a.Meets(b), a.Satisfies(b)}, err
}

type dispatchQuestion struct {
	Candidate *string `json:"candidate"`
	Request   *string `json:"request"`
}

type dispatchAnswer struct {
	Dispatchable         bool `json:"dispatchable"`
	CandidateSpecificity int  `json:"candidate_specificity"`
	RequestSpecificity   int  `json:"request_specificity"`
	Equivalent           bool `json:"equivalent"`
	Comparable           bool `json:"comparable"`
	Accepts              bool `json:"accepts"`
}

func (q dispatchQuestion) answer() (any, error) {
	candidate, err := capMember("candidate", q.Candidate)
	if err != nil {
		return nil, err
	}
	request, err := capMember("request", q.Request)
	return dispatchAnswer{candidate.IsDispatchable(request), candidate.Specificity(), request.Specificity(),
		candidate.Equivalent(request), candidate.Comparable(request), candidate.Accepts(request)}, err
}

type rankQuestion struct {
	Candidates *[]string `json:"candidates"`
	Request    *string   `json:"request"`
	Preferred  *string   `json:"preferred"`
}

type rankAnswer struct {
	Ranked    []string `json:"ranked"`    // the candidates as they were spelled
	Distances []int    `json:"distances"` // in the order of Ranked
	Selected  *string  `json:"selected"`
}

func (q rankQuestion) answer() (any, error) {
	request, err := capMember("request", q.Request)
	if err != nil {
		return nil, err
	}
	if q.Candidates == nil {
		return nil, errors.New(`no member "candidates"`)
	}
	candidates := make([]urn.Cap, len(*q.Candidates))
	for i, spelling := range *q.Candidates {
		if candidates[i], err = urn.ParseCap(spelling); err != nil {
			return nil, err
		}
	}
	answer := rankAnswer{Ranked: []string{}, Distances: []int{}}
	for _, r := range urn.Rank(candidates, request) {
		answer.Ranked = append(answer.Ranked, (*q.Candidates)[r.Index])
		answer.Distances = append(answer.Distances, r.Distance)
	}
	if i, ok := urn.Best(candidates, request, q.hint()); ok {
		answer.Selected = &(*q.Candidates)[i]
	}
	return answer, nil
}

// hint gives the preferred cap, or nil; one that is no cap URN is ignored.
func (q rankQuestion) hint() *urn.Cap {
	if q.Preferred == nil {
		return nil
	}
	c, err := urn.ParseCap(*q.Preferred)
	if err != nil {
		return nil
	}
	return &c
}
