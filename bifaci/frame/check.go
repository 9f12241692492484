package frame

import (
	"unicode/utf8"
)

// Nesting bounds, in levels: the outermost array, map or tag is level 1 and each one inside adds one.
const (
	maxFrameDepth = 32  // a frame; its map is level 1 (spec/wire.md 2.2)
	maxValueDepth = 256 // a payload item
)

// keyRule says which keys a map may have.
type keyRule uint8

const (
	scalarKeys keyRule = iota // any number, text, bytes or simple value: the maps inside a meta
	textKeys                  // a meta map
	frameKeys                 // the frame map: unsigned integers, the value of key 5 is a meta map
)

// checker walks CBOR and judges all that belongs to the layer "cbor" of spec/wire.md 2.3: heads, lengths against what
// is really there, UTF-8, nesting, and if unique is set the kinds of keys and duplicates among them. It never trusts
// a length and allocates only for maps whose keys are out of order or in segments.
type checker struct {
	b        []byte
	maxDepth int
	unique   bool
}

// checkBody judges a frame body at the layer "cbor".
func checkBody(body []byte) *SyntaxError {
	c := checker{b: body, maxDepth: maxFrameDepth, unique: true}
	h, i := readHead(body, 0)
	if i < 0 {
		return headError(i, 0)
	}
	if h.major != majorMap {
		if h.major == majorOther && h.info == infoIndef {
			return syntaxf(TokenBadCBOR, 0, "break without anything to end")
		}
		return syntaxf(TokenNotAMap, 0, "first byte 0x%02x, want a map", body[0])
	}
	i, err := c.entries(h, i, 1, frameKeys)
	if err != nil {
		return err
	}
	if i != len(body) {
		return syntaxf(TokenTrailingBytes, i, "%d bytes behind the frame map", len(body)-i)
	}
	return nil
}

// WellFormed reports whether p is exactly one well-formed CBOR item with valid UTF-8, nested at most 256 levels deep.
// It does not look for duplicate keys. The error is a [*SyntaxError]. WellFormed does not allocate unless it fails.
func WellFormed(p []byte) error {
	c := checker{b: p, maxDepth: maxValueDepth}
	i, err := c.item(0, 1)
	if err != nil {
		return err
	}
	if i != len(p) {
		return syntaxf(TokenTrailingBytes, i, "%d bytes behind the item", len(p)-i)
	}
	return nil
}

// item checks the item at i and returns the position behind it. level is the level a container at i would have.
func (c *checker) item(i, level int) (int, *SyntaxError) {
	for {
		h, next := readHead(c.b, i)
		if next < 0 {
			return 0, headError(next, i)
		}
		switch h.major {
		case majorUint, majorNeg:
			return next, nil
		case majorBytes, majorText:
			return c.str(h, i, next)
		case majorArray:
			if err := c.deeper(i, level); err != nil {
				return 0, err
			}
			return c.elements(h, next, level)
		case majorMap:
			if err := c.deeper(i, level); err != nil {
				return 0, err
			}
			return c.entries(h, next, level, scalarKeys)
		case majorTag: // counts as a level, so that recursion over decoded tags is bounded as well
			if err := c.deeper(i, level); err != nil {
				return 0, err
			}
			i, level = next, level+1
		default:
			if h.info == infoIndef {
				return 0, syntaxf(TokenBadCBOR, i, "break outside an indefinite-length item")
			}
			return next, nil
		}
	}
}

func (c *checker) deeper(i, level int) *SyntaxError {
	if level > c.maxDepth {
		return syntaxf(TokenTooDeep, i, "nesting level %d, at most %d", level, c.maxDepth)
	}
	return nil
}

// str checks the string whose head stands at i and ends at next.
func (c *checker) str(h head, i, next int) (int, *SyntaxError) {
	if h.info != infoIndef {
		if h.arg > uint64(len(c.b)-next) {
			return 0, syntaxf(TokenBadCBOR, i, "string of %d bytes, %d left", h.arg, len(c.b)-next)
		}
		end := next + int(h.arg)
		if h.major == majorText && !utf8.Valid(c.b[next:end]) {
			return 0, syntaxf(TokenInvalidUTF8, i, "text is not UTF-8")
		}
		return end, nil
	}
	for {
		s, at := readHead(c.b, next)
		switch {
		case at < 0:
			return 0, headError(at, next)
		case c.b[next] == byteBreak:
			return at, nil
		case s.major != h.major || s.info == infoIndef:
			return 0, syntaxf(TokenBadCBOR, next, "segment with first byte 0x%02x in an indefinite-length string", c.b[next])
		}
		end, err := c.str(s, next, at)
		if err != nil {
			return 0, err
		}
		next = end
	}
}

// elements checks the elements of the array with head h, which begin at i.
func (c *checker) elements(h head, i, level int) (int, *SyntaxError) {
	if h.info != infoIndef && h.arg > uint64(len(c.b)-i) {
		return 0, syntaxf(TokenBadCBOR, i, "array of %d elements, %d bytes left", h.arg, len(c.b)-i)
	}
	for n := h.arg; h.info == infoIndef || n > 0; n-- {
		if h.info == infoIndef && i < len(c.b) && c.b[i] == byteBreak {
			return i + 1, nil
		}
		next, err := c.item(i, level+1)
		if err != nil {
			return 0, err
		}
		i = next
	}
	return i, nil
}

// entries checks the entries of the map with head h, which begin at i.
func (c *checker) entries(h head, i, level int, rule keyRule) (int, *SyntaxError) {
	if h.info != infoIndef && h.arg > uint64(len(c.b)-i)/2 {
		return 0, syntaxf(TokenBadCBOR, i, "map of %d entries, %d bytes left", h.arg, len(c.b)-i)
	}
	begin, ascending := i, true
	var last mapKey
	for n := h.arg; h.info == infoIndef || n > 0; n-- {
		if h.info == infoIndef && i < len(c.b) && c.b[i] == byteBreak {
			i++
			break
		}
		next, err := c.item(i, level+1)
		if err != nil {
			return 0, err
		}
		var key mapKey
		if c.unique {
			if key, err = keyAt(c.b, i, rule); err != nil {
				return 0, err
			}
			switch order := last.compare(key); {
			case order == 0:
				return 0, duplicate(key, i)
			case order > 0:
				ascending = false
			}
			last = key
		}
		if i, err = c.value(next, level, rule, key); err != nil {
			return 0, err
		}
	}
	if !ascending {
		if err := findDuplicate(c.b[:i], begin); err != nil {
			return 0, err
		}
	}
	return i, nil
}

// value checks the value at i that belongs to key; in a frame map it knows the meta and names the key in errors.
func (c *checker) value(i, level int, rule keyRule, key mapKey) (next int, err *SyntaxError) {
	if rule != frameKeys {
		return c.item(i, level+1)
	}
	if h, at := readHead(c.b, i); key.num == uint64(KeyMeta) && at >= 0 && h.major == majorMap {
		next, err = c.entries(h, at, level+1, textKeys)
	} else {
		next, err = c.item(i, level+1)
	}
	if err != nil && err.Key == Nowhere && key.num < 1<<31 {
		err.Key = int(key.num)
	}
	return next, err
}

func headError(what, i int) *SyntaxError {
	if what == headTruncated {
		return syntaxf(TokenBadCBOR, i, "input ends inside an item")
	}
	return syntaxf(TokenBadCBOR, i, "reserved head")
}
