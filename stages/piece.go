package stages

import "github.com/pipe-cartridge/pipe/bifaci/frame"

// NewPiece makes a piece of one whole CBOR value that did not come from the wire: a scalar value, or an item of a sequence. enc
// must not be changed afterwards.
func NewPiece(enc []byte, sequence bool) Piece {
	return Piece{enc: enc, sum: frame.Checksum(enc), first: true, last: true, seq: sequence}
}

// Encoding is a copy of the piece's encoding; of a sequence it may be a part of an item.
func (p *Piece) Encoding() []byte { return append([]byte(nil), p.enc...) }

// WithMeta gives the first fragment of an item its meta, a CBOR map.
func (p Piece) WithMeta(meta []byte) Piece {
	p.meta = meta
	return p
}
