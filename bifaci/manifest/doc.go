// Package manifest holds what a cartridge says about itself (spec/manifest-cli.md): its caps, their arguments and outputs,
// and its concurrency pools.
//
// A reader meets first [Manifest], [Cap] and [Arg]. Authors build them with [New], [NewCap] and [NewArg], hosts and tools
// read them with [Parse]. All are plain data: whoever has one may read it from any goroutine, and nothing here blocks.
//
// Building never fails. [Manifest.Validate] finds what is wrong, all of it, and says for every fault which rule it breaks
// and which cap, argument, pool or field breaks it; the error is a [Problems]. The runtime of a cartridge validates when
// it is constructed, a host when it has read a HELLO. [Parse] reads and validates.
//
// URNs are kept as text. Constructors and Parse bring what is a URN into canonical form and leave other text as it is, for
// Validate to complain about.
//
// The file cartridge.json of an installed cartridge is [Install].
package manifest
