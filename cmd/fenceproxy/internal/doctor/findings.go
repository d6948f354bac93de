package doctor

import (
	"fmt"
	"strings"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
)

// level is how bad a finding is.
type level string

const (
	levelOK      level = "ok"
	levelNote    level = "note" // to know, not to mend
	levelWarning level = "warning"
	levelWrong   level = "wrong"
)

// finding is what a doctor found out about one thing.
type finding struct {
	// Check names what was looked at, the same in every version.
	Check string `json:"check"`
	// Of names the server of which it was found, where there are several.
	Of    string `json:"of"`
	Level level  `json:"level"`
	// Found is what there is.
	Found string `json:"found"`
	// Advice says what to do about it, "" for nothing.
	Advice string `json:"advice"`
}

// findings are a doctor's, in the order in which they were found.
type findings struct {
	Target   string    `json:"target"`
	Findings []finding `json:"findings"`
}

func (f *findings) add(check string, l level, advice, format string, args ...any) {
	f.addOf("", check, l, advice, format, args...)
}

func (f *findings) addOf(of, check string, l level, advice, format string, args ...any) {
	f.Findings = append(f.Findings, finding{check, of, l, fmt.Sprintf(format, args...), advice})
}

// name is how people read of what it is.
func (f finding) name() string { return strings.TrimSpace(f.Check + " " + f.Of) }

// print prints them, and returns an error if one is wrong.
func (p *program) printFindings(f *findings, asJSON bool) error {
	if asJSON {
		if err := cli.PrintJSON(p.Out, f); err != nil {
			return err
		}
		return f.err()
	}
	rows := [][]string{{"CHECK", "LEVEL", "FOUND"}}
	for _, one := range f.Findings {
		rows = append(rows, []string{one.name(), string(one.Level), one.Found})
		if one.Advice != "" {
			rows = append(rows, []string{"", "", "-> " + one.Advice})
		}
	}
	if err := cli.PrintTable(p.Out, rows); err != nil {
		return err
	}
	return f.err()
}

func (f *findings) err() error {
	for _, one := range f.Findings {
		if one.Level == levelWrong {
			advice := ""
			if one.Advice != "" {
				advice = "; " + one.Advice
			}
			return cli.Fail(cli.ExitSchema, "%s: %s: %s%s", f.Target, one.name(), one.Found, advice)
		}
	}
	return nil
}
