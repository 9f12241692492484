package urn

import "sync/atomic"

// Bounds of what an Index remembers: 1024 answers about requests of up to 1 KiB, so about 1 MiB whatever strangers ask.
const (
	buckets       = 256 // a power of two
	ways          = 4   // answers per bucket; a power of two
	maxRemembered = 1024
)

// answer is what a lookup gave for a request text. It never changes.
type answer struct {
	request string
	index   int
	found   bool
}

// answers is a cache without locks. A request can stand in any place of the one bucket that its hash picks, and a new one
// in a full bucket takes the place of an old one that the hash picks as well. Two goroutines that remember at once may
// lose one of the answers, which costs a later lookup and nothing else.
type answers [buckets][ways]atomic.Pointer[answer]

// recall gives the answer for a request, or nil.
func recall[Text string | []byte](c *answers, hash uint64, request Text) *answer {
	bucket := &c[hash%buckets]
	for i := range bucket {
		if a := bucket[i].Load(); a != nil && a.request == string(request) {
			return a
		}
	}
	return nil
}

// remember keeps an answer.
func (c *answers) remember(hash uint64, a *answer) {
	bucket := &c[hash%buckets]
	for i := range bucket {
		if bucket[i].CompareAndSwap(nil, a) {
			return
		}
	}
	bucket[hash/buckets%ways].Store(a)
}
