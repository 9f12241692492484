package frame

import "strconv"

// CreditDir says whose data a CREDIT is about, not where the frame goes (spec/wire.md section 9).
type CreditDir uint8

// The two directions. The zero CreditDir is none.
const (
	CreditRequest  CreditDir = 1 // argument streams; granted by the callee
	CreditResponse CreditDir = 2 // answer streams; granted by the caller
)

// String is the word on the wire.
func (d CreditDir) String() string {
	switch d {
	case CreditRequest:
		return "request"
	case CreditResponse:
		return "response"
	}
	return "credit-dir(" + strconv.Itoa(int(d)) + ")"
}

// The two metas a CREDIT has: {"credit_dir": "request"} and {"credit_dir": "response"}.
const (
	creditRequestMeta  = "\xa1\x6acredit_dir\x67request"
	creditResponseMeta = "\xa1\x6acredit_dir\x68response"
)

// Never written to; see CreditMeta.
var creditMetas = [...][]byte{nil, []byte(creditRequestMeta), []byte(creditResponseMeta)}

// CreditMeta is the meta of a CREDIT of direction d, CreditRequest or CreditResponse. The bytes are shared and must not
// be changed.
func CreditMeta(d CreditDir) []byte {
	m := creditMetas[d]
	return m[:len(m):len(m)]
}

// CreditDirection reads the direction of a CREDIT. ok is false when it is missing or unknown: such a frame is one
// counted no_route drop, and the direction is never guessed.
func (f *Frame) CreditDirection() (d CreditDir, ok bool) {
	if !f.Has.Has(KeyMeta) {
		return 0, false
	}
	switch string(f.Meta) { // compares without allocating
	case creditRequestMeta:
		return CreditRequest, true
	case creditResponseMeta:
		return CreditResponse, true
	}
	w := walkMeta(f)
	for key, v, more := w.next(); more; key, v, more = w.next() {
		if string(key) != "credit_dir" {
			continue
		}
		switch word, _ := textAt(v, 0); string(word) {
		case "request":
			d = CreditRequest
		case "response":
			d = CreditResponse
		}
	}
	if w.broken {
		return 0, false
	}
	return d, d != 0
}
