// Package transcripts replays the conversations of test/vectors/transcripts.json. A transcript that judges a cartridge runs against a
// process, the test binary started again with handlers that do what the frames show; one that judges a host runs against
// bifaci/host, and the test plays the cartridge. The rules of comparison are those of spec/wire.md section 17.
package transcripts
