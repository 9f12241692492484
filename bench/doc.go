// Package bench holds the benchmarks of layers as their users meet them, each with what a plain channel, the standard library or
// go-streams does in its place. They are run by `make bench`; `make bench-compare BASE=rev` compares two revisions. Benchmarks of a
// layer's inside are in that layer's package; docs/performance.md says where.
package bench
