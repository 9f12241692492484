package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// batch answers JSON lines: one line out for each line in, in order. Blank lines are skipped.
type batch struct {
	name         string // of the sub-command, for messages
	maxLineBytes int    // a longer line is not kept in memory and is answered as unreadable
	// answer gives what is to be written for a line, or why the line is unreadable. It may keep nothing of line.
	answer func(line []byte) (any, error)
}

// run answers all of std.in and gives the exit status: statusFailed when a line was unreadable, which is answered with
// {"error": reason} and explained on stderr, when std.in or std.out fails, or when ctx ends. Answers are written out
// whenever no further line is waiting, so that a caller may ask and wait in turns.
func (b batch) run(ctx context.Context, std streams) int {
	done := make(chan int, 1)
	// Nothing ends a read of a terminal, so on a signal this goroutine is left behind, for the process to end with it.
	go func() { done <- b.answerAll(ctx, std) }()
	select {
	case status := <-done:
		return status
	case <-ctx.Done():
		return statusFailed
	}
}

func (b batch) answerAll(ctx context.Context, std streams) int {
	in, out := bufio.NewReaderSize(std.in, 64<<10), bufio.NewWriter(std.out)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	status := statusOK
	for number := 1; ctx.Err() == nil; number++ {
		line, tooLong, err := b.nextLine(in)
		if len(bytes.TrimSpace(line)) > 0 || tooLong {
			answer, problem := b.judge(line, tooLong)
			if problem != nil {
				fmt.Fprintf(std.err, "bifaci %s: line %d: %v\n", b.name, number, problem)
				answer, status = map[string]string{"error": problem.Error()}, statusFailed
			}
			if err := lines.Encode(answer); err != nil {
				fmt.Fprintf(std.err, "bifaci %s: %v\n", b.name, err)
				return statusFailed
			}
		}
		if in.Buffered() == 0 || err != nil {
			if err := out.Flush(); err != nil {
				fmt.Fprintf(std.err, "bifaci %s: %v\n", b.name, err)
				return statusFailed
			}
		}
		switch {
		case err == io.EOF:
			return status
		case err != nil:
			fmt.Fprintf(std.err, "bifaci %s: line %d: %v\n", b.name, number, err)
			return statusFailed
		}
	}
	return statusFailed
}

func (b batch) judge(line []byte, tooLong bool) (any, error) {
	if tooLong {
		return nil, fmt.Errorf("the line is longer than %d bytes", b.maxLineBytes)
	}
	return b.answer(line)
}

// nextLine reads a line, without what is above the bound. The error, io.EOF or another, can come with a last line.
func (b batch) nextLine(in *bufio.Reader) (line []byte, tooLong bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > b.maxLineBytes {
			line, tooLong = nil, true
		}
		if !tooLong {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}
