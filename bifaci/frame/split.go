package frame

// Shape is what kind of CBOR item a value is, as far as a scalar stream treats kinds differently (spec/wire.md 8.2).
type Shape uint8

// The shapes. Items of indefinite length, numbers, tags and simple values are ShapeOther.
const (
	ShapeOther Shape = iota
	ShapeBytes
	ShapeText
	ShapeArray
	ShapeMap
)

// Split takes one CBOR item apart: the content of a byte string or of text, the encoded elements of an array, the entries
// of a map, each as the encoded array [key, value]. content and array elements alias enc. What is malformed, or not
// exactly one item, is ShapeOther.
func Split(enc []byte) (shape Shape, content []byte, elements [][]byte) {
	h, at := readHead(enc, 0)
	if at < 0 || h.info == infoIndef {
		return ShapeOther, nil, nil
	}
	switch h.major {
	case majorBytes, majorText:
		if h.arg != uint64(len(enc)-at) {
			return ShapeOther, nil, nil
		}
		if h.major == majorBytes {
			return ShapeBytes, enc[at:], nil
		}
		return ShapeText, enc[at:], nil
	case majorArray:
		for range h.arg {
			next := skipItem(enc, at)
			if next < 0 {
				return ShapeOther, nil, nil
			}
			elements = append(elements, enc[at:next:next])
			at = next
		}
		shape = ShapeArray
	case majorMap:
		for range h.arg {
			next := skipItem(enc, at) // behind the key
			if next >= 0 {
				next = skipItem(enc, next)
			}
			if next < 0 {
				return ShapeOther, nil, nil
			}
			entry := append(make([]byte, 0, 1+next-at), majorArray|2)
			elements = append(elements, append(entry, enc[at:next]...))
			at = next
		}
		shape = ShapeMap
	default:
		return ShapeOther, nil, nil
	}
	if at != len(enc) {
		return ShapeOther, nil, nil
	}
	return shape, nil, elements
}
