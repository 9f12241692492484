package bifaci

import "github.com/pipe-cartridge/pipe/bifaci/failure"

// ProgressSender reports on a request while other code writes its output: a small value for goroutines, callbacks and libraries
// that should see no more of the request than this. Its methods are those of [OutputStream], with their rules. It may be used
// from any goroutine, copied, and kept: what is sent after the request's terminal is counted as a straggler and gives nil,
// never a frame.
type ProgressSender struct{ out *OutputStream }

// ProgressSender returns a reporter for this output's request.
func (o *OutputStream) ProgressSender() *ProgressSender { return &ProgressSender{o} }

// Progress is [OutputStream.Progress].
func (s *ProgressSender) Progress(p float64, message string) error { return s.out.Progress(p, message) }

// Log is [OutputStream.Log].
func (s *ProgressSender) Log(level string, class failure.Class, message string) error {
	return s.out.Log(level, class, message)
}

// LogForArgument is [OutputStream.LogForArgument].
func (s *ProgressSender) LogForArgument(level string, class failure.Class, message, argURN string) error {
	return s.out.LogForArgument(level, class, message, argURN)
}
