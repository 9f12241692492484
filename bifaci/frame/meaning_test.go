package frame_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// judge applies the accessor that receiver would use to f.
func judge(f *frame.Frame, receiver string) error {
	if err := f.CheckShape(); err != nil {
		return err
	}
	var err error
	switch f.Type {
	case frame.TypeChunk:
		err = f.CheckSum()
	case frame.TypeLog:
		_, err = f.LogRecord()
	case frame.TypeErr:
		_, err = f.Failure()
	case frame.TypePolicy:
		_, err = f.Policy()
	case frame.TypeHello:
		sender := frame.RoleHost
		if receiver == "host" {
			sender = frame.RoleCartridge
		}
		_, _, err = frame.AcceptHello(f, sender, frame.DefaultLimits())
	case frame.TypeHeartbeat:
		if receiver == "host-awaiting-reply" {
			_, err = f.HeartbeatReply()
		} else {
			_, _, err = f.DesiredCapacities()
		}
	}
	return err
}

// §2.3, §17: every vector that decodes and is wrong all the same is refused with its token.
func TestAccessorsRefuseEveryInvalidVector(t *testing.T) {
	seen := 0
	for _, v := range vectors(t) {
		if v.Layer != "request" && v.Layer != "meaning" {
			continue
		}
		seen++
		t.Run(v.Layer+"/"+v.Error+"/"+v.Name, func(t *testing.T) {
			f, err := frame.NewReader(bytes.NewReader(v.wire(t))).Read()
			require.NoError(t, err)
			if v.Error == frame.TokenBadCredit {
				_, ok := f.CreditDirection()
				assert.False(t, ok)
				return
			}
			err = judge(f, v.Receiver)
			assert.Equal(t, v.Error, frame.TokenOf(err), "%v", err)
		})
	}
	assert.Greater(t, seen, 55)
}

func TestAccessorsAcceptEveryValidVector(t *testing.T) {
	for _, v := range validVectors(t) {
		receiver := "cartridge"
		if strings.HasPrefix(v.Name, "hello-cartridge") {
			receiver = "host"
		}
		if v.Name == "heartbeat-reply" || v.Name == "heartbeat-reply-memory" {
			receiver = "host-awaiting-reply"
		}
		f := decoded(t, v)
		assert.NoError(t, judge(f, receiver), v.Name)
		_, ok := f.CreditDirection()
		assert.Equal(t, f.Type == frame.TypeCredit, ok, v.Name)
	}
}

func decoded(t testing.TB, v vector) *frame.Frame {
	f := &frame.Frame{}
	require.NoError(t, frame.Decode(v.wire(t)[frame.PrefixSize:], f))
	return f
}

func vectorNamed(t testing.TB, name string) *frame.Frame {
	for _, v := range vectors(t) {
		if v.Name == name {
			return decoded(t, v)
		}
	}
	t.Fatalf("no vector %s", name)
	return nil
}

// withMeta is a frame whose meta the independent codec encoded.
func withMeta(t testing.TB, typ frame.Type, m map[string]any) *frame.Frame {
	raw, err := cbor.Marshal(m)
	require.NoError(t, err)
	f := &frame.Frame{Type: typ, ID: frame.UintID(0), Meta: raw}
	f.Has = f.Has.With(frame.KeyMeta)
	return f
}

