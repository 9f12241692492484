package sphinx

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

const twoRules = `#JSGF V1.0;
/** public <commented> = out; */
grammar goforward;
public <move> = go forward ten meters; // public <never> = x;
public <move2> = go <direction> {a tag; public <tagged> = x;} /0.5/ now;
<direction> = forward | backward;
`

func TestTrapSeveralPublicRulesNeedATopRule(t *testing.T) {
	_, _, err := checkGrammar(twoRules, "")
	wantFailure(t, err, CodeGrammar, failure.Input, "2 public rules", "<move>, <move2>", "toprule")
	for _, top := range []string{"move2", "goforward.move2", "<move2>", " <goforward.move2> "} {
		text, rule, err := checkGrammar(twoRules, top)
		require.NoError(t, err, "toprule %q", top)
		assert.Equal(t, "goforward.move2", rule, "the program finds no bare name")
		assert.Equal(t, twoRules, text)
	}
	t.Run("a rule that is not public may be the top", func(t *testing.T) {
		_, rule, err := checkGrammar(twoRules, "direction")
		require.NoError(t, err)
		assert.Equal(t, "goforward.direction", rule)
	})
	for _, top := range []string{"move3", "commented", "never", "tagged", "other.move", "-dict"} {
		t.Run("not a rule: "+top, func(t *testing.T) {
			_, _, err := checkGrammar(twoRules, top)
			wantFailure(t, err, CodeGrammar, failure.Input, top, "<move>, <move2>, <direction>")
		})
	}
	t.Run("no rules at all", func(t *testing.T) {
		_, _, err := checkGrammar("garbage", "a")
		wantFailure(t, err, CodeGrammar, failure.Input, "no rules that can be read")
	})
}

func TestGrammarCases(t *testing.T) {
	for _, c := range []struct{ name, text, refused string }{
		{"one public rule", "#JSGF V1.0;\ngrammar x;\npublic <a> = one;\n<b> = two;", ""},
		{"line ends of another system", "#JSGF V1.0;\r\ngrammar x;\r\npublic <a> = one;\r\n", ""},
		{"no space at all", "#JSGF V1.0;grammar x;public<a>=one;", ""},
		{"syntax is the program's business", "garbage (", ""},
		{"a comment and a tag that never end", "public <a> = one; {tag /* public <b> = two;", ""},
		{"an ambiguous slash", "public <a> = /0.5/ one | /0.25/ two;", ""},
		{"two public rules in one line", "#JSGF V1.0;grammar x;public<a>=one;public<b>=two;", "2 public rules"},
		{"two public rules without a header", "public <a> = one; public <b> = two;", "2 public rules"},
		{"a rule defined twice", "grammar x; public <a> = one; <b> = x; <b> = y;", "<b> twice"},
		{"an import", "#JSGF V1.0;\ngrammar x;\nimport <com.other.*>;\npublic <a> = one;", "imports"},
		{"too large", strings.Repeat(" ", maxGrammarBytes+1), "at most 1048576"},
		{"no UTF-8", "public <a> = \xff;", "UTF-8"},
		{"a zero byte", "public <a> = \x00;", "UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, rule, err := checkGrammar(c.text, "")
			if c.refused != "" {
				wantFailure(t, err, CodeGrammar, failure.Input, c.refused)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.text, text)
			assert.Empty(t, rule)
		})
	}
	t.Run("a byte order mark is taken off", func(t *testing.T) {
		text, _, err := checkGrammar("\ufeff#JSGF V1.0;", "")
		require.NoError(t, err)
		assert.Equal(t, "#JSGF V1.0;", text)
	})
}

func FuzzGrammar(f *testing.F) {
	f.Add(twoRules, "move2")
	f.Add("#JSGF V1.0;grammar x;public<a>=one;public<b>=two;", "")
	f.Add("{/*//\n;<", "<>")
	f.Fuzz(func(t *testing.T, text, top string) {
		checked, rule, err := checkGrammar(text, top)
		if err != nil {
			assert.Equal(t, failure.Input, failure.From(err).Class)
			return
		}
		assert.Contains(t, text, checked)
		if rule != "" {
			assert.Contains(t, rule, ".", "only a qualified name reaches the program")
			assert.False(t, strings.ContainsRune(rule, 0))
		}
	})
}
