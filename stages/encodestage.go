package stages

// EncodeStage turns numbered frames into their bytes on the wire, one slice each, which belongs to whoever takes it. The
// blocks of payloads go back.
type EncodeStage struct{ lane lane }

// Step encodes one frame as the lanes do.
func (s *EncodeStage) Step(p Parcel, emit func([]byte) error) error {
	s.lane.add(&p.Frame, p.Block)
	out := make([]byte, 0, s.lane.bytes)
	for _, b := range s.lane.appendTo(nil) {
		out = append(out, b...)
	}
	s.lane.reset()
	return emit(out)
}
