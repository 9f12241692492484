package sphinx

import (
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
)

func TestLogKeepsItsTailAndItsLastLine(t *testing.T) {
	var l childLog
	l.drain(strings.NewReader(strings.Repeat("INFO: line\n", 5000) + strings.Repeat("x", 100_000) + "\nERROR: the end\n\n \n"))
	assert.Equal(t, "ERROR: the end", l.lastLine(), "blank lines say nothing")
	assert.LessOrEqual(t, len(l.kept()), logTailBytes)
	assert.True(t, strings.HasSuffix(l.kept(), "xxx\nERROR: the end\n\n \n"))
}

func TestLogLineWithoutEndIsReadAndShortened(t *testing.T) {
	var l childLog
	l.drain(iotest.OneByteReader(strings.NewReader(strings.Repeat("y", 1000) + "\xff")))
	assert.Equal(t, strings.Repeat("y", saidBytes)+"…", l.lastLine())
	l.add("bad \xff byte")
	assert.Equal(t, "bad \ufffd byte", l.lastLine())
	assert.Empty(t, (&childLog{}).lastLine())
}

func TestLogRecognisesWhatIsSaidAgainstAGrammar(t *testing.T) {
	for _, c := range []struct {
		line, said string
		isGrammar  bool
	}{
		{`ERROR: "jsgf_parser.y", line 155: syntax error at line 2 current token ';'`, "syntax error at line 2 current token ';'", true},
		{`ERROR: "jsgf.c", line 340: Undefined rule in RHS: <x.b>`, "Undefined rule in RHS: <x.b>", true},
		{`ERROR: "jsgf.c", line 358: Only right-recursion is permitted (in x.<x.a>)`, "Only right-recursion is permitted (in x.<x.a>)", true},
		{`ERROR: "fsg_search.c", line 141: The word 'xyzzy' is missing in the dictionary`, "The word 'xyzzy' is missing in the dictionary", true},
		{`ERROR: "pocketsphinx.c", line 680: No public rules found in g`, "No public rules found in g", true},
		{`ERROR: "pocketsphinx.c", line 673: Start rule nope not found`, "Start rule nope not found", true},
		{`ERROR: "fsg_search.c", line 940: Final result does not match the grammar in frame 131`, "", false},
		{`ERROR: "acmod.c", line 78: Folder '/x' does not contain acoustic model definition 'mdef'`, "", false},
		{`INFO: jsgf.c(705): Defined rule: PUBLIC <x.a>`, "", false},
		{`ERROR: "jsgf.c"`, "", true},
		{`ERROR: "`, "", false},
	} {
		said, ok := grammarError(c.line)
		assert.Equal(t, c.isGrammar, ok, "%s", c.line)
		if ok {
			assert.Equal(t, c.said, said)
		}
	}
}

func TestLogReportsOnlyTheFirstGrammarError(t *testing.T) {
	var said []string
	l := childLog{onGrammarError: func(s string) { said = append(said, s) }}
	l.drain(strings.NewReader("INFO: x\nERROR: \"jsgf_parser.y\", line 155: syntax error\nERROR: \"jsgf.c\", line 9: Failed to parse\n"))
	assert.Equal(t, []string{"syntax error"}, said)
}
