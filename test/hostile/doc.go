// Package hostile holds the tests of a cartridge process that is sent what no host would send: lengths that promise gigabytes, CBOR
// that means nothing, frames that are cut at every byte, bits that have changed on the way. The bytes are made by hand or by
// test/peer, never by the codec under test.
package hostile
