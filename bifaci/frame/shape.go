package frame

// CheckShape looks for the fields without which f decodes but breaks its request (spec/wire.md 2.3 and 7.3): the cap of
// a REQ, the stream of STREAM_START, CHUNK and STREAM_END, the media URN of STREAM_START, the payload of a CHUNK. The
// error is a [*SyntaxError] with the token missing-field; it costs the request, not the connection.
func (f *Frame) CheckShape() error {
	var want Keys
	switch f.Type {
	case TypeReq:
		want = 1 << KeyCap
	case TypeStreamStart:
		want = 1<<KeyStreamID | 1<<KeyMediaURN
	case TypeChunk:
		want = 1<<KeyStreamID | 1<<KeyPayload
	case TypeStreamEnd:
		want = 1 << KeyStreamID
	}
	if missing := want &^ f.Has; missing != 0 {
		return missingField(missing)
	}
	return nil
}

// CheckSum reports whether the payload of f, a CHUNK, hashes to what key 16 says. The error is a [*SyntaxError] with the
// token checksum-mismatch that names both sums.
func (f *Frame) CheckSum() error {
	if sum := Checksum(f.Payload); sum != f.Checksum {
		return keyError(TokenChecksumMismatch, KeyChecksum, Nowhere, "%016x, the payload of %d bytes hashes to %016x",
			f.Checksum, len(f.Payload), sum)
	}
	return nil
}
