package socket

import (
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"127.0.0.1:5432":                         "tcp 127.0.0.1:5432 127.0.0.1",
		"[::1]:5432":                             "tcp [::1]:5432 ::1",
		"db.example:6432":                        "tcp db.example:6432 db.example",
		":5432":                                  "tcp :5432 ",
		"/run/postgresql":                        "unix /run/postgresql/.s.PGSQL.5432 ",
		"/run/postgresql/":                       "unix /run/postgresql/.s.PGSQL.5432 ",
		"/run/postgresql:6432":                   "unix /run/postgresql/.s.PGSQL.6432 ",
		"/run/a:b/postgresql":                    "unix /run/a:b/postgresql/.s.PGSQL.5432 ",
		"/run/postgresql/.s.PGSQL.6432":          "unix /run/postgresql/.s.PGSQL.6432 ",
		"/run/fenceproxy.sock":                   "unix /run/fenceproxy.sock ",
		"@fence":                                 "unix @fence/.s.PGSQL.5432 ",
		"":                                       "",
		"localhost":                              "",
		"localhost:postgres":                     "",
		"localhost:70000":                        "",
		"run/postgresql":                         "",
		"/" + strings.Repeat("long", 27):         "",
		"/" + strings.Repeat("l", 120) + ".sock": "",
	} {
		got, err := ParseAddress(text)
		if want == "" {
			if err == nil {
				t.Errorf("%q is %+v", text, got)
			}
			continue
		}
		if s := got.Network + " " + got.Where + " " + got.Host; err != nil || s != want {
			t.Errorf("%q is %q, %v, want %q", text, s, err, want)
		}
	}
}
