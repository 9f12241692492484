package transcripts

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	"github.com/pipe-cartridge/pipe/test/peer"
)

// The two directions of a step.
const (
	toCartridge = "h2c"
	toHost      = "c2h"
)

// transcript is one conversation.
type transcript struct {
	Name, About string
	Limits      struct {
		MaxFrame         uint64 `json:"max_frame"`
		MaxChunk         uint64 `json:"max_chunk"`
		MaxReorderBuffer uint64 `json:"max_reorder_buffer"`
		InitialCredit    uint64 `json:"initial_credit"`
	}
	Frames []*step
}

func (tr *transcript) limits() peer.Limits {
	return peer.Limits{MaxFrame: tr.Limits.MaxFrame, MaxChunk: tr.Limits.MaxChunk,
		MaxReorderBuffer: tr.Limits.MaxReorderBuffer, InitialCredit: tr.Limits.InitialCredit}
}

// step is one frame of a conversation.
type step struct {
	Dir, Type, Hex, Label string
	Optional              bool

	index int
	wire  []byte
	frame peer.Frame
}

func (s *step) String() string {
	text := fmt.Sprintf("step %d: %s %s", s.index, s.Dir, s.Type)
	if s.Label != "" {
		text += " (" + s.Label + ")"
	}
	return text
}

// load reads the transcripts; it is used by the test and by the scripted cartridge.
func load() ([]*transcript, error) {
	raw, err := os.ReadFile("../vectors/transcripts.json")
	if err != nil {
		return nil, err
	}
	var all []*transcript
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	for _, tr := range all {
		for i, s := range tr.Frames {
			s.index = i
			if s.wire, err = hex.DecodeString(s.Hex); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", tr.Name, s, err)
			}
			if s.frame, _, err = peer.ReadFrame(bytes.NewReader(s.wire)); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", tr.Name, s, err)
			}
			if got := s.frame.Type().String(); got != s.Type {
				return nil, fmt.Errorf("%s, %s: the frame is a %s", tr.Name, s, got)
			}
		}
	}
	return all, nil
}

// manifestOf is the manifest that the cartridge's HELLO of the handshake transcripts carries.
func manifestOf(all []*transcript) ([]byte, error) {
	for _, tr := range all {
		for _, s := range tr.Frames {
			if s.Dir == toHost && s.frame.Type() == peer.TypeHello {
				b, _ := s.frame.Meta()["manifest"].([]byte)
				return b, nil
			}
		}
	}
	return nil, fmt.Errorf("no transcript has the HELLO of a cartridge")
}
