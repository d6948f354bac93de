package guard_test

import (
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/guardtest"
)

func TestTextForm(t *testing.T) {
	t.Parallel()
	for _, row := range guardtest.Texts() {
		t.Run(row.Name, func(t *testing.T) {
			t.Parallel()
			tokens, err := guard.ParseList(row.Text)
			if row.Tokens == nil {
				expectMalformed(t, err)
			} else if err != nil || !slices.Equal(tokens, row.Tokens) {
				t.Errorf("read as %+v, %v, want %+v", tokens, err, row.Tokens)
			}
			one, err := guard.Parse(row.Text)
			if len(row.Tokens) != 1 {
				expectMalformed(t, err)
			} else if err != nil || one != row.Tokens[0] {
				t.Errorf("read as %+v, %v, want %+v", one, err, row.Tokens[0])
			}
			if row.Tokens == nil {
				return
			}
			if text, err := guard.FormatList(row.Tokens); err != nil || text != row.Text {
				t.Errorf("printed as %q, %v", text, err)
			}
			if len(row.Tokens) == 1 && row.Tokens[0].String() != row.Text {
				t.Errorf("printed as %q", row.Tokens[0])
			}
		})
	}
}

func expectMalformed(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, guard.ErrMalformed) || guard.OutcomeOf(err) != guard.Refused {
		t.Errorf("%v (%v), want a refusal as malformed", err, guard.OutcomeOf(err))
	}
}

// What no carrier of text can hold, and so is not in the shared table.
func TestParseRefusesBytes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"",
		"\x00",
		"ft1:x:42:a:i:orders\x00",
		"ft1:x:42:a:i:or\x00ders",
		"ft1:x:42:a\x00:i:orders",
		"ft1:x:42\x00:a:i:orders",
		"ft1:x:42:a:i:\xff",
		"ft1:\xff:42:a:i:orders",
		"\xef\xbb\xbfft1:x:42:a:i:orders",
	} {
		token, err := guard.Parse(text)
		if token != (guard.Token{}) {
			t.Errorf("%q: a refusal came with %+v", text, token)
		}
		expectMalformed(t, err)
	}
}

// A huge list costs no more than reading it up to its first flaw.
func TestParseListOfCommas(t *testing.T) {
	commas := strings.Repeat(",", 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := guard.ParseList(commas)
	runtime.ReadMemStats(&after)
	expectMalformed(t, err)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 1<<20 {
		t.Errorf("a list of 1 MiB of commas took %d bytes", allocated)
	}
}

func FuzzParse(f *testing.F) {
	for _, row := range guardtest.Texts() {
		f.Add(row.Text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if token, err := guard.Parse(text); err == nil {
			if token.String() != text {
				t.Errorf("%q is printed as %q", text, token)
			}
			if err := token.Validate(); err != nil {
				t.Errorf("%q: %v", text, err)
			}
			if len(text) > guard.MaxTextLen {
				t.Errorf("%q is longer than MaxTextLen", text)
			}
		} else {
			expectMalformed(t, err)
		}
		tokens, err := guard.ParseList(text)
		if err != nil {
			expectMalformed(t, err)
			return
		}
		if again, err := guard.FormatList(tokens); err != nil || again != text {
			t.Errorf("list %q is printed as %q, %v", text, again, err)
		}
	})
}

func FuzzFormat(f *testing.F) {
	for _, c := range guardtest.Cases() {
		f.Add(c.Token.Resource, c.Token.Number, byte(c.Token.Mode), c.Token.Holder, c.Token.Issuer)
	}
	f.Add("r:s", int64(1), byte('x'), "a:b", "c")
	f.Add("r", int64(1), byte(':'), "", "x:1")
	f.Fuzz(func(t *testing.T, resource string, number int64, mode byte, holder, issuer string) {
		token := guard.Token{Resource: resource, Number: number, Mode: guard.Mode(mode), Holder: holder, Issuer: issuer}
		flaw := token.Validate()
		text, err := token.MarshalText()
		if (err == nil) != (flaw == nil) {
			t.Fatalf("valid: %v, printed: %v", flaw, err)
		}
		parsed, err := guard.Parse(token.String())
		if flaw != nil {
			expectMalformed(t, flaw)
			expectMalformed(t, err)
			return
		}
		if err != nil || parsed != token || token.String() != string(text) {
			t.Errorf("%+v is printed as %q, which is read as %+v, %v", token, text, parsed, err)
		}
		for _, c := range text {
			if !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789:._~/-%", rune(c)) {
				t.Errorf("%q is not safe in a shell word, a header, a GUC and a URL", text)
			}
		}
	})
}

func TestTokenInJSON(t *testing.T) {
	t.Parallel()
	type grant struct {
		Token guard.Token `json:"token"`
	}
	const text = `{"token":"ft1:x:42:a:i:caf%C3%A9"}`
	var g grant
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		t.Fatal(err)
	}
	if printed, err := json.Marshal(g); err != nil || string(printed) != text {
		t.Errorf("printed as %s, %v", printed, err)
	}
	before := g.Token
	expectMalformed(t, json.Unmarshal([]byte(`{"token":"ft1:x:042:a:i:orders"}`), &g))
	if g.Token != before {
		t.Errorf("a refused text changed the token to %+v", g.Token)
	}
	if _, err := json.Marshal(grant{}); !errors.Is(err, guard.ErrMalformed) {
		t.Errorf("the zero token is printed: %v", err)
	}
}

func TestFormatListRefuses(t *testing.T) {
	t.Parallel()
	a := guard.Token{Resource: "a", Number: 1, Mode: guard.Exclusive}
	if _, err := guard.FormatList(nil); !errors.Is(err, guard.ErrNoToken) {
		t.Errorf("no token: %v", err)
	}
	for _, tokens := range [][]guard.Token{{{}}, {a, {}}, {a, a}} {
		text, err := guard.FormatList(tokens)
		if text != "" {
			t.Errorf("%+v is printed as %q", tokens, text)
		}
		expectMalformed(t, err)
	}
}

func TestModeString(t *testing.T) {
	t.Parallel()
	for mode, want := range map[guard.Mode]string{guard.Exclusive: "x", guard.Shared: "s", 0: "?", 0xff: "?"} {
		if mode.String() != want {
			t.Errorf("mode %d is printed as %q", mode, mode)
		}
	}
}
