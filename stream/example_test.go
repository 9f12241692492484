package stream_test

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/reugn/go-streams/flow"

	"github.com/pipe-cartridge/pipe/stream"
)

func Example() {
	p := stream.NewPipeline(context.Background())
	text := stream.FromReader(p, "text", strings.NewReader("to be or not to be"), 1024)
	words := stream.Then(text, "split", stream.FlatMap(func(b []byte) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for word := range strings.FieldsSeq(string(b)) {
				if !yield(word, nil) {
					return
				}
			}
		}
	}))
	pairs := stream.Then(words, "pair", stream.Batch[string](2, 0))
	for pair, err := range pairs.All() {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(strings.Join(pair, " "))
	}
	fmt.Println(p.Wait())
	// Output:
	// to be
	// or not
	// to be
	// <nil>
}

func ExampleVia() {
	p := stream.NewPipeline(context.Background())
	words := stream.FromSeq(p, "words", func(yield func(string, error) bool) {
		_ = yield("one", nil) && yield("two", nil)
	})
	loud := stream.Via[string, string](words, "upper", flow.NewMap(strings.ToUpper, 1))
	for word, err := range loud.All() {
		fmt.Println(word, err)
		break // the flow is emptied and everything has ended when the loop is left
	}
	fmt.Println(p.Wait())
	// Output:
	// ONE <nil>
	// <nil>
}
