// Command speechdemo transcribes recorded human speech, once through the command line of the cartridge and once through "bifaci
// run", and holds what comes back against what was said. It needs the Debian packages pocketsphinx, pocketsphinx-en-us,
// pocketsphinx-testdata, flite and sox; scripts/demo-speech installs them.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	var d demo
	flag.StringVar(&d.bifaci, "bifaci", "bin/bifaci", "the host-side `tool`")
	flag.StringVar(&d.cartridge, "cartridge", "bin/pipe-cartridge", "the `cartridge`")
	flag.StringVar(&d.data, "data", "/usr/share/pocketsphinx/test/data", "`folder` of the recordings")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	failed, err := d.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "speechdemo:", err)
		os.Exit(1)
	}
	if failed > 0 {
		fmt.Fprintf(os.Stderr, "speechdemo: %d checks failed\n", failed)
		os.Exit(1)
	}
	fmt.Println("every check holds")
}
