package bench

import (
	"fmt"
	"testing"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

func BenchmarkIndex(b *testing.B) {
	index := urn.NewIndex(handlers(100))
	known := `cap:in="media:document;ext=t6";op-41`
	b.Run("remembered/string", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _, _ = index.Lookup(known)
		}
	})
	b.Run("remembered/bytes", func(b *testing.B) {
		request := []byte(known)
		b.ReportAllocs()
		for b.Loop() {
			_, _, _ = index.LookupBytes(request)
		}
	})
	b.Run("remembered/parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, _, _ = index.Lookup(known)
			}
		})
	})
	// More different requests than the cache holds, asked in turn, are decided anew each time.
	for name, pattern := range map[string]string{
		"unknown/served":    `cap:in="media:document;ext=t6";op-41;?n%d`,
		"unknown/unserved":  `cap:in="media:document;ext=t6";nowhere;?n%d`,
		"unknown/ambiguous": `cap:in="media:document;ext=t6";?n%d;out=media:pdf`,
	} {
		b.Run(name, func(b *testing.B) {
			requests := make([]string, 8192)
			for i := range requests {
				requests[i] = fmt.Sprintf(pattern, i)
			}
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				_, _, _ = index.Lookup(requests[n%len(requests)])
				n++
			}
		})
	}
}

// handlers are the caps of a cartridge with n handlers.
func handlers(n int) []urn.Cap {
	caps := make([]urn.Cap, n)
	for i := range caps {
		caps[i] = urn.MustCap(fmt.Sprintf(`cap:in="media:ext=t%d;document";op-%d;out="media:enc=utf-8;record"`, i%7, i))
	}
	return caps
}
