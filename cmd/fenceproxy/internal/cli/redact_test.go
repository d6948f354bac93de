package cli

import (
	"testing"
)

func TestRedact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"dial postgres://u:s3cret@h/d: no":             "dial postgres://u:xxxxx@h/d: no",
		"postgres://u:s3:cr@et@h/d":                    "postgres://u:xxxxx@h/d",
		"postgresql://:s3cret@h":                       "postgresql://:xxxxx@h",
		"host=h password=s3cret user=u":                "host=h password=xxxxx user=u",
		`host=h password='s3 cr\'et' user=u`:           "host=h password=xxxxx user=u",
		"postgres://h/d?user=u&password=s3cret&port=1": "postgres://h/d?user=u&password=xxxxx&port=1",
		"sslpassword = s3cret":                         "sslpassword = xxxxx",
		"postgres://h:5432/d and u@h":                  "postgres://h:5432/d and u@h",
		`password authentication failed for user "u"`:  `password authentication failed for user "u"`,
	} {
		if got := redact(text); got != want {
			t.Errorf("redact(%q) = %q, want %q", text, got, want)
		}
	}
}
