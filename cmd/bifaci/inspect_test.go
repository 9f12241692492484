package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInspectText(t *testing.T) {
	status, out, errs := dispatched(t.Context(), untouched{t}, "inspect", self(t))
	require.Equal(t, statusOK, status, errs)
	assert.Empty(t, errs)
	for _, part := range []string{
		"role 1.0.0: for tests\n",
		"\nlimits    frames of 3670016 bytes, data in chunks of 262144 bytes, windows of 32 chunks, 64 frames held for reordering\n",
		"\ngroup default\n",
		"\n  show, list: show\n    cap:in=\"media:enc=utf-8\";out=\"media:enc=utf-8\";show\n",
		"\n    argument  media:level: required, from --level, default 3\n",
		"\n    argument  media:colour;ext=rgb: optional, from --colour\n",
		"\n    argument  media:enc=utf-8: required, main input, streaming sequence, from stdin as media:enc=utf-8\n",
		"\n    argument  media:name: required, from word 0\n              who is greeted\n",
		"\n    output    media:enc=utf-8: streaming\n              the greeting\n",
		"\n    activity_timeout_secs = 9\n",
		"\npools\n",
		"\n  all: at most 8, 0 active, 0 queued\n  cap:alone;in=",
		"\n  cap:alone;in=media:void;out=\"media:enc=utf-8\": unlimited, 0 active, 0 queued\n",
		"\n  door: at most 1, 0 active, 0 queued\n    cap:greet;in=media:void;out=\"media:enc=utf-8\"\n",
	} {
		assert.Contains(t, out, part)
	}
}

func TestInspectJSON(t *testing.T) {
	status, out, errs := dispatched(t.Context(), untouched{t}, "inspect", "--json", self(t))
	require.Equal(t, statusOK, status, errs)
	var got struct {
		Manifest struct {
			Name   string
			Groups []struct {
				Caps []struct{ Slug string }
			} `json:"cap_groups"`
		}
		Limits map[string]uint64
		Pools  map[string]struct {
			Declared, Configured, Active, Queued *uint64
			Caps                                 []string
		}
		Warnings []string
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	assert.Equal(t, "role", got.Manifest.Name)
	assert.Equal(t, "identity", got.Manifest.Groups[0].Caps[0].Slug)
	assert.Equal(t, map[string]uint64{"max_frame": 3670016, "max_chunk": 262144, "max_reorder_buffer": 64, "initial_credit": 32}, got.Limits)
	assert.Equal(t, uint64(1), *got.Pools["door"].Configured)
	assert.Equal(t, []string{`cap:greet;in=media:void;out="media:enc=utf-8"`}, got.Pools["door"].Caps)
	assert.NotNil(t, got.Warnings)
	assert.Empty(t, got.Warnings)
}

func TestInspectRefuses(t *testing.T) {
	for name, words := range map[string][]string{"no word": nil, "two words": {"a", "b"}, "an unknown flag": {"--loud", "a"}} {
		t.Run(name, func(t *testing.T) {
			status, out, errs := dispatched(t.Context(), untouched{t}, append([]string{"inspect"}, words...)...)
			assert.Equal(t, statusUsage, status)
			assert.Empty(t, out)
			assert.Contains(t, errs, "usage: bifaci inspect")
		})
	}
	t.Run("help is no failure", func(t *testing.T) {
		status, _, errs := dispatched(t.Context(), untouched{t}, "inspect", "--help")
		assert.Equal(t, statusOK, status)
		assert.Contains(t, errs, "usage: bifaci inspect")
	})
	t.Run("a program that ends before it says HELLO", func(t *testing.T) {
		path := self(t)
		t.Setenv(roleVariable, "crash")
		status, out, errs := dispatched(t.Context(), untouched{t}, "inspect", path)
		assert.Equal(t, statusFailed, status)
		assert.Empty(t, out)
		assert.Contains(t, errs, "bifaci inspect: SPAWN_FAILED: ")
		assert.Contains(t, errs, "no licence")
	})
	t.Run("an output that breaks", func(t *testing.T) {
		for _, flag := range []string{"--json", "--json=false"} {
			var errs buffer
			assert.Equal(t, statusFailed, dispatch(t.Context(), []string{"inspect", flag, self(t)}, streams{strings.NewReader(""), failing{}, &errs}))
			assert.Contains(t, errs.String(), "the disk is gone")
		}
	})
}