// What is read from a canonical vector and appended again gives the vector's meta, byte for byte.
func TestAppendedMetasAreThoseOfTheVectors(t *testing.T) {
	seen := map[frame.Type]int{}
	for _, v := range validVectors(t) {
		f := decoded(t, v)
		if !v.Canonical || !f.Has.Has(frame.KeyMeta) {
			continue
		}
		var got []byte
		switch f.Type {
		case frame.TypeLog:
			r, err := f.LogRecord()
			require.NoError(t, err)
			if v.Name == "log-progress-integer" { // we send a float
				continue
			}
			require.NoError(t, r.Check())
			got = frame.AppendLogMeta(nil, r)
		case frame.TypeErr:
			e, err := f.Failure()
			require.NoError(t, err)
			got = frame.AppendErrMeta(nil, e)
		case frame.TypeCancel:
			if v.Name == "cancel-unknown-class" {
				continue
			}
			got = frame.AppendCancelMeta(nil, f.CancelReason())
		case frame.TypeCredit:
			d, ok := f.CreditDirection()
			require.True(t, ok)
			got = frame.CreditMeta(d)
		case frame.TypeHello:
			if v.Name == "hello-unknown-meta-key" {
				continue
			}
			sender := frame.RoleHost
			if strings.HasPrefix(v.Name, "hello-cartridge") {
				sender = frame.RoleCartridge
			}
			h, err := f.Hello(sender)
			require.NoError(t, err)
			got = frame.AppendHelloMeta(nil, h)
			require.Equal(t, frame.Append(nil, f), frame.Append(nil, frame.NewHello(h)))
		case frame.TypePolicy:
			p, err := f.Policy()
			require.NoError(t, err)
			require.True(t, p.Valid())
			got = frame.AppendPolicyMeta(nil, p)
			require.Equal(t, frame.Append(nil, f), frame.Append(nil, frame.NewPolicy(p)))
		case frame.TypeEnd:
			s, err := f.EndStatus()
			require.NoError(t, err)
			if v.Name == "end-failed" || v.Name == "end-ok-no-progress" || v.Name == "end-no-eof" {
				continue
			}
			require.True(t, s.Success())
			got = frame.AppendEndMeta(nil, s.Progress, s.Message)
		case frame.TypeHeartbeat:
			if capacities, present, err := f.DesiredCapacities(); present {
				require.NoError(t, err)
				got = frame.AppendDesiredMeta(nil, capacities)
				break
			}
			r, err := f.HeartbeatReply()
			require.NoError(t, err)
			got = frame.AppendPoolsMeta(nil, r)
		case frame.TypeReq:
			if name, ok := f.TargetCartridge(); ok {
				assert.Equal(t, "echocartridge", name)
				got = frame.AppendTargetMeta(nil, name)
				break
			}
			got = frame.AppendParentMeta(nil, f.ParentID())
		default:
			continue
		}
		seen[f.Type]++
		assert.Equal(t, hex.EncodeToString(f.Meta), hex.EncodeToString(got), v.Name)
	}
	for _, typ := range []frame.Type{0, 1, 4, 5, 6, 7, 12, 13, 15} {
		assert.NotZero(t, seen[typ], typ.String())
	}
}

// §10.2, R-7.22
func TestLogRecords(t *testing.T) {
	r, err := vectorNamed(t, "log-warn-arg").LogRecord()
	require.NoError(t, err)
	assert.Equal(t, frame.LogRecord{Level: "warn", Message: "model cache under pressure", Class: failure.Resource, ArgURN: "media:enc=utf-8;model-spec"}, r)
	t.Run("R-7.22 integer progress is a number", func(t *testing.T) {
		r, err := vectorNamed(t, "log-progress-integer").LogRecord()
		require.NoError(t, err)
		assert.Equal(t, frame.LogRecord{Level: "progress", Message: "all", Progress: 1}, r)
		r, err = withMeta(t, frame.TypeLog, map[string]any{"level": "progress", "message": "", "progress": -3}).LogRecord()
		require.NoError(t, err)
		assert.Equal(t, -3.0, r.Progress)
	})
	for name, m := range map[string]map[string]any{
		"NaN":                     {"level": "progress", "message": "", "progress": math.NaN()},
		"progress as boolean":     {"level": "progress", "message": "", "progress": true},
		"progress without text":   {"level": "progress", "progress": 1},
		"progress with argument":  {"level": "progress", "message": "", "progress": 1, "arg_urn": "media:"},
		"blank level":             {"level": " ", "message": "m", "attribution_class": "user"},
		"level as number":         {"level": 1, "message": "m", "attribution_class": "user"},
		"blank message":           {"level": "info", "message": "\t", "attribution_class": "user"},
		"class as bytes":          {"level": "info", "message": "m", "attribution_class": []byte("user")},
		"argument as number":      {"level": "info", "message": "m", "attribution_class": "user", "arg_urn": 1},
		"progress in upper case":  {"level": "Progress", "message": "m", "progress": 1},
		"unknown class on others": {"level": "queued", "message": "m", "attribution_class": "User"},
	} {
		_, err := withMeta(t, frame.TypeLog, m).LogRecord()
		assert.Equal(t, "bad-log", frame.TokenOf(err), name)
	}
	for _, r := range []frame.LogRecord{{}, {Level: "progress", Class: "user"}, {Level: "progress", ArgURN: "x"}, {Level: "progress", Progress: math.NaN()},
		{Level: "info", Class: "user"}, {Level: "info", Message: "m"}, {Level: "info", Message: "m", Class: "user", ArgURN: " "}} {
		assert.Equal(t, "bad-log", frame.TokenOf(r.Check()), "%+v", r)
	}
}

