package frame

// ParentID is the request on whose behalf a cartridge makes the call that f, a REQ, opens (spec/wire.md 7.6); the zero
// ID when f does not say, or not in the form of an id.
func (f *Frame) ParentID() ID {
	w := walkMeta(f)
	for key, v, ok := w.next(); ok; key, v, ok = w.next() {
		if string(key) == "parent_rid" {
			if id, next := idAt(v, 0); next >= 0 {
				return id
			}
			return ID{}
		}
	}
	return ID{}
}

// AppendParentMeta appends the meta of a peer call's REQ.
func AppendParentMeta(dst []byte, parent ID) []byte {
	dst = putKey(mapHead(dst, true), "parent_rid")
	if b, ok := parent.UUID(); ok {
		return append(AppendBytesHead(dst, len(b)), b[:]...)
	}
	n, _ := parent.Uint()
	return appendHead(dst, majorUint, n)
}

// TargetCartridge is the install that f, a REQ, must be served by, when it names one.
func (f *Frame) TargetCartridge() (name string, ok bool) {
	w := walkMeta(f)
	for key, v, more := w.next(); more; key, v, more = w.next() {
		if string(key) == "target_cartridge" {
			return v.text()
		}
	}
	return "", false
}

// AppendTargetMeta appends the meta of a REQ that names the install it is for.
func AppendTargetMeta(dst []byte, name string) []byte {
	return putText(mapHead(dst, true), "target_cartridge", name)
}
