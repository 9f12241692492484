package frame

// EndStatus is what the END of an answer says (spec/wire.md 7.2).
type EndStatus struct {
	ExitCode    int64
	HasExitCode bool    // false when exit_code is missing or no integer: such an answer is a failure
	Progress    float64 // the final progress; 1 when a success does not say, 0 when a failure does not
	Message     string
}

// Success reports whether the answer succeeded: there is an exit code and it is 0 (law L3).
func (s EndStatus) Success() bool { return s.HasExitCode && s.ExitCode == 0 }

// EndStatus reads the meta of an END. An entry of the wrong type counts as absent; a failed END never reads as complete,
// whatever progress it claims. The error, a [*SyntaxError], means a meta that is no map, which no decoded frame has.
func (f *Frame) EndStatus() (EndStatus, error) {
	var (
		s           EndStatus
		hasProgress bool
	)
	w := walkMeta(f)
	for key, v, ok := w.next(); ok; key, v, ok = w.next() {
		switch string(key) {
		case "exit_code":
			s.ExitCode, s.HasExitCode = v.int()
		case "progress":
			s.Progress, hasProgress = v.number()
		case "message":
			s.Message, _ = v.text()
		}
	}
	if w.broken {
		return EndStatus{}, meaningf(TokenWrongType, "meta of an END cannot be read")
	}
	switch {
	case s.Success() && !hasProgress:
		s.Progress = 1
	case !s.Success() && s.Progress >= 1:
		s.Progress = 0
	}
	return s, nil
}

// AppendEndMeta appends the meta of the END of a successful answer: exit_code 0, the final progress brought into 0 to 1,
// and the message unless it is empty.
func AppendEndMeta(dst []byte, progress float64, message string) []byte {
	dst = putUint(mapHead(dst, true, true, message != ""), "exit_code", 0)
	if message != "" {
		dst = putText(dst, "message", message)
	}
	return putFloat(dst, "progress", clampProgress(progress))
}

// doneMeta is the meta of nearly every successful END.
var doneMeta = AppendEndMeta(nil, 1, "")

// EndMeta is the meta that [AppendEndMeta] appends. The bytes may be shared and must not be changed.
func EndMeta(progress float64, message string) []byte {
	if progress == 1 && message == "" {
		return doneMeta
	}
	return AppendEndMeta(make([]byte, 0, 48+len(message)), progress, message)
}
