package pools_test

import (
	"fmt"

	"github.com/pipe-cartridge/pipe/pools"
)

// Two caps share one graphics card. The holder of the table fetches who was admitted after each change.
func ExampleTable() {
	table, err := pools.NewTable([]string{"cap:generate", "cap:embed"}, pools.Declarations{
		Pools:      map[string][]string{"gpu": {"cap:generate", "cap:embed"}},
		Capacities: map[string]uint64{"gpu": 1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	first, second := &pools.Waiter{Owner: "a generation"}, &pools.Waiter{Owner: "an embedding"}
	arrival, _ := table.Arrive(0, first)
	fmt.Println("admitted:", arrival.Admitted)
	arrival, _ = table.Arrive(1, second)
	fmt.Printf("admitted: %t, number %d behind %s\n", arrival.Admitted, arrival.Position, arrival.Blocking)

	table.Finish(first)
	for w, ok := table.NextUp(); ok; w, ok = table.NextUp() {
		fmt.Println("starts:", w.Owner)
	}
	// Output:
	// admitted: true
	// admitted: false, number 1 behind gpu
	// starts: an embedding
}
