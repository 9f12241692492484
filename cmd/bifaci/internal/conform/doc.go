// Package conform judges a cartridge from the outside: it starts the program, speaks frames to it, and holds what comes back to the
// rules of docs/spec. Nothing of the project's codec or runtime stands between the cartridge's bytes and a verdict.
//
// A reader meets first [Run], which makes every check and returns a [Report] of one [Result] each; [Checks], which lists them; and
// [Failure], what a broken rule looked like. A check is a function that has a process of its own and ends at the first fault. Some
// look at one recorded session together: a day, that has a bit of everything in it.
//
// No verdict depends on how fast anything is. What must come may take as long as [Options] allows. That something may not come is
// shown by what follows: a later request that is answered, and the end of the output.
//
// Run blocks until all checks are made, which its context cuts short; no process and no goroutine is left behind.
package conform
