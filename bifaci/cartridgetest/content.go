package cartridgetest

import (
	"bytes"
	"errors"
	"io"

	"github.com/fxamacker/cbor/v2"
)

// content follows the payloads of one stream: each CHUNK of a scalar stream is one value (spec/wire.md 8.2), and a sequence is cut
// anywhere but ends between items (8.3).
type content struct {
	sequence bool
	open     []byte // an item that has begun
	next     int    // length of open at which it is looked at again: a long item is not scanned for each of its fragments
}

var (
	errNotOne    = errors.New("the payload is not one CBOR value")
	errNoItems   = errors.New("the payload carries no CBOR items")
	errItemIsCut = errors.New("the stream ends inside an item")
)

// chunk takes a payload in.
func (c *content) chunk(payload []byte) error {
	if !c.sequence {
		if whole(payload) != nil {
			return errNotOne
		}
		return nil
	}
	if c.open = append(c.open, payload...); len(c.open) < c.next {
		return nil
	}
	return c.look()
}

// look takes the whole items off.
func (c *content) look() error {
	for len(c.open) > 0 {
		var item cbor.RawMessage
		rest, err := cborModes().value.UnmarshalFirst(c.open, &item)
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			c.open = nil
			return errNoItems
		}
		c.open = rest
	}
	c.open = bytes.Clone(c.open)
	c.next = 2*len(c.open) + 1
	return nil
}

// end is the end of the stream.
func (c *content) end() error {
	if err := c.look(); err != nil {
		return err
	}
	if len(c.open) > 0 {
		return errItemIsCut
	}
	return nil
}

func whole(value []byte) error { return cborModes().value.Wellformed(value) }
