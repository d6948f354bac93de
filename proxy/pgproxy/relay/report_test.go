package relay

import (
	"log/slog"
	"strings"
	"testing"
)

// The log has of a refusal what there is of its mark, or whom a claim has waited
// for, and no empty words.
func TestDetailInTheLog(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "",
		"mark: generation=0 writer=34 holder=h34 reader=0 issuer=k3v9": ` mark="generation=0 writer=34 reader=0 issuer=k3v9"`,
		"pid 7, user app": ` detail="pid 7, user app"`,
	} {
		var got strings.Builder
		withDetail(slog.New(slog.NewTextHandler(&got, nil)), text).Warn("refused")
		if _, rest, _ := strings.Cut(got.String(), "msg=refused"); rest != want+"\n" {
			t.Errorf("of %q the log has %q, want %q", text, rest, want)
		}
	}
}
