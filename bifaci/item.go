package bifaci

import (
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/stages"
)

// Item is one value of an input stream. It may be kept for ever.
type Item struct {
	// Bytes is the content of a byte string or of text, and the CBOR encoding of any other value.
	Bytes []byte
	// Meta is the item's meta, nil when it has none.
	Meta frame.Meta

	enc   []byte // the CBOR encoding; nil when Bytes is all there is
	block *stages.Block
}

// Value decodes the item: []byte, string, int64 or uint64, float64, bool, nil, []any, map[string]any and what else CBOR has.
func (it *Item) Value() (any, error) {
	if it.enc == nil {
		return it.Bytes, nil
	}
	return frame.DecodeValue(it.enc)
}

// Release gives the item's memory back early; the garbage collector would get it otherwise. Neither Bytes nor a value that
// was decoded from it may be used afterwards.
func (it *Item) Release() {
	it.block.Release()
	*it = Item{}
}

// newItem makes an Item of what a stage delivers.
func newItem(s stages.Item) (Item, error) {
	it := Item{enc: s.Enc, block: s.Block, Bytes: s.Enc}
	if inner, ok := frame.InnerBytes(s.Enc); ok {
		it.Bytes = inner
	} else if shape, content, _ := frame.Split(s.Enc); shape == frame.ShapeText {
		it.Bytes = content
	}
	if s.Meta != nil {
		meta, err := frame.DecodeMeta(s.Meta)
		if err != nil {
			return Item{}, err
		}
		it.Meta = meta
	}
	return it, nil
}

// Piece is one CHUNK of an input stream as it came, with its encoding and its verified checksum, for [OutputStream.Forward].
// Its bytes cannot be reached, so nobody can change them under the checksum.
type Piece struct{ p stages.Piece }

// Size is the length of the piece's encoding, bytes.
func (p *Piece) Size() int { return p.p.Size() }

// Release gives the memory of a piece that is not forwarded back.
func (p *Piece) Release() { p.p.Release() }
