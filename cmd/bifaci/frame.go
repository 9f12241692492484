package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// maxLineBytes bounds one input line: the largest frame in hex, and some JSON around it.
const maxLineBytes = 2*(frame.PrefixSize+frame.MaxBody) + 64<<10

// tokenBadInput is the error of a line that does not hold a frame in hex.
const tokenBadInput = "bad-input"

// frameQuery is one input line.
type frameQuery struct {
	Hex      *string `json:"hex"`      // a whole frame with its length prefix
	Receiver string  `json:"receiver"` // optional, see judge
}

// runFrame is the sub-command frame: it reads JSON lines {"hex": "…"} from stdin and writes one JSON line for each, in
// order: the decoded object in the form of the golden vectors (spec/wire.md section 17), or {"error": token}. Frames are
// judged at every layer, with the default limits. A line that is not understood gives the error bad-input, is explained
// on stderr, and makes the status 1. Answers are written out whenever no further line is waiting.
func runFrame(ctx context.Context, args []string, std streams) int {
	if len(args) != 0 {
		fmt.Fprintln(std.err, "usage: bifaci frame < LINES")
		return statusUsage
	}
	done := make(chan int, 1)
	// Nothing ends a read of a terminal, so on a signal this goroutine is left behind, for the process to end with it.
	go func() { done <- answerFrames(std) }()
	select {
	case status := <-done:
		return status
	case <-ctx.Done():
		return statusFailed
	}
}

// answerFrames answers every line of std.in.
func answerFrames(std streams) int {
	in, out := bufio.NewReaderSize(std.in, 64<<10), bufio.NewWriter(std.out)
	status, number := statusOK, 0
	for {
		line, err := readLine(in)
		if err != nil && err != io.EOF {
			fmt.Fprintf(std.err, "bifaci frame: line %d: %v\n", number+1, err)
			status = statusFailed
			break
		}
		if number++; len(bytes.TrimSpace(line)) > 0 {
			answer, problem := answerFrame(line)
			if problem != nil {
				fmt.Fprintf(std.err, "bifaci frame: line %d: %v\n", number, problem)
				status = statusFailed
			}
			if _, err := out.Write(append(answer, '\n')); err != nil {
				fmt.Fprintf(std.err, "bifaci frame: %v\n", err)
				return statusFailed
			}
		}
		if err == io.EOF {
			break
		}
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				fmt.Fprintf(std.err, "bifaci frame: %v\n", err)
				return statusFailed
			}
		}
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintf(std.err, "bifaci frame: %v\n", err)
		return statusFailed
	}
	return status
}

// readLine returns the next line without its end; io.EOF comes with the last one.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > maxLineBytes {
			return nil, fmt.Errorf("longer than %d bytes", maxLineBytes)
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return line, err
	}
}

// answerFrame is the answer to one line; problem says what is wrong with the line itself.
func answerFrame(line []byte) (answer []byte, problem error) {
	var q frameQuery
	if err := json.Unmarshal(line, &q); err != nil {
		return errorLine(tokenBadInput), err
	}
	if q.Hex == nil {
		return errorLine(tokenBadInput), errors.New(`no member "hex"`)
	}
	wire, err := hex.DecodeString(*q.Hex)
	if err != nil {
		return errorLine(tokenBadInput), err
	}
	f, err := readWhole(wire)
	if err == nil {
		err = judge(f, q.Receiver)
	}
	if err != nil {
		return errorLine(frame.TokenOf(err)), nil
	}
	o, err := frameObject(f)
	if err == nil {
		answer, err = json.Marshal(o)
	}
	if err != nil {
		return errorLine(tokenBadInput), err
	}
	return answer, nil
}

// readWhole reads the one frame that wire must be.
func readWhole(wire []byte) (*frame.Frame, error) {
	in := bytes.NewReader(wire)
	f, err := frame.NewReader(in).Read()
	switch {
	case err == io.EOF:
		return nil, &frame.SyntaxError{Token: frame.TokenTruncatedPrefix, Key: frame.Nowhere, Offset: frame.Nowhere,
			Detail: "no bytes at all", Err: io.ErrUnexpectedEOF}
	case err != nil:
		return nil, err
	case in.Len() > 0:
		return nil, &frame.SyntaxError{Token: frame.TokenTrailingBytes, Key: frame.Nowhere, Offset: frame.Nowhere,
			Detail: fmt.Sprintf("%d bytes behind the frame", in.Len())}
	}
	return f, nil
}

// judge applies the layers above the codec: the shape of a request's frames and the meaning of metas and checksums.
// receiver is who would judge, as in the golden vectors: "cartridge", "host", or "host-awaiting-reply" where a HEARTBEAT
// answers a probe. Without it a HELLO with manifest or pools counts as a cartridge's, and a HEARTBEAT as a probe.
func judge(f *frame.Frame, receiver string) error {
	if err := f.CheckShape(); err != nil {
		return err
	}
	var err error
	switch f.Type {
	case frame.TypeChunk:
		err = f.CheckSum()
	case frame.TypeLog:
		_, err = f.LogRecord()
	case frame.TypeErr:
		_, err = f.Failure()
	case frame.TypeCredit:
		if _, ok := f.CreditDirection(); !ok {
			err = &frame.SyntaxError{Token: frame.TokenBadCredit, Key: int(frame.KeyMeta), Offset: frame.Nowhere,
				Detail: "credit_dir is missing or unknown, want request or response"}
		}
	case frame.TypeHello:
		_, _, err = frame.AcceptHello(f, helloSender(f, receiver), frame.DefaultLimits())
	case frame.TypePolicy:
		_, err = f.Policy()
	case frame.TypeEnd:
		_, err = f.EndStatus()
	case frame.TypeHeartbeat:
		if receiver == "host-awaiting-reply" {
			_, err = f.HeartbeatReply()
		} else {
			_, _, err = f.DesiredCapacities()
		}
	}
	return err
}

// helloSender is the other end than receiver or, if that is not said, the end that the HELLO looks like.
func helloSender(f *frame.Frame, receiver string) frame.Role {
	switch receiver {
	case "host", "host-awaiting-reply":
		return frame.RoleCartridge
	case "cartridge":
		return frame.RoleHost
	}
	meta, err := frame.DecodeMeta(f.Meta)
	if err != nil {
		return frame.RoleHost
	}
	_, manifest := meta["manifest"]
	_, pools := meta["pools"]
	if manifest || pools {
		return frame.RoleCartridge
	}
	return frame.RoleHost
}

func errorLine(token string) []byte {
	line, err := json.Marshal(map[string]string{"error": token})
	if err != nil {
		return []byte(`{"error":"` + tokenBadInput + `"}`) // unreachable: a map of texts always has an encoding
	}
	return line
}
