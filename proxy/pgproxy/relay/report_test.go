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

// Also if the token was refused when it was looked up.
func TestDetailBehindHint(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"SERROR\x00CTK001\x00Mstale\x00Dmark: writer=34\x00HAcquire it again.\x00\x00",
		"SERROR\x00CTK001\x00Mstale\x00HAcquire it again.\nmark: writer=34\x00\x00",
	} {
		if got := detailOf([]byte(body)); got != "mark: writer=34" {
			t.Errorf("of %q it is %q", body, got)
		}
	}
	if got := detailOf([]byte("SERROR\x00CTK007\x00Munfenced\x00HSend it alone.\x00\x00")); got != "" {
		t.Errorf("without one it is %q", got)
	}
}
