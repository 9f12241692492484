package conform

import (
	"fmt"
	"maps"
	"strings"
)

func handshakeChecks() []check {
	return []check{
		{id: "hello-after-hosts", rule: "R-12.2",
			title: "nothing is sent before the host's HELLO was read; without one the process fails", run: helloAfterHosts},
		{id: "hello-shape", rule: "wire 6.1", title: "HELLO has four limits, version 6, a manifest with identity, and the pool map", run: helloShape},
		{id: "hello-version", rule: "R-12.4", title: "a HELLO of another version, in key 0 or in meta, is refused; 262 is not 6", run: helloVersion},
		{id: "hello-limits", rule: "R-12.3", title: "a HELLO without one of the limits, or with a zero, is refused", run: helloLimits},
		{id: "hello-first", rule: "R-2.24", title: "a first frame that is not HELLO is refused", run: helloFirst},
	}
}

func helloAfterHosts(t *trial) {
	s := t.start(defaultLimits())
	s.closeInput()
	s.wantRefusal()
	if all := s.recorded(); len(all) > 0 {
		t.fail("an input that ends before HELLO is answered with nothing", "%s", all[0])
	}
}

func helloShape(t *trial) {
	s := t.start(defaultLimits())
	f := s.hello()
	t.ensure(f[xID] == uint64(0) && f[xSeq] == uint64(0) && f[xVersion] == protocolVersion, f, "version 6, id 0, seq 0", "something else")
	t.ensure(f.meta()["version"] == protocolVersion, f, "meta.version 6", "it is %v", f.meta()["version"])
	all := s.pools(f)["all"]
	t.ensure(len(all.Caps) > 0 && sorted(all.Caps), f, "pool all with its caps, sorted", "%v", all.Caps)
	for _, name := range all.Caps {
		_, ok := s.pools(f)[name]
		t.ensure(ok, f, "a singleton pool "+name, "there is none")
	}
}

func sorted(words []string) bool {
	for i := 1; i < len(words); i++ {
		if words[i-1] >= words[i] {
			return false
		}
	}
	return true
}

// refuse sends what must not be accepted as a HELLO, and returns what the cartridge wrote to its standard error.
func refuse(t *trial, why string, wire []byte) string {
	s := t.start(defaultLimits())
	s.sendRaw(wire)
	if late := s.awaitWithin(s.patience, func() bool { return s.readErr != nil || len(s.events) > 1 }); late != "" {
		t.fail("the cartridge ends: "+why, "%s", late)
	}
	if all := s.frames(); len(all) > 0 {
		t.failAt(all[0], "no HELLO: "+why, "it was accepted")
	}
	s.wantRefusal()
	return s.said()
}

func helloVersion(t *trial) {
	for _, version := range []uint64{4, 7, 262} {
		meta := helloFrame(defaultLimits())
		meta.meta()["version"] = version
		said := refuse(t, fmt.Sprintf("meta.version is %d", version), meta.encode())
		t.ensure(strings.Contains(said, fmt.Sprint(version)) && strings.Contains(said, "6"), nil,
			fmt.Sprintf("a message that names both versions, %d and 6", version), "%q", said)
	}
	for _, version := range []uint64{5, 262} {
		refuse(t, fmt.Sprintf("key 0 is %d", version), helloFrame(defaultLimits()).with(xVersion, version).encode())
	}
	meta := helloFrame(defaultLimits())
	delete(meta.meta(), "version")
	refuse(t, "meta.version is missing", meta.encode())
}

func helloLimits(t *trial) {
	for _, limit := range []string{"max_frame", "max_chunk", "max_reorder_buffer", "initial_credit"} {
		f := helloFrame(defaultLimits())
		m := maps.Clone(f.meta())
		delete(m, limit)
		refuse(t, limit+" is missing", f.with(xMeta, m).encode())
		m[limit] = uint64(0)
		said := refuse(t, limit+" is 0", f.with(xMeta, m).encode())
		if limit == "initial_credit" {
			t.ensure(strings.Contains(said, "0") && strings.Contains(said, "32"), nil,
				"a message that names both proposals, 0 and the cartridge's", "%q", said)
		}
	}
	for what, v := range map[string]any{"a text": "32", "negative": int64(-1)} {
		f := helloFrame(defaultLimits())
		m := maps.Clone(f.meta())
		m["max_chunk"] = v
		refuse(t, "max_chunk is "+what, f.with(xMeta, m).encode())
	}
	refuse(t, "it has no meta", helloFrame(defaultLimits()).without(xMeta).encode())
}

func helloFirst(t *trial) {
	for _, f := range []frame{heartbeatFrame(""), policyFrame("online", true), reqFrame(identityCap).with(xID, newUUID())} {
		refuse(t, "the first frame is a "+f.kind().String(), f.encode())
	}
	refuse(t, "the first frame is no CBOR", []byte{0, 0, 0, 2, 0xff, 0xff})
	refuse(t, "the input is a text", []byte("GET / HTTP/1.1\r\n\r\n"))
}
