package guard_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
)

// A log tells all of a token and a mark but who holds it, whoever writes the line.
func TestLogWithoutHolder(t *testing.T) {
	t.Parallel()
	token := guard.Token{Resource: "orders", Number: 33, Mode: guard.Exclusive, Holder: "known-to-its-holder", Issuer: "i"}
	mark := guard.Mark{Issuer: "j", Generation: 2, Writer: 34, Holder: "known-to-its-holder", Reader: 35}
	var text, json bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&text, nil), slog.NewJSONHandler(&json, nil)} {
		slog.New(h).Info("refused", "presented", token, "mark", mark)
	}
	for name, lines := range map[string]string{"text": text.String(), "json": json.String()} {
		for _, want := range []string{"mode=x number=33 issuer=i", "generation=2 writer=34 reader=35 issuer=j"} {
			if !strings.Contains(lines, want) {
				t.Errorf("%s does not say %q: %s", name, want, lines)
			}
		}
		if strings.Contains(lines, token.Holder) {
			t.Errorf("%s tells the holder: %s", name, lines)
		}
	}
}
