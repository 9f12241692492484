package process

import (
	"context"
	"fmt"
	"os"

	"github.com/pipe-cartridge/pipe/bifaci/host"
)

// hostVariable makes the test binary a host of the program that it names.
const hostVariable = "PIPE_TEST_HOST"

// beHost starts a cartridge, says so with its process id, and waits to be killed.
func beHost() {
	p, err := host.Start(context.Background(), os.Getenv(hostVariable))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(p.PID())
	<-p.Done()
	os.Exit(2)
}
