package host

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/stages"
)

// TestPacerModel drives one direction of a relayed call with whatever a rule-abiding source and destination may do, and compares it with
// a model that knows nothing but the rules: order within a stream, the destination's window, ends behind what is held.
func TestPacerModel(t *testing.T) {
	t.Run("R-12.67 R-12.68 R-12.65 against the model", rapid.MakeCheck(func(t *rapid.T) {
		source := int64(rapid.IntRange(1, 8).Draw(t, "source window"))
		dest := int64(rapid.IntRange(1, 8).Draw(t, "destination window"))
		late := rapid.Bool().Draw(t, "the destination is started first")
		type stream struct {
			sent, got        uint64
			sourceCredit     int64
			destCredit       int64
			started, ended   bool // sent
			startGot, endGot bool
		}
		ids := []string{"a", "b", "c"}
		streams := map[string]*stream{}
		for _, id := range ids {
			streams[id] = &stream{sourceCredit: source, destCredit: dest}
		}
		endSent, endGot := false, false
		p := &pacer{source: source}
		p.emit = func(f *frame.Frame, _ *stages.Block) {
			s := streams[string(f.StreamID)]
			switch f.Type {
			case frame.TypeStreamStart:
				s.startGot = true
			case frame.TypeChunk:
				if !s.startGot || s.endGot || f.ChunkIndex != s.got {
					t.Fatalf("chunk %d of stream %s after %d", f.ChunkIndex, f.StreamID, s.got)
				}
				s.got++
				if s.destCredit--; s.destCredit < 0 {
					t.Fatalf("chunk %d of stream %s exceeds the destination's window", f.ChunkIndex, f.StreamID)
				}
			case frame.TypeStreamEnd:
				if s.got != s.sent {
					t.Fatalf("the end of stream %s overtook its chunks", f.StreamID)
				}
				s.endGot = true
			case frame.TypeEnd:
				for _, id := range ids {
					if s := streams[id]; s.started && s.got != s.sent {
						t.Fatalf("END overtook chunks of stream %s", id)
					}
				}
				endGot = true
			case frame.TypeLog:
			}
		}
		keep := func(f *frame.Frame, _ *stages.Block) { f.StreamID = append([]byte(nil), f.StreamID...) }
		send := func(kind frame.Type, id string, index uint64) {
			var f frame.Frame
			f.Reset(kind, frame.UintID(1))
			buffer := []byte(id)
			f.StreamID, f.ChunkIndex = buffer, index
			if fault := p.arrive(&f, nil, keep); fault != nil {
				t.Fatalf("a good %s was refused: %v", kind, fault)
			}
			clear(buffer) // the read buffer is used again
		}
		grant := func(id string, n int64) {
			s := streams[id]
			s.destCredit += n
			s.sourceCredit += n
			p.grant([]byte(id), true, uint64(n))
		}
		if !late {
			p.start(dest)
		}
		t.Repeat(map[string]func(*rapid.T){
			"start the destination": func(t *rapid.T) {
				if p.open {
					t.Skip("it is open")
				}
				p.start(dest)
			},
			"start a stream": func(t *rapid.T) {
				id := rapid.SampledFrom(ids).Draw(t, "stream")
				if streams[id].started || endSent {
					t.Skip("not now")
				}
				streams[id].started = true
				send(frame.TypeStreamStart, id, 0)
			},
			"chunk": func(t *rapid.T) {
				id := rapid.SampledFrom(ids).Draw(t, "stream")
				s := streams[id]
				if !s.started || s.ended || endSent || s.sourceCredit == 0 {
					t.Skip("not now")
				}
				s.sourceCredit--
				s.sent++
				send(frame.TypeChunk, id, s.sent-1)
			},
			"log": func(*rapid.T) { send(frame.TypeLog, "", 0) },
			"end a stream": func(t *rapid.T) {
				id := rapid.SampledFrom(ids).Draw(t, "stream")
				if s := streams[id]; !s.started || s.ended || endSent {
					t.Skip("not now")
				}
				streams[id].ended = true
				send(frame.TypeStreamEnd, id, 0)
			},
			"END": func(t *rapid.T) {
				for _, id := range ids {
					if s := streams[id]; s.started && !s.ended {
						t.Skip("a stream is open")
					}
				}
				if endSent {
					t.Skip("it was sent")
				}
				endSent = true
				send(frame.TypeEnd, "", 0)
			},
			"grant": func(t *rapid.T) {
				id := rapid.SampledFrom(ids).Draw(t, "stream")
				s := streams[id]
				outstanding := int64(s.got) - (s.destCredit + int64(s.got) - dest) // delivered and not granted back
				if outstanding <= 0 {
					t.Skip("nothing to grant")
				}
				grant(id, int64(rapid.IntRange(1, int(outstanding)).Draw(t, "chunks")))
			},
			"": func(t *rapid.T) {
				for _, id := range ids {
					s := streams[id]
					if held := int64(s.sent - s.got); p.open && held > max(0, source-dest) {
						t.Fatalf("%d chunks of stream %s are held, the windows differ by %d", held, id, source-dest)
					}
					if p.open && s.sent > s.got && s.destCredit > 0 {
						t.Fatalf("a chunk of stream %s is held although there is credit", id)
					}
				}
			},
		})
		// Everything comes out in the end.
		if !p.open {
			p.start(dest)
		}
		for _, id := range ids {
			for s := streams[id]; s.got < s.sent; {
				grant(id, 1)
			}
			if s := streams[id]; s.ended != s.endGot || s.started != s.startGot {
				t.Fatalf("stream %s: started %t/%t, ended %t/%t", id, s.started, s.startGot, s.ended, s.endGot)
			}
		}
		if endSent != endGot {
			t.Fatal("END was lost")
		}
	}))
}
