package frame

// IdentityCap is the capability that every cartridge serves and that the host calls to see whether it is alive.
const IdentityCap = "cap:effect=none"

// IdentityStream is the stream id of the identity check's one argument.
const IdentityStream = "identity-verify"

// identityNonce is the CBOR text "bifaci" (spec/wire.md 6.2).
const identityNonce = "\x66bifaci"

// IdentityNonce is what the identity request sends and its answer must return: seven bytes. The caller may keep it.
func IdentityNonce() []byte { return []byte(identityNonce) }

// NewHello is the HELLO that says h.
func NewHello(h Hello) *Frame {
	f := &Frame{Type: TypeHello, ID: UintID(0), Meta: AppendHelloMeta(nil, h)}
	f.Has = f.Has.With(KeyMeta)
	return f
}

// HostHello is the HELLO that opens a link: the host's proposals.
func HostHello(proposal Limits) *Frame { return NewHello(Hello{Version: Version, Limits: proposal}) }

// CartridgeHello is the answer to it: the cartridge's own proposals, so that the host can name both (spec/wire.md 6.1),
// the manifest's JSON as it is, and the JSON of the full pool map.
func CartridgeHello(proposal Limits, manifest, pools []byte) *Frame {
	return NewHello(Hello{Version: Version, Limits: proposal, Manifest: manifest, HasManifest: true, Pools: pools, HasPools: true})
}

// AcceptHello judges the first frame that came from sender and negotiates: every refusal of spec/wire.md 6.1 but those
// about the manifest's content. Key 0 has been judged by [Decode]. The error is a [*SyntaxError].
func AcceptHello(f *Frame, sender Role, ours Limits) (Hello, Limits, error) {
	if f.Type != TypeHello {
		return Hello{}, Limits{}, &SyntaxError{Token: TokenBadHello, Key: int(KeyType), Offset: Nowhere,
			Detail: "the first frame from the " + sender.String() + " is " + f.Type.String() + ", want hello"}
	}
	h, err := f.Hello(sender)
	if err != nil {
		return Hello{}, Limits{}, err
	}
	agreed, err := Negotiate(ours, h.Limits)
	return h, agreed, err
}

// IdentityRequest is the five frames of the identity check, seq 0 to 4, for a fresh id; routing is integer 0 on a pipe
// (spec/wire.md 6.2).
func IdentityRequest(id, routing ID) []*Frame {
	frames := make([]*Frame, 5)
	for seq, t := range []Type{TypeReq, TypeStreamStart, TypeChunk, TypeStreamEnd, TypeEnd} {
		f := &Frame{Type: t, ID: id, Seq: uint64(seq)}
		if t != TypeReq && t != TypeEnd {
			f.StreamID, f.Has = []byte(IdentityStream), f.Has.With(KeyStreamID)
		}
		frames[seq] = f.WithRouting(routing)
	}
	req, start, chunk, streamEnd, end := frames[0], frames[1], frames[2], frames[3], frames[4]

	req.ContentType, req.Cap = []byte("application/cbor"), []byte(IdentityCap)
	req.Has = req.Has.With(KeyContentType).With(KeyCap).With(KeyPayload)

	start.MediaURN, start.Has = []byte("media:"), start.Has.With(KeyMediaURN)

	chunk.Payload = append(AppendBytesHead(nil, len(identityNonce)), identityNonce...)
	chunk.Checksum = Checksum(chunk.Payload)
	chunk.Has = chunk.Has.With(KeyPayload).With(KeyChunkIndex).With(KeyChecksum)

	streamEnd.ChunkCount, streamEnd.Has = 1, streamEnd.Has.With(KeyChunkCount)

	end.EOF, end.Has = true, end.Has.With(KeyEOF)
	return frames
}
