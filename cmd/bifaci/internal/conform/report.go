package conform

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// WriteText writes the report for people: each failure in full, then the unchecked, then the sum. With all, the passed as well.
func (r *Report) WriteText(w io.Writer, all bool) error {
	var b strings.Builder
	for _, c := range r.Results {
		switch c.Verdict {
		case Passed:
			if all {
				fmt.Fprintf(&b, "pass       %-26s %-16s %s\n", c.ID, c.Rule, c.Title)
			}
		case Unchecked:
			fmt.Fprintf(&b, "unchecked  %-26s %-16s %s\n", c.ID, c.Rule, c.Why)
		case Failed:
			fmt.Fprintf(&b, "FAIL       %-26s %-16s %s\n", c.ID, c.Rule, c.Title)
			for line := range strings.Lines(c.Failure.String()) {
				b.WriteString("           " + line)
			}
		}
	}
	fmt.Fprintf(&b, "%s (%v)\n", r, r.Took.Round(10*time.Millisecond))
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// The elements of JUnit's format that continuous integration reads.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitFailure `xml:"failure,omitempty"`
		Skipped *junitSkipped `xml:"skipped,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
)

// WriteJUnit writes the report in JUnit's XML.
func (r *Report) WriteJUnit(w io.Writer) error {
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
	s := junitSuite{Name: "bifaci conform " + r.Cartridge, Tests: len(r.Results), Failures: r.Count(Failed), Skipped: r.Count(Unchecked),
		Time: seconds(r.Took)}
	for _, c := range r.Results {
		one := junitCase{Class: c.Rule, Name: c.ID + ": " + c.Title, Time: seconds(c.Took)}
		switch c.Verdict {
		case Failed:
			one.Failure = &junitFailure{"expected " + c.Failure.Expected, c.Failure.String()}
		case Unchecked:
			one.Skipped = &junitSkipped{c.Why}
		}
		s.Cases = append(s.Cases, one)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