// Progress is clamped when it is sent, and text that is not UTF-8 never leaves.
func TestAppendersCannotProduceWhatReceiversRefuse(t *testing.T) {
	for in, want := range map[float64]float64{-1: 0, 2: 1, 0.25: 0.25, math.Inf(1): 1, math.Inf(-1): 0} {
		f := &frame.Frame{Type: frame.TypeLog, Has: 1 << frame.KeyMeta, Meta: frame.AppendLogMeta(nil, frame.LogRecord{Level: "progress", Progress: in})}
		r, err := f.LogRecord()
		require.NoError(t, err)
		assert.Equal(t, want, r.Progress)
	}
	f := &frame.Frame{Type: frame.TypeEnd, Has: 1 << frame.KeyMeta, Meta: frame.AppendEndMeta(nil, math.NaN(), "")}
	s, err := f.EndStatus()
	require.NoError(t, err)
	assert.Zero(t, s.Progress)

	f.Meta = frame.AppendErrMeta(nil, failure.New("", "cosmic", " "))
	e, err := f.Failure()
	require.NoError(t, err)
	assert.Equal(t, failure.New("HANDLER_ERROR", failure.Internal, "HANDLER_ERROR"), e)

	for _, raw := range [][]byte{
		frame.AppendErrMeta(nil, failure.New("X", failure.User, "caf\xe9")), frame.AppendEndMeta(nil, 1, "\xff"), frame.AppendTargetMeta(nil, "\xff"),
		frame.AppendLogMeta(nil, frame.LogRecord{Level: "\xff", Message: "\xff", Class: "user", ArgURN: "\xff"}),
		frame.AppendCancelMeta(nil, failure.CancelReason{Code: "\xff", Message: "\xff"}), frame.AppendPolicyMeta(nil, frame.Policy{Name: "\xff"}),
	} {
		_, err := frame.DecodeMeta(raw)
		assert.NoError(t, err)
		assert.Contains(t, string(raw), "\uFFFD")
	}
}

// §11.1: nothing in a CANCEL is ever an error.
func TestCancelReasons(t *testing.T) {
	assert.Equal(t, failure.UserCancel(), vectorNamed(t, "cancel-user").CancelReason())
	assert.Equal(t, failure.CancelReason{ForceKill: true}, vectorNamed(t, "cancel-unattributed-force").CancelReason())
	assert.Equal(t, failure.CancelReason{Code: "ABORTED", Message: "ray"}, vectorNamed(t, "cancel-unknown-class").CancelReason())
	assert.Equal(t, failure.Unattributed(), withMeta(t, frame.TypeCancel, map[string]any{"code": " ", "message": 7, "attribution_class": []byte("user")}).CancelReason())
	broken := &frame.Frame{Type: frame.TypeCancel, Has: 1 << frame.KeyMeta, Meta: []byte{0xa1, 0x64}}
	assert.Equal(t, failure.Unattributed(), broken.CancelReason())
	assert.Empty(t, frame.AppendCancelMeta(nil, failure.CancelReason{ForceKill: true, Message: " ", Class: "cosmic"}))
	assert.Equal(t, unhex(t, "a1 71"+hex.EncodeToString([]byte("attribution_class"))+"64"+hex.EncodeToString([]byte("user"))),
		frame.AppendCancelMeta(nil, failure.CancelReason{Class: failure.User}))
}

