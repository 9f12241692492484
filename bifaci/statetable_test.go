package bifaci_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// The state tables of docs/spec/runtime.md are read from there. Each cell of theirs has a row in a test: what the page says there, as
// it stands, and every frame that the cartridge sends for it. A cell without a row fails, and so does a row whose page has changed.

// cell is a place in a table: the frame of its line, and the state of its column.
type cell struct{ frame, state string }

func (c cell) String() string { return c.frame + " in " + c.state }

// cellRow is what a test has for a cell.
type cellRow struct {
	cell
	way     string // tells rows of one cell apart
	says    string // the page
	frames  string // of the cartridge; see script
	counted string // what it counts for the frame: a reason and a type, as in "no_route chunk", or "straggler chunk"
	play    func(s *script)
}

// specTable reads one table. A line that names several frames is a line for each.
func specTable(t *testing.T, title string) map[cell]string {
	t.Helper()
	page, err := os.ReadFile("../docs/spec/runtime.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(page), "**"+title+"**\n\n")
	require.True(t, found, "there is no table %q", title)
	table, _, _ := strings.Cut(after, "\n\n")
	lines := strings.Split(table, "\n")
	split := func(line string) (cells []string) {
		for _, c := range strings.Split(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(c))
		}
		return cells
	}
	states := split(lines[0])[1:]
	said := map[cell]string{}
	for _, line := range lines[2:] {
		cells := split(line)
		require.Len(t, cells, 1+len(states), line)
		for _, f := range strings.Split(cells[0], ", ") {
			for i, state := range states {
				said[cell{f, state}] = cells[1+i]
			}
		}
	}
	return said
}

// runTable plays every row, and holds the rows to the table: each cell has one, and says what the page says.
func runTable(t *testing.T, rule, title string, cells int, rows []cellRow) {
	said := specTable(t, title)
	require.Len(t, said, cells, "cells of %q", title)
	byCell := map[cell]string{}
	for _, r := range rows {
		page, ok := said[r.cell]
		require.True(t, ok, "the page has no %s", r.cell)
		require.Equal(t, page, r.says, "%s", r.cell)
		byCell[r.cell] = r.says
	}
	for c := range said {
		assert.Contains(t, byCell, c, "the page says %q, and no row plays it", said[c])
	}
	plain := strings.NewReplacer("/", " ", "`", "")
	for _, r := range rows {
		name := fmt.Sprintf("%s %s: %s", rule, r.cell, plain.Replace(r.says))
		if r.way != "" {
			name += ", " + r.way
		}
		virtual(t, name, func(t *testing.T) {
			s := &script{t: t, row: r, names: map[frame.ID]string{}}
			r.play(s)
			got := strings.Join(s.steps, " | ")
			assert.Equal(t, r.frames, strings.TrimRight(got, " |"))
			if s.c != nil {
				assert.Equal(t, r.counted, counted(s.c))
			}
		})
	}
}

// script plays one row. What the cartridge sends is written down step by step, parted by bars: the flow frames with their seq, in
// order, then what was granted, as control frames may sit elsewhere. The frame of the row is said in a step of its own.
type script struct {
	t     *testing.T
	row   cellRow
	c     *bifaci.Cartridge
	h     *cartridgetest.Host
	names map[frame.ID]string // of requests beside the row's own
	main  frame.ID            // the row's own request

	steps []string
	said  chan cartridgetest.Frame
}

// listen begins to write down.
func (s *script) listen() {
	s.said = make(chan cartridgetest.Frame, 1000)
	s.h.Check().Watch(func(d cartridgetest.Direction, f cartridgetest.Frame) {
		if d == cartridgetest.ToHost {
			s.said <- f
		}
	})
}

// step does something, lets everything run until all wait, and writes down what came.
func (s *script) step(do func()) {
	s.t.Helper()
	do()
	synctest.Wait()
	var lines []string
	granted := map[string]uint64{}
	for {
		select {
		case f := <-s.said:
			if f.Type() == frame.TypeCredit {
				granted[fmt.Sprint(f.Meta()["credit_dir"], " ", f.Stream())] += f.Uint(frame.KeyCredit)
				continue
			}
			lines = append(lines, s.line(f))
			continue
		default:
		}
		break
	}
	for _, of := range slices.Sorted(maps.Keys(granted)) {
		lines = append(lines, fmt.Sprintf("credit %s %d", of, granted[of]))
	}
	s.steps = append(s.steps, strings.Join(lines, ", "))
}

// line is one frame. What the judge of the link holds it to is left out: ids of streams, routing ids, checksums, shapes.
func (s *script) line(f cartridgetest.Frame) string {
	text := f.Type().String()
	switch id := f.ID(); {
	case s.names[id] != "":
		text = s.names[id] + "'s " + text
	case id != s.main && f.Type() != frame.TypeHello:
		text += " of " + id.String()
	}
	if f.Type().IsFlow() {
		text += fmt.Sprintf(" %d", f.Seq())
	}
	m := f.Meta()
	switch f.Type() {
	case frame.TypeStreamStart:
		text += " " + f.Text(frame.KeyMediaURN)
	case frame.TypeChunk:
		var v any
		require.NoError(s.t, cbor.Unmarshal(f.Payload(), &v))
		text += fmt.Sprintf(" #%d %s", f.Uint(frame.KeyChunkIndex), v)
	case frame.TypeStreamEnd:
		text += fmt.Sprintf(" of %d", f.Uint(frame.KeyChunkCount))
	case frame.TypeLog:
		text += " " + fmt.Sprint(m["level"])
	case frame.TypeErr:
		text += fmt.Sprintf(" %s/%s", m["code"], m["attribution_class"])
		if m["code"] == failure.Cancelled || m["code"] == failure.Aborted { // of these the words count too
			text += fmt.Sprintf(" %q", m["message"])
		}
	}
	return text
}

// counted is what a cartridge has counted.
func counted(c *bifaci.Cartridge) string {
	var lines []string
	for reason, types := range c.Drops().ByReasonFrameType {
		for typ, n := range types {
			lines = append(lines, fmt.Sprintf("%s %s%s", reason, typ, times(n)))
		}
	}
	for typ, n := range c.Stragglers().ByFrameType {
		lines = append(lines, fmt.Sprintf("straggler %s%s", typ, times(n)))
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

func times(n uint64) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" × %d", n)
}

// frameNamed is the type of a line's frame.
func frameNamed(t *testing.T, name string) frame.Type {
	t.Helper()
	for _, typ := range allTypes() {
		if strings.EqualFold(typ.String(), name) {
			return typ
		}
	}
	t.Fatalf("there is no frame %q", name)
	return 0
}

// TestTheTablesAreRead: what is read is what the page shows.
func TestTheTablesAreRead(t *testing.T) {
	table := specTable(t, "3.3 Continuation frames of an incoming request")
	assert.Equal(t, "drop `cancelled`", table[cell{"CHUNK", "X"}])
	var frames []string
	for c := range table {
		frames = append(frames, c.frame)
	}
	slices.Sort(frames)
	for _, f := range slices.Compact(frames) {
		assert.Regexp(t, regexp.MustCompile(`^[A-Z_]+$`), f)
	}
}
