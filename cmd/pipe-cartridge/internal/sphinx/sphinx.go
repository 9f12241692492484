package sphinx

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

// Codes of the failures this engine declares itself.
const (
	CodeUnavailable = "ENGINE_UNAVAILABLE" // class environment: the program or a model is not installed
	CodeFailed      = "ENGINE_FAILED"      // class environment: the program died, or spoke an unknown language
	CodeGrammar     = "BAD_GRAMMAR"        // class input: grammar or toprule cannot be used
)

// Where the Debian packages put things, and what the packages are called.
const (
	defaultProgram = "pocketsphinx_continuous"
	defaultModel   = "/usr/share/pocketsphinx/model/en-us"
	debianPackages = "install the Debian packages pocketsphinx and pocketsphinx-en-us"

	defaultMaxUtterance = 20 * time.Second
	minMaxUtterance     = 2 * time.Second
	maxGrammarBytes     = 1 << 20
)

// Config says what an engine recognises and where its parts are. The zero value is open English speech with the files
// of the Debian packages.
type Config struct {
	Grammar string // JSGF text, at most 1 MiB; blank for the language model. See [Engine.Transcribe] for what is refused
	TopRule string // the rule to start with, "move2", "goforward.move2" or "<move2>"; blank when there is one public rule

	Program string // the program, searched in PATH when it has no slash; default pocketsphinx_continuous
	HMM     string // directory of the acoustic model; default Debian's en-us
	Dict    string // pronunciation dictionary; default Debian's cmudict-en-us.dict
	LM      string // language model, not used with a grammar; default Debian's en-us.lm.bin

	// MaxUtterance is the longest stretch of audio that is recognised as one utterance; default 20 s, at least 2 s.
	MaxUtterance time.Duration
	// TempDir is where the grammar is kept during a call, in a private directory; default [os.TempDir].
	TempDir string
}

// Engine recognises speech with pocketsphinx. It implements engine.Engine. It holds no state: one value may serve any
// number of calls at a time, each with its own child process.
type Engine struct {
	config Config
	env    []string // of the child; nil for this process's own
}

// New returns an engine with the defaults filled in. What is wrong with config is told by [Engine.Available] and
// [Engine.Transcribe], because a cap stays declared when its engine is not there.
func New(config Config) *Engine {
	fill := func(value *string, standard string) {
		if *value == "" {
			*value = standard
		}
	}
	fill(&config.Program, defaultProgram)
	fill(&config.HMM, filepath.Join(defaultModel, "en-us"))
	fill(&config.Dict, filepath.Join(defaultModel, "cmudict-en-us.dict"))
	fill(&config.LM, filepath.Join(defaultModel, "en-us.lm.bin"))
	if config.MaxUtterance <= 0 {
		config.MaxUtterance = defaultMaxUtterance
	}
	config.MaxUtterance = max(config.MaxUtterance, minMaxUtterance)
	return &Engine{config: config}
}

// Name is "pocketsphinx".
func (e *Engine) Name() string { return "pocketsphinx" }

// Available reports whether the program and its models are there: nil, or a failure of class environment
// ([CodeUnavailable]) that names what is missing and the packages to install. It does not start the program.
func (e *Engine) Available() error {
	if _, err := exec.LookPath(e.config.Program); err != nil {
		return missing("program "+e.config.Program, err)
	}
	files := []struct{ what, path string }{
		{"acoustic model", filepath.Join(e.config.HMM, "mdef")},
		{"dictionary", e.config.Dict},
	}
	if !e.hasGrammar() {
		files = append(files, struct{ what, path string }{"language model", e.config.LM})
	}
	for _, f := range files {
		if _, err := os.Stat(f.path); err != nil {
			return missing(f.what, err)
		}
	}
	return nil
}

func missing(what string, err error) error {
	return failure.Newf(CodeUnavailable, failure.Environment, "engine pocketsphinx: %s is missing: %w; %s",
		what, err, debianPackages)
}

func (e *Engine) hasGrammar() bool { return strings.TrimSpace(e.config.Grammar) != "" }

// arguments checks the configuration and gives the child's command line. remove, never nil, takes the temporary
// grammar away again.
func (e *Engine) arguments() (args []string, remove func(), err error) {
	remove = func() {}
	// -logfn is left at standard error: the program appends to a named file for ever, and the log is the only place
	// where it gives reasons.
	args = []string{"-infile", "/dev/stdin", "-time", "yes", "-hmm", e.config.HMM, "-dict", e.config.Dict}
	if !e.hasGrammar() {
		if e.config.TopRule != "" {
			return nil, remove, badGrammar("toprule %q was given without a grammar: give the grammar that has this rule, or no toprule",
				e.config.TopRule)
		}
		return append(args, "-lm", e.config.LM), remove, nil
	}
	text, rule, err := checkGrammar(e.config.Grammar, e.config.TopRule)
	if err != nil {
		return nil, remove, err
	}
	dir, err := os.MkdirTemp(e.config.TempDir, "sphinx-")
	if err != nil {
		return nil, remove, noRoom(err)
	}
	remove = func() { _ = os.RemoveAll(dir) } // nothing depends on it, and there is nobody to tell
	path := filepath.Join(dir, grammarFile)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, remove, noRoom(err)
	}
	args = append(args, "-jsgf", path)
	if rule != "" {
		args = append(args, "-toprule", rule)
	}
	return args, remove, nil
}

func noRoom(err error) error {
	return failure.Newf(CodeFailed, failure.Environment, "engine pocketsphinx: keep the grammar for the program: %w", err)
}

func badGrammar(format string, args ...any) error {
	return failure.New(CodeGrammar, failure.Input, "engine pocketsphinx: "+fmt.Sprintf(format, args...))
}