// a direction that is missing or unknown is never guessed.
func TestCreditDirections(t *testing.T) {
	t.Run("R-10.14 missing or unknown direction", func(t *testing.T) {
		for _, m := range []map[string]any{{}, {"credit_dir": "Request"}, {"credit_dir": ""}, {"credit_dir": 1}, {"dir": "request"}} {
			_, ok := withMeta(t, frame.TypeCredit, m).CreditDirection()
			assert.False(t, ok, "%v", m)
		}
		_, ok := (&frame.Frame{Type: frame.TypeCredit}).CreditDirection()
		assert.False(t, ok)
		_, ok = (&frame.Frame{Type: frame.TypeCredit, Has: 1 << frame.KeyMeta, Meta: []byte{0xa2, 0x00}}).CreditDirection()
		assert.False(t, ok)
		cut := append([]byte{0xa2}, frame.CreditMeta(frame.CreditRequest)[1:]...) // a second entry is promised
		_, ok = (&frame.Frame{Type: frame.TypeCredit, Has: 1 << frame.KeyMeta, Meta: cut}).CreditDirection()
		assert.False(t, ok)
	})
	for word, want := range map[string]frame.CreditDir{"request": frame.CreditRequest, "response": frame.CreditResponse} {
		d, ok := withMeta(t, frame.TypeCredit, map[string]any{"credit_dir": word, "other": 1}).CreditDirection()
		assert.True(t, ok)
		assert.Equal(t, want, d)
		assert.Equal(t, word, d.String())
	}
	assert.Equal(t, "credit-dir(0)", frame.CreditDir(0).String())
}

// L3: exit code and final progress of an END.
func TestL3_EndStatus(t *testing.T) {
	for name, want := range map[string]frame.EndStatus{
		"end-ok":                 {HasExitCode: true, Progress: 1},
		"end-ok-message":         {HasExitCode: true, Progress: 1, Message: "done"},
		"end-ok-progress-half":   {HasExitCode: true, Progress: 0.75, Message: "stopped early"},
		"end-ok-progress-single": {HasExitCode: true, Progress: float64(float32(0.1))},
		"end-ok-no-progress":     {HasExitCode: true, Progress: 1},
		"end-failed":             {HasExitCode: true, ExitCode: 3},
		"end-request":            {},
	} {
		got, err := vectorNamed(t, name).EndStatus()
		require.NoError(t, err)
		assert.Equal(t, want, got, name)
		assert.Equal(t, strings.HasPrefix(name, "end-ok"), got.Success(), name)
	}
	for _, m := range []map[string]any{{"exit_code": "0"}, {"exit_code": uint64(1 << 63)}, {"exit_code": -1}, {"exit_code": 1, "progress": 1.0}, {"progress": 1.0}} {
		got, err := withMeta(t, frame.TypeEnd, m).EndStatus()
		require.NoError(t, err)
		assert.False(t, got.Success(), "%v", m)
		assert.Less(t, got.Progress, 1.0, "a failure never reads as complete: %v", m)
	}
	_, err := (&frame.Frame{Has: 1 << frame.KeyMeta, Meta: []byte{0x00}}).EndStatus()
	assert.Error(t, err)
}

// §6.4: every part of a POLICY is required and nothing may be added.
func TestPolicies(t *testing.T) {
	p, err := vectorNamed(t, "policy-private").Policy()
	require.NoError(t, err)
	assert.Equal(t, frame.Policy{Name: "private", OurServices: true, ThirdParty: true}, p)
	t.Run("R-8.54 a malformed policy is refused", func(t *testing.T) {
		for name, network := range map[string]any{"blank name": map[string]any{"name": " ", "our_services": true, "telemetry": true, "third_party": true},
			"text flag":     map[string]any{"name": "n", "our_services": "true", "telemetry": true, "third_party": true},
			"number as key": map[any]any{1: 2}, "null": nil} {
			_, err := withMeta(t, frame.TypePolicy, map[string]any{"network": network}).Policy()
			assert.Equal(t, "bad-policy", frame.TokenOf(err), name)
		}
		for _, raw := range []string{"", "00", "a1", "a1 61"} {
			_, err := (&frame.Frame{ID: frame.UintID(0), Has: 1 << frame.KeyMeta, Meta: unhex(t, raw)}).Policy()
			assert.Equal(t, "bad-policy", frame.TokenOf(err), raw)
		}
	})
	assert.False(t, frame.Policy{Name: " "}.Valid())
}

