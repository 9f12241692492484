package feed_test

import (
	"context"
	"fmt"

	"github.com/pipe-cartridge/pipe/bifaci/feed"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // whatever happens, the device is released

	s, err := feed.ParseSelector([]byte(`{"params":{"interval_ms":1,"item_bytes":2},"stop":{"max_items":3}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := feed.Open(ctx, "media:live;synthetic", s)
	if err != nil {
		fmt.Println(err)
		return
	}
	for item, err := range f.Items(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%x at %v µs\n", item.Data, item.Meta["pts_us"])
	}
	<-f.Done()
	fmt.Println(f.Overruns(), "lost")
	// Output:
	// 0000 at 0 µs
	// 0101 at 1000 µs
	// 0202 at 2000 µs
	// 0 lost
}

func ExampleSelector_Encode() {
	most := uint64(100)
	text, err := feed.Selector{OnOverrun: feed.Fail, Stop: feed.Stop{MaxItems: &most}}.Encode()
	fmt.Println(string(text), err)
	text, err = feed.Selector{}.Encode()
	fmt.Println(string(text), err)
	// Output:
	// {"on_overrun":"fail","stop":{"max_items":100}} <nil>
	// {} <nil>
}
