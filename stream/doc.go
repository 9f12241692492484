// Package stream builds pipelines of typed stages that are joined by bounded queues. It knows nothing of wires,
// frames or media: values go in at one end and come out at the other.
//
//	p := stream.NewPipeline(ctx)
//	lines := stream.FromSeq(p, "lines", read)
//	words := stream.Then(lines, "split", stream.FlatMap(split))
//	groups := stream.Then(words, "group", stream.Session[string](time.Second, 100))
//	for group, err := range groups.All() {
//		…
//	}
//	return p.Wait()
//
// Three types, in the order a reader meets them:
//
//   - [Stage] is one step of the work: a synchronous function of a value and an emit function, testable without any
//     goroutine. [Map], [Filter], [FlatMap], [Take], [Batch], [Tumbling] and [Session] make common ones. [Run] puts
//     a stage on its own goroutine between two queues.
//   - [Pipeline] owns the goroutines: sources, stages and sinks are started in it, the first error ends it, Wait joins
//     it. A [Stream] is the reading end of what has been started so far.
//   - [Queue] is the arrow between two stages: bounded, put in runs, taken all at once.
//
// # What may wait, and how it ends
//
// A stage waits for input, and for room behind it; a full queue makes everything in front of it wait, and nothing is
// dropped. Ends and errors travel downstream as values, after the items they follow, so a consumer can always tell
// "complete" from "cut off". Stopping travels upstream: when a consumer leaves, for whatever reason, the
// context of the stage in front of it ends with the cause, and so on up to the source; the consumer continues when all
// of them have ended. [ErrStopped] is the cause when nothing went wrong.
//
// # go-streams
//
// [FromSource], [ToSource], [Via], [ToSink] and [FromSink] connect a pipeline with topologies of
// github.com/reugn/go-streams, in both directions. Those stages send on bare channels and cannot be cancelled. Who
// stops early therefore stops the foreign source, if it was told how, and reads its channel empty until it is closed. A
// source that goes on nevertheless costs its goroutines: see [Grace].
//
// # Known limits
//
// A function that never returns cannot be ended from outside: its pipeline waits for it. What the package itself waits
// for on behalf of others, a reader or a foreign topology, it gives up after a grace time. Errors cannot travel
// through go-streams; across an adapter they become the end of the pipeline.
package stream
