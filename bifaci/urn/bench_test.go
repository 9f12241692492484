package urn_test

import (
	"fmt"
	"testing"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

const benchRequest = `cap:extract;in="media:document;ext=pdf";out=media:record;target=metadata`

func BenchmarkParse(b *testing.B) {
	b.Run("media", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = urn.ParseMedia("media:audio;ext=wav;speech")
		}
	})
	b.Run("cap", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = urn.ParseCap(benchRequest)
		}
	})
}

func BenchmarkDispatch(b *testing.B) {
	candidate := urn.MustCap(`cap:extract;in=media:document;out=media:record;target=metadata;v=2`)
	request := urn.MustCap(benchRequest)
	b.ReportAllocs()
	for b.Loop() {
		if !candidate.IsDispatchable(request) {
			b.Fatal("it serves")
		}
	}
}

func BenchmarkBest(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("caps=%d", n), func(b *testing.B) {
			caps := manyCaps(n)
			request := urn.MustCap("cap:op-0")
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := urn.Best(caps, request, nil); !ok {
					b.Fatal("the first one serves")
				}
			}
		})
	}
}

func BenchmarkIndex(b *testing.B) {
	index := urn.NewIndex(manyCaps(100))
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
