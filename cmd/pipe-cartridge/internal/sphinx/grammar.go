package sphinx

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// grammarFile is the name of the temporary grammar; messages of the program are rid of its path.
const grammarFile = "grammar.jsgf"

var (
	grammarHeader = regexp.MustCompile(`^(?:#JSGF[^\n]*\n)?\s*grammar\s+([^\s;]+)$`)
	importHeader  = regexp.MustCompile(`^import\s*<`)
	ruleHead      = regexp.MustCompile(`^(public\s*)?<([^>]+)>\s*=`)
)

// checkGrammar finds what the program itself would not complain about, or would get wrong without a word, and returns
// the text for the program and the rule to start with ("" to leave it to the only public one).
//
// With several public rules the program uses the first and never mentions the others, so that "go backward" is heard
// as the nearest sentence of the first rule. That is refused: the caller has to name a rule. Everything about syntax
// and words is left to the program, which is the judge of both.
func checkGrammar(text, topRule string) (checked, rule string, err error) {
	if len(text) > maxGrammarBytes {
		return "", "", badGrammar("grammar has %d bytes: at most %d are accepted", len(text), maxGrammarBytes)
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return "", "", badGrammar("grammar is not text: it has to be JSGF in UTF-8")
	}
	text = strings.TrimPrefix(text, "\ufeff")
	found := scanRules(text)
	if found.imports {
		return "", "", badGrammar("grammar imports another one: only rules of its own can be used, copy the imported rules into it")
	}
	if found.twice != "" {
		return "", "", badGrammar("grammar defines rule <%s> twice: the program would use one of them and drop the other", found.twice)
	}
	wanted := strings.Trim(strings.TrimSpace(topRule), "<>")
	switch {
	case wanted != "":
		for _, r := range found.rules {
			if wanted == r || wanted == found.qualified(r) {
				return text, found.qualified(r), nil
			}
		}
		return "", "", badGrammar("toprule %q is not in the grammar: it has %s", topRule, list(found.rules))
	case len(found.public) > 1:
		return "", "", badGrammar("grammar has %d public rules, of which only the first would be used: name one of %s as toprule",
			len(found.public), list(found.public))
	}
	return text, "", nil
}

// rules is what scanRules finds, names in the order of the text and as written there.
type rules struct {
	grammar       string
	rules, public []string
	twice         string // the first rule that is defined again
	imports       bool
}

// qualified is the spelling that the program's -toprule wants: it does not find a bare name.
func (r rules) qualified(name string) string {
	if strings.Contains(name, ".") {
		return name
	}
	return r.grammar + "." + name
}

// scanRules reads the names of the rules. It is lenient: text that is no JSGF has no rules.
func scanRules(text string) rules {
	var found rules
	for statement := range strings.SplitSeq(blankOut(text), ";") {
		statement = strings.TrimSpace(statement)
		if strings.HasPrefix(statement, "#JSGF") && !strings.Contains(statement, "\n") {
			continue
		}
		if m := grammarHeader.FindStringSubmatch(statement); m != nil && found.grammar == "" {
			found.grammar = m[1]
			continue
		}
		if importHeader.MatchString(statement) {
			found.imports = true
			continue
		}
		m := ruleHead.FindStringSubmatch(statement)
		if m == nil {
			continue
		}
		if slices.Contains(found.rules, m[2]) && found.twice == "" {
			found.twice = m[2]
		}
		found.rules = append(found.rules, m[2])
		if m[1] != "" {
			found.public = append(found.public, m[2])
		}
	}
	return found
}

// blankOut removes comments and tags, in which anything may stand, also what looks like a rule.
func blankOut(text string) string {
	var kept strings.Builder
	for text != "" {
		at := strings.IndexAny(text, "/{")
		if at < 0 {
			break
		}
		kept.WriteString(text[:at])
		text = text[at:]
		var end string
		switch {
		case strings.HasPrefix(text, "//"):
			end = "\n"
		case strings.HasPrefix(text, "/*"):
			end = "*/"
		case text[0] == '{':
			end = "}"
		default: // a weight: /0.5/
			kept.WriteByte(text[0])
			text = text[1:]
			continue
		}
		kept.WriteByte(' ')
		_, rest, closed := strings.Cut(text[len(end):], end)
		if end == "\n" && closed {
			kept.WriteByte('\n')
		}
		text = rest
	}
	kept.WriteString(text)
	return kept.String()
}

func list(names []string) string {
	if len(names) == 0 {
		return "no rules that can be read"
	}
	return "<" + strings.Join(names, ">, <") + ">"
}
