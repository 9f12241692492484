// Command faulty is the probe cartridge with one planted defect, by which the conformance tool is tested. The variable FAULTY_DEFECT
// names the defect; without it there is none, and the cartridge is as good as the probe. The word list prints the names.
//
// The honest cartridge runs inside. Its frames, and those for it, pass a relay, and a defect is what the relay does to them: see
// [relay] and the table in defects.go.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/pipe-cartridge/pipe/bifaci/stdio"
	"github.com/pipe-cartridge/pipe/test/probecartridge/probe"
)

// variable names the defect.
const variable = "FAULTY_DEFECT"

func main() {
	if len(os.Args) == 2 && os.Args[1] == "list" {
		for _, d := range defects() {
			fmt.Printf("%s\t%s\n", d.name, d.about)
		}
		return
	}
	if len(os.Args) > 1 {
		probe.New().Main()
	}
	status, err := serve(os.Getenv(variable))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(status)
}

// serve is the life of the process.
func serve(name string) (status int, err error) {
	d, err := find(name)
	if err != nil {
		return 2, err
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a broken pipe is an error and kills nobody
	link, err := stdio.Claim()
	if err != nil {
		return 1, err
	}
	r := newRelay(link.In, link.Out)
	if d.plant != nil {
		d.plant(r)
	}
	err = r.serve(context.Background(), probe.New())
	if closeErr := link.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		status = 1
	}
	if r.atEnd != nil {
		status = r.atEnd(status)
	}
	return status, err
}

func find(name string) (defect, error) {
	if name == "" {
		return defect{}, nil
	}
	for _, d := range defects() {
		if d.name == name {
			return d, nil
		}
	}
	return defect{}, fmt.Errorf("faulty: there is no defect %q", name)
}
