// Package stdio owns what a process has only one of: its standard descriptors. For a cartridge it keeps the frame link
// apart from stray prints, for a host it starts cartridges and ends them (spec/runtime.md ).
//
// A reader meets first [Claim], which takes descriptors 0 and 1 away from the rest of the program and returns the
// [Link] of [In] and [Out] that replaces them; and [Spawn], which starts a [Child] with such an end on every pipe.
//
// Reading and writing block. On pipes and sockets the wait is in Go's poller and ends at once with
// [ErrInterrupted] when somebody calls Interrupt, from any goroutine; a file or a terminal is read and written blocking,
// as its mode is shared with whoever else has it open. Each In belongs to one reader and each Out to one writer.
//
// Known limits. Where an open file cannot be opened a second time (systems other than Linux, or no /proc), O_NONBLOCK is
// set on the inherited pipe itself and stays set if the process dies before [Link.Close]; a pipe that is also the
// standard error stays blocking there, and so does a named pipe. On Windows a pending read is cancelled instead of
// awaited in the poller, pending writes cannot be interrupted, and [Child.Kill] ends the process without its
// descendants.
package stdio
