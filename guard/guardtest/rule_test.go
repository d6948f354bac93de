package guardtest_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/guardtest"
)

// The model and the table were written apart: each row shows that they agree.
func TestModelKeepsToTheTable(t *testing.T) {
	t.Parallel()
	for _, c := range guardtest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			m := after(t, c.Given)
			if got := m.Mark(); got != c.Before {
				t.Errorf("mark before is %+v, want %+v", got, c.Before)
			}
			if got := m.Check(c.Token); !errors.Is(got, c.Check) {
				t.Errorf("check: %v, want %v", got, c.Check)
			}
			if got := m.Claim(c.Token); !errors.Is(got, c.Claim) {
				t.Errorf("claim: %v, want %v", got, c.Claim)
			}
			if got := m.Mark(); got != c.After {
				t.Errorf("mark after is %+v, want %+v", got, c.After)
			}
		})
	}
	for _, c := range guardtest.AdoptCases() {
		t.Run("adopt, "+c.Name, func(t *testing.T) {
			t.Parallel()
			m := after(t, c.Given)
			if adopted := m.Adopt(c.Issuer); adopted == c.Refused {
				t.Errorf("adopted: %v, want %v", adopted, !c.Refused)
			}
			if got := m.Mark(); got != c.After {
				t.Errorf("mark after is %+v, want %+v", got, c.After)
			}
		})
	}
}

func after(t *testing.T, given []guardtest.Step) *guardtest.Model {
	t.Helper()
	var m guardtest.Model
	for i, step := range given {
		if step.Adopt {
			if !m.Adopt(step.Issuer) {
				t.Fatalf("step %d is refused: adopt to %q", i, step.Issuer)
			}
		} else if err := m.Claim(step.Token); err != nil {
			t.Fatalf("step %d is refused: %v", i, err)
		}
	}
	return &m
}

// Rows travel to other languages as text: what a row's token prints as must be
// readable there, and be read as what it is.
func TestTableTravelsAsText(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, c := range guardtest.Cases() {
		text := c.Token.String()
		if names[c.Name] {
			t.Errorf("two rows are named %q", c.Name)
		}
		names[c.Name] = true
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			t.Errorf("%s: text %q cannot be sent to a database", c.Name, text)
		}
		parsed, err := guard.Parse(text)
		if c.Claim == guard.ErrMalformed { //nolint:errorlint // a row holds the sentinel itself
			if !errors.Is(err, guard.ErrMalformed) {
				t.Errorf("%s: %q is read as %+v", c.Name, text, parsed)
			}
		} else if err != nil || parsed != c.Token {
			t.Errorf("%s: %q is read as %+v, %v", c.Name, text, parsed, err)
		}
	}
	clear(names)
	for _, row := range guardtest.Texts() {
		if names[row.Name] {
			t.Errorf("two rows are named %q", row.Name)
		}
		names[row.Name] = true
		if !utf8.ValidString(row.Text) || strings.ContainsRune(row.Text, 0) {
			t.Errorf("%s: text %q cannot be sent to a database", row.Name, row.Text)
		}
	}
}

func TestCaseMovesToAnotherResource(t *testing.T) {
	t.Parallel()
	for _, c := range guardtest.Cases() {
		moved := c.On("elsewhere")
		for i, step := range moved.Given {
			if !step.Adopt && step.Token.Resource != "elsewhere" {
				t.Errorf("%s: step %d is at %q", c.Name, i, step.Token.Resource)
			}
			if !c.Given[i].Adopt && c.Given[i].Token.Resource != guardtest.Resource {
				t.Errorf("%s: the row itself was moved", c.Name)
			}
		}
		if c.Claim == nil && moved.Token.Resource != "elsewhere" {
			t.Errorf("%s: its token stayed at %q", c.Name, moved.Token.Resource)
		}
	}
}
