package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type goldenFrame struct {
	Name     string
	Hex      string
	Decoded  json.RawMessage
	Error    string
	Receiver string
}

func goldenFrames(t *testing.T) []goldenFrame {
	raw, err := os.ReadFile("../../test/vectors/frames.json")
	require.NoError(t, err)
	var all []goldenFrame
	require.NoError(t, json.Unmarshal(raw, &all))
	require.Greater(t, len(all), 250)
	return all
}

// evaluate runs the sub-command over input and returns its output lines.
func evaluate(t *testing.T, input string) (lines []string, status int, stderr string) {
	var out, problems bytes.Buffer
	status = runFrame(context.Background(), nil, streams{strings.NewReader(input), &out, &problems})
	if out.Len() > 0 {
		require.True(t, strings.HasSuffix(out.String(), "\n"))
		lines = strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	}
	return lines, status, problems.String()
}

// The whole golden file in one batch; the one vector whose bytes are also a valid probe needs its receiver.
func TestFrameAnswersEveryVector(t *testing.T) {
	all := goldenFrames(t)
	var input strings.Builder
	for _, v := range all {
		receiver := ""
		if v.Name == "heartbeat-reply-no-meta" || v.Name == "heartbeat-reply-no-pools" {
			receiver = v.Receiver
		}
		fmt.Fprintf(&input, "{\"hex\": %q, \"receiver\": %q}\n", v.Hex, receiver)
	}
	lines, status, stderr := evaluate(t, input.String())
	assert.Equal(t, statusOK, status)
	assert.Empty(t, stderr)
	require.Len(t, lines, len(all))
	for i, v := range all {
		t.Run(v.Name, func(t *testing.T) {
			if v.Error != "" {
				assert.Equal(t, `{"error":"`+v.Error+`"}`, lines[i])
				return
			}
			assert.JSONEq(t, string(v.Decoded), lines[i])
			assert.NotContains(t, lines[i], `"$float":1}`, "floats look like floats")
		})
	}
}

func TestFrameJudgesEveryVectorForItsReceiver(t *testing.T) {
	for _, v := range goldenFrames(t) {
		if v.Error == "" {
			continue
		}
		lines, _, _ := evaluate(t, fmt.Sprintf("{\"hex\": %q, \"receiver\": %q}", v.Hex, v.Receiver))
		assert.Equal(t, []string{`{"error":"` + v.Error + `"}`}, lines, v.Name)
	}
}

func TestFrameLines(t *testing.T) {
	const probe = `{"hex":"00000009a40006010702050300"}`
	for _, c := range []struct {
		name, input string
		want        []string
		status      int
	}{
		{"nothing", "", nil, statusOK},
		{"blank lines are passed over", "\n  \n\n", nil, statusOK},
		{"last line without its end", probe, []string{`{"version":6,"type":7,"type_name":"heartbeat","id":{"uint":5},"seq":0}`}, statusOK},
		{"carriage return", probe + "\r\n", []string{`{"version":6,"type":7,"type_name":"heartbeat","id":{"uint":5},"seq":0}`}, statusOK},
		{"no JSON", "00000009\n" + probe, []string{`{"error":"bad-input"}`, `{"version":6,"type":7,"type_name":"heartbeat","id":{"uint":5},"seq":0}`}, statusFailed},
		{"no hex", `{"hex":"0"}`, []string{`{"error":"bad-input"}`}, statusFailed},
		{"hex is missing", `{}`, []string{`{"error":"bad-input"}`}, statusFailed},
		{"no bytes", `{"hex":""}`, []string{`{"error":"truncated-prefix"}`}, statusOK},
		{"two frames", `{"hex":"00000009a4000601070205030000000009a40006010702050300"}`, []string{`{"error":"trailing-bytes"}`}, statusOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines, status, stderr := evaluate(t, c.input)
			assert.Equal(t, c.want, lines)
			assert.Equal(t, c.status, status)
			assert.Equal(t, c.status == statusFailed, stderr != "", "bad input is explained")
		})
	}
}

// What the vectors do not have: values JSON has no form for.
func TestFrameRendersEveryKindOfMetaValue(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"negative zero", "f98000", `{"$float":-0.0}`},
		{"NaN", "f97e00", `{"$float":"NaN"}`},
		{"infinity", "f97c00", `{"$float":"Infinity"}`},
		{"minus infinity", "f9fc00", `{"$float":"-Infinity"}`},
		{"large float", "fb7e37e43c8800759c", `{"$float":1e+300}`},
		{"large integer", "1b0020000000000000", `{"$uint":"9007199254740992"}`},
		{"largest plain integer", "1b001fffffffffffff", `9007199254740991`},
		{"below 64 bits", "3bffffffffffffffff", `-18446744073709551616`},
		{"just below 64 bits", "3b8000000000000000", `-9223372036854775809`},
		{"simple value", "e0", `{"$simple":0}`},
		{"integer key", "a10102", `{"$map":[[1,2]]}`},
		{"bytes key", "a14100f6", `{"$map":[[{"$bytes":"00"},null]]}`},
		{"printable bytes", "4161", `{"$bytes":"61","$utf8":"a"}`},
		{"bytes with a line end", "42610a", `{"$bytes":"610a"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := "a5000601070205030005a1616b" + c.value
			lines, status, stderr := evaluate(t, fmt.Sprintf(`{"hex":"%08x%s"}`, len(body)/2, body))
			require.Equal(t, statusOK, status, stderr)
			require.Len(t, lines, 1)
			var got struct{ Meta struct{ K json.RawMessage } }
			require.NoError(t, json.Unmarshal([]byte(lines[0]), &got))
			assert.Equal(t, c.want, string(got.Meta.K))
		})
	}
}

// A script that waits for each answer before it sends the next line gets it.
func TestFrameAnswersBeforeTheNextLine(t *testing.T) {
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	done := make(chan int, 1)
	go func() { done <- runFrame(context.Background(), nil, streams{inRead, outWrite, io.Discard}) }()
	answers := bufio.NewReader(outRead)
	for range 3 {
		_, err := io.WriteString(inWrite, "{\"hex\":\"00000000\"}\n")
		require.NoError(t, err)
		line, err := answers.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, "{\"error\":\"empty-frame\"}\n", line)
	}
	require.NoError(t, inWrite.Close())
	assert.Equal(t, statusOK, <-done)
}

func TestFrameEndsWithItsContext(t *testing.T) {
	in, hold := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	go func() { done <- runFrame(ctx, nil, streams{in, io.Discard, io.Discard}) }()
	cancel()
	assert.Equal(t, statusFailed, <-done)
	require.NoError(t, hold.Close())
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestFrameReportsAnOutputThatFails(t *testing.T) {
	var stderr bytes.Buffer
	status := runFrame(context.Background(), nil, streams{strings.NewReader(`{"hex":"00000000"}`), brokenPipe{}, &stderr})
	assert.Equal(t, statusFailed, status)
	assert.Contains(t, stderr.String(), io.ErrClosedPipe.Error())
}

func TestFrameTakesNoArguments(t *testing.T) {
	var stderr bytes.Buffer
	assert.Equal(t, statusUsage, runFrame(context.Background(), []string{"x"}, streams{strings.NewReader(""), io.Discard, &stderr}))
	assert.Contains(t, stderr.String(), "usage")
}
