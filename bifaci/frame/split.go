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

// Split takes one well-formed CBOR item apart: the content of a byte string or of text, the encoded elements of an array, the
// entries of a map, each as the encoded array [key, value]. content and array elements alias enc.
func Split(enc []byte) (shape Shape, content []byte, elements [][]byte) {
	h, at := readHead(enc, 0)
	if at < 0 || h.info == infoIndef {
		return ShapeOther, nil, nil
	}
	switch h.major {
	case majorBytes:
		return ShapeBytes, enc[at:], nil
	case majorText:
		return ShapeText, enc[at:], nil
	case majorArray:
		for at < len(enc) {
			next := skipItem(enc, at)
			elements = append(elements, enc[at:next:next])
			at = next
		}
		return ShapeArray, nil, elements
	case majorMap:
		for at < len(enc) {
			next := skipItem(enc, skipItem(enc, at))
			entry := make([]byte, 0, 1+next-at)
			entry = append(entry, majorArray|2)
			elements = append(elements, append(entry, enc[at:next]...))
			at = next
		}
		return ShapeMap, nil, elements
	}
	return ShapeOther, nil, nil
}
