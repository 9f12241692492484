package frame

// Scanner finds where the items of a CBOR sequence end while their bytes arrive in pieces (spec/wire.md 8.3). It follows
// heads only: a string costs its head, whatever its length. It checks that items are well formed and nested at most 256
// levels deep, but neither UTF-8 nor duplicate keys. It allocates only below the eighth level. The zero Scanner is
// ready. Not safe for concurrent use.
type Scanner struct {
	skip    uint64    // bytes of the current string that are still to come
	near    [8]uint64 // what is left of the outer containers, in items, or one of the open… values
	deep    []uint64  // the same for the containers within
	depth   int       // containers that are open
	pos     int       // bytes of the current item seen, for errors
	partial [maxHead]byte
	held    int // bytes in partial: a head that the input has cut
	inItem  bool
	err     *SyntaxError
}

// Containers without a declared length. A declared count cannot reach these values.
const (
	openArray  = ^uint64(0) - iota
	openMap    // a key or the break comes next
	openEntry  // the value of an entry comes next
	openBytes  // segments
	openText   // segments
	maxDeclare = 1 << 62
)

// Feed consumes p up to the end of the current item, or all of p. n is the number of bytes consumed; done says that
// the item ended with them, and the next Feed begins a new one. After an error, which is a [*SyntaxError], only Reset
// helps.
func (s *Scanner) Feed(p []byte) (n int, done bool, err error) {
	if s.err != nil {
		return 0, false, s.err
	}
	for n < len(p) {
		s.inItem = true
		if s.skip > 0 {
			step := min(s.skip, uint64(len(p)-n))
			n += int(step)
			s.pos += int(step)
			if s.skip -= step; s.skip == 0 && s.complete() {
				s.pos, s.inItem = 0, false
				return n, true, nil
			}
			continue
		}
		h, size := s.readHead(p[n:])
		if size >= 0 && h.major == majorOther && h.info == infoIndef {
			done = s.closeOpen()
		} else if size >= 0 {
			done = s.begin(h)
		} else if size == headTruncated { // everything there was is in partial now
			s.pos += len(p) - n
			return len(p), false, nil
		} else {
			s.fail(TokenBadCBOR, "reserved head")
		}
		if s.err != nil {
			return n, false, s.err
		}
		n += size
		s.pos += size
		if done {
			s.pos, s.inItem = 0, false
			return n, true, nil
		}
	}
	return n, false, nil
}

// InItem reports whether an item has begun and not ended. A sequence may end only while it is false.
func (s *Scanner) InItem() bool { return s.inItem }

// Reset makes s ready for a new sequence.
func (s *Scanner) Reset() { *s = Scanner{deep: s.deep[:0]} }

// readHead reads a head from p, behind what an earlier piece has left in partial. size counts the bytes taken from p.
func (s *Scanner) readHead(p []byte) (h head, size int) {
	if s.held == 0 {
		if h, size = readHead(p, 0); size != headTruncated {
			return h, size
		}
	}
	want := headSize(p[0])
	if s.held > 0 {
		want = headSize(s.partial[0])
	}
	size = copy(s.partial[s.held:want], p)
	s.held += size
	if s.held < want {
		return h, headTruncated
	}
	h, next := readHead(s.partial[:want], 0)
	s.held = 0
	if next < 0 {
		return h, next
	}
	return h, size
}

// begin takes in a head other than break, and reports whether the whole item ended with it.
func (s *Scanner) begin(h head) bool {
	if s.depth > 0 {
		switch top := *s.top(); {
		case top == openBytes && (h.major != majorBytes || h.info == infoIndef),
			top == openText && (h.major != majorText || h.info == infoIndef):
			return s.fail(TokenBadCBOR, "bad segment in an indefinite-length string")
		}
	}
	indefinite := h.info == infoIndef
	switch h.major {
	case majorBytes:
		if indefinite {
			return s.push(openBytes)
		}
		s.skip = h.arg
		return h.arg == 0 && s.complete()
	case majorText:
		if indefinite {
			return s.push(openText)
		}
		s.skip = h.arg
		return h.arg == 0 && s.complete()
	case majorArray, majorMap, majorTag:
		if s.depth >= maxValueDepth {
			return s.fail(TokenTooDeep, "nested deeper than 256 levels")
		}
	default:
		return s.complete()
	}
	switch {
	case h.major == majorTag:
		return s.push(1)
	case indefinite && h.major == majorArray:
		return s.push(openArray)
	case indefinite:
		return s.push(openMap)
	case h.arg > maxDeclare:
		return s.fail(TokenBadCBOR, "container with an impossible count")
	case h.arg == 0:
		return s.complete()
	case h.major == majorMap:
		return s.push(2 * h.arg)
	}
	return s.push(h.arg)
}

// closeOpen takes in a break.
func (s *Scanner) closeOpen() bool {
	if s.depth > 0 {
		switch *s.top() {
		case openArray, openMap, openBytes, openText:
			s.pop()
			return s.complete()
		}
	}
	return s.fail(TokenBadCBOR, "break outside an indefinite-length item")
}

// complete counts one finished item in the container around it, and on outwards. It reports whether the outermost item
// has ended.
func (s *Scanner) complete() bool {
	for s.depth > 0 {
		switch top := s.top(); *top {
		case openArray, openBytes, openText:
			return false
		case openMap:
			*top = openEntry
			return false
		case openEntry:
			*top = openMap
			return false
		default:
			if *top--; *top > 0 {
				return false
			}
			s.pop()
		}
	}
	return true
}

// push opens a container; the result is always false, for the callers' convenience.
func (s *Scanner) push(left uint64) bool {
	if s.depth < len(s.near) {
		s.near[s.depth] = left
	} else {
		s.deep = append(s.deep, left)
	}
	s.depth++
	return false
}

func (s *Scanner) pop() {
	s.depth--
	if s.depth >= len(s.near) {
		s.deep = s.deep[:len(s.deep)-1]
	}
}

func (s *Scanner) top() *uint64 {
	if s.depth <= len(s.near) {
		return &s.near[s.depth-1]
	}
	return &s.deep[len(s.deep)-1]
}

func (s *Scanner) fail(token, detail string) bool {
	s.err = &SyntaxError{Token: token, Key: Nowhere, Offset: s.pos, Detail: detail}
	return false
}
