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