func TestHeartbeats(t *testing.T) {
	capacities, present, err := vectorNamed(t, "heartbeat-probe-desired").DesiredCapacities()
	require.NoError(t, err)
	assert.True(t, present)
	assert.JSONEq(t, `{"all":4,"cap:echo;in=\"media:enc=utf-8\";out=\"media:enc=utf-8\"":0}`, string(capacities))
	_, present, err = vectorNamed(t, "heartbeat-probe").DesiredCapacities()
	assert.NoError(t, err)
	assert.False(t, present)
	for _, bad := range []string{"null", `{"a":null}`, `{"a":1.5}`, `{"a":"1"}`, `{"a":18446744073709551616}`, `{"a":1} {}`, ``, `{"a":true}`} {
		_, _, err := withMeta(t, frame.TypeHeartbeat, map[string]any{"desired_capacities": []byte(bad)}).DesiredCapacities()
		assert.Equal(t, "bad-heartbeat", frame.TokenOf(err), bad)
	}
	_, _, err = withMeta(t, frame.TypeHeartbeat, map[string]any{"desired_capacities": []byte(`{}`)}).DesiredCapacities()
	assert.NoError(t, err)

	r, err := vectorNamed(t, "heartbeat-reply-memory").HeartbeatReply()
	require.NoError(t, err)
	assert.True(t, r.HasMemory)
	assert.EqualValues(t, []uint64{1, 300, 512}, []uint64{r.DropsTotal, r.OverrunsTotal, r.FootprintMB})
	const pools = `{"all":{"declared":0,"configured":0,"active":0,"queued":0%s}}`
	for extra, ok := range map[string]bool{"": true, `,"available":3`: true, `,"available":null`: false, `,"available":-1`: false, `,"caps":["x"]`: true,
		`,"caps":[1]`: false, `,"other":{}`: true} {
		raw := strings.Replace(pools, "%s", extra, 1)
		_, err := withMeta(t, frame.TypeHeartbeat, map[string]any{"pools": []byte(raw), "rss_mb": 1}).HeartbeatReply()
		assert.Equal(t, ok, err == nil, raw)
	}
	one, err := withMeta(t, frame.TypeHeartbeat, map[string]any{"pools": []byte(`{}`), "rss_mb": 1}).HeartbeatReply()
	require.NoError(t, err)
	assert.Equal(t, frame.HeartbeatReply{Pools: []byte(`{}`)}, one, "one size without the other counts for nothing")
	for _, bad := range []map[string]any{{"pools": "{}"}, {"pools": []byte("null")}, {"pools": []byte(`{"a":{}}`)}, {}} {
		_, err := withMeta(t, frame.TypeHeartbeat, bad).HeartbeatReply()
		assert.Equal(t, "bad-heartbeat", frame.TokenOf(err), "%v", bad)
	}
}

func TestPeerMetas(t *testing.T) {
	id := frame.UUIDFrom([16]byte(unhex(t, "11111111111141118111111111111111")))
	assert.Equal(t, id, vectorNamed(t, "req-peer").ParentID())
	assert.Equal(t, frame.UintID(300), vectorNamed(t, "req-peer-parent-uint").ParentID())
	assert.True(t, vectorNamed(t, "req-identity").ParentID().IsZero())
	assert.True(t, withMeta(t, frame.TypeReq, map[string]any{"parent_rid": "x"}).ParentID().IsZero())
	_, ok := vectorNamed(t, "req-identity").TargetCartridge()
	assert.False(t, ok)
}

func TestAccessorsSurviveAnyMeta(t *testing.T) {
	for _, raw := range []string{"", "00", "a1", "a161", "a16161", "bf", "bf6161", "a1ff", "a1616b5b7fffffffffffffff", "bf616b00", "a2616b00"} {
		for typ := frame.Type(0); typ < frame.TypeCount; typ++ {
			f := &frame.Frame{Type: typ, ID: frame.UintID(0), Has: 1 << frame.KeyMeta, Meta: unhex(t, raw)}
			_ = judge(f, "cartridge")
			_ = judge(f, "host")
			_ = judge(f, "host-awaiting-reply")
			f.CreditDirection()
			f.CancelReason()
			f.ParentID()
			_, _ = f.EndStatus()
			_, _ = f.TargetCartridge()
		}
	}
}
