package urn_test

import (
	"errors"
	"fmt"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

func ExampleBuilder() {
	c, err := urn.NewBuilder().
		In("media:document;ext=pdf").
		Out("media:record").
		Marker("extract").
		Tag("target", "metadata").
		Build()
	fmt.Println(c, err)
	// Output: cap:extract;in="media:document;ext=pdf";out=media:record;target=metadata <nil>
}

func ExampleIndex() {
	index := urn.NewIndex([]urn.Cap{
		urn.MustCap("cap:transcribe;in=media:audio;out=media:segment"),
		urn.MustCap("cap:language=it;transcribe;in=media:audio;out=media:segment"),
	})
	for _, request := range []string{`cap:transcribe;in="media:audio;ext=wav"`, "cap:transcribe;language=it", "cap:translate"} {
		i, ok, err := index.Lookup(request)
		fmt.Println(i, ok, err)
	}
	// Output:
	// 0 true <nil>
	// 1 true <nil>
	// 0 false <nil>
}

func ExampleMedia_Satisfies() {
	lossless := urn.MustMedia("media:audio;!lossy")
	recording := urn.MustMedia("media:audio;ext=wav")
	fmt.Println(recording.Satisfies(lossless), "- this recording has no tag lossy")
	fmt.Println(recording.ConformsTo(lossless), "- but the type covers lossy ones too")
	// Output:
	// true - this recording has no tag lossy
	// false - but the type covers lossy ones too
}

func ExampleParseError() {
	_, err := urn.ParseCap("cap:transcribe;in=media:ext=wav")
	fmt.Println(errors.Is(err, urn.InvalidCharacter))
	fmt.Println(err)
	// Output:
	// true
	// urn "cap:transcribe;in=media:ext=wav": at byte 27: '=' in the value of key "in"; put the value in quotes (InvalidCharacter)
}
