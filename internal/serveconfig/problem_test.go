package serveconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every mistake has its line, its column and its key, and all are told.
func TestProblems(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		says []string
	}{
		"not there": {"", []string{"f.yaml: there is nothing to listen for: it has neither postgres nor s3"}},
		"unknown keys": {"admn: {}\nlog:\n  depth: info\n" + least, []string{
			"f.yaml:1:1: admn: is no key; here there are admin, log, shutdown_timeout, postgres, s3",
			"f.yaml:3:3: log.depth: is no key; here there are format, level, statements",
		}},
		"several": {"log:\n  level: loud\nshutdown_timeout: 30\npostgres:\n  - listen: 127.0.0.1:6432\n    upstream:\n      addr: db\n    evict: yes\n  - untokened: readonly\n", []string{
			`f.yaml:2:10: log.level: "loud" is none of debug, info, warn, error`,
			`f.yaml:3:19: shutdown_timeout: "30" is not a duration with a unit, as in 500ms, 10s or 5m`,
			"f.yaml:7:7: postgres[0].upstream.addr: is no key; here there are address, connect_timeout, tls",
			"f.yaml:7:7: postgres[0].upstream.address: is missing",
			`f.yaml:8:12: postgres[0].evict: "yes" is neither true nor false`,
			"f.yaml:9:5: postgres[1].listen: is missing",
			"f.yaml:9:5: postgres[1].upstream: is missing",
			`f.yaml:9:16: postgres[1].untokened: "readonly" is none of read-only, deny, allow`,
		}},
		"values, and what they mean": {"lgo: {}\nadmin: {listen: '9187'}\npostgres:\n  - {listen: ':6432', upstream: {address: 'db:5432'}}\n" +
			"  - {listen: ':6433', evict: yes, upstream: {address: 'db:5432'}}\n  - {listen: '127.0.0.1:1', upstream: {address: db}}\n", []string{
			"f.yaml:1:1: lgo: is no key; here there are admin, log, shutdown_timeout, postgres, s3",
			`f.yaml:2:17: admin.listen: "9187" is not host:port or :port`,
			`f.yaml:4:14: postgres[0].listen: ":6432" has no host: 127.0.0.1:6432 is for this machine only, 0.0.0.0:6432 or [::]:6432 for all`,
			`f.yaml:5:30: postgres[1].evict: "yes" is neither true nor false`, // and what goes with it is not looked at
			`f.yaml:6:49: postgres[2].upstream.address: "db" is neither host:port nor the path of a socket, which begins with /`,
		}},
		"a key that leaves nothing": {"postgrs: []\n", []string{
			"f.yaml: there is nothing to listen for: it has neither postgres nor s3",
			"f.yaml:1:1: postgrs: is no key; here there are admin, log, shutdown_timeout, postgres, s3",
		}},
		"admin that was not read": {"admin: {listen: '127.0.0.1:6432', pprof: 1}\n" + least, []string{`f.yaml:1:42: admin.pprof: "1" is neither true nor false`}},
		"twice":                   {least + "log: {}\nlog: {}\n", []string{"f.yaml:3:1: log: is there twice"}},
		"no value":                {least + "shutdown_timeout:\n", []string{"f.yaml:2:18: shutdown_timeout: has no value"}},
		"not one value":           {least + "shutdown_timeout: [1s]\n", []string{"f.yaml:2:19: shutdown_timeout: must be one value, not a list or keys (a value that begins with { or [ stands in quotes)"}},
		"not keys":                {least + "log: json\n", []string{"f.yaml:2:6: log: must have keys under it: format, level, statements"}},
		"not a list":              {"postgres:\n  listen: x\n", []string{"f.yaml:2:3: postgres: must be a list, each element with a dash in front"}},
		"not keys at all":         {"- a\n", []string{"f.yaml:1:1: must have keys under it: admin, log, shutdown_timeout, postgres, s3"}},
		"empty":                   {"postgres: [{listen: '${EMPTY}', upstream: {address: 'db:1'}}]\n", []string{"f.yaml:1:21: postgres[0].listen: is empty"}},
		"variable":                {least + "log:\n  level: ${NOPE}\n", []string{"f.yaml:3:10: log.level: the environment has no variable NOPE"}},
		"tag":                     {least + "log: {level: !!binary aW5mbw==}\n", []string{"f.yaml:2:14: log.level: tags like !!binary have no meaning here"}},
		"merge":                   {least + "log:\n  <<: {level: info}\n", []string{"f.yaml:3:3: log: keys cannot be merged with <<: write them out, or let an alias (*name) stand for a whole value"}},
		"documents":               {least + "---\na: 1\n", []string{"f.yaml:2:1: a second document begins here; a config is one"}},
		"not YAML":                {least + "log:\n  level: info\n format: text\n", []string{"f.yaml:4:2: this is not YAML: did not find expected key"}},
		"tab":                     {least + "log:\n\tlevel: info\n", []string{"f.yaml:3:1: this is not YAML: found character that cannot start any token"}},
		"UTF-8":                   {"log: \"\xff\"\n", []string{"f.yaml: this is not YAML: invalid leading UTF-8 octet (value: 255)"}},
		"zero byte":               {"log: {level: \"\\0\"}\n" + least, []string{"f.yaml:1:14: log.level: \"\\x00\" is none of debug, info, warn, error"}},
		"below 0":                 {"shutdown_timeout: -1s\n" + least, []string{`f.yaml:1:19: shutdown_timeout: "-1s" is below 0`}},
		"not above 0":             {"shutdown_timeout: 0s\n" + least, []string{`f.yaml:1:19: shutdown_timeout: "0s" is not above 0`}},
		"admin":                   {"admin: {listen: '9187'}\n" + least, []string{`f.yaml:1:17: admin.listen: "9187" is not host:port or :port`}},
		"taken": {"admin: {listen: ':6432'}\n" + least, []string{
			"f.yaml:2:21: postgres[0].listen: 127.0.0.1:6432 is taken by admin.listen",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.says, strings.Split(mustFail(t, c.text).Error(), "\n")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// What one key means for another, in a listener.
func TestProblemsOfPostgres(t *testing.T) {
	t.Parallel()
	const ok = "listen: 127.0.0.1:6432"
	const db = "upstream: {address: 'db:5432'}"
	for _, c := range []struct{ keys, says string }{
		{"listen: ':6432'; " + db, `listen: ":6432" has no host: 127.0.0.1:6432 is for this machine only, 0.0.0.0:6432 or [::]:6432 for all`},
		{"listen: localhost; " + db, "listen: \"localhost\" is neither host:port nor the path of a socket"},
		{"listen: 127.0.0.1:65536; " + db, "neither host:port"},
		{"listen: run/socket; " + db, "neither host:port"},
		{ok + "; upstream: {address: 'db:0'}", "upstream.address: \"db:0\" is neither"},
		{ok + "; upstream: {address: ':5432'}", "upstream.address: \":5432\" is neither"},
		{ok + "; socket_mode: 0700; " + db, "socket_mode: is for a socket, and listen is none"},
		{"listen: /run/s; socket_mode: 0888; " + db, "socket_mode: \"0888\" are not permissions in octal"},
		{"listen: /run/s; tls: {cert: c, key: k}; " + db, "tls: is not for a socket"},
		{ok + "; tls: {cert: c}; " + db, "tls.key: is missing"},
		{ok + "; tls: {cert: c, key: k, client_ca: a}; " + db, "tls.client_ca: holds nobody up while tls.required is false"},
		{ok + "; tls: {cert: c, key: k, verify_user: true}; " + db, "tls.verify_user: needs client_ca"},
		{ok + "; upstream: {address: /run/s, tls: {mode: require}}", "tls.mode: must be disable"},
		{ok + "; upstream: {address: 'db:5432', tls: {ca: x}}", "tls.ca: is for TLS, and mode is disable"},
		{ok + "; upstream: {address: 'db:5432', tls: {direct: true}}", "tls.direct: is for TLS, and mode is disable"},
		{ok + "; upstream: {address: 'db:5432', tls: {mode: verify-ca}}", "tls.ca: is missing"},
		{ok + "; upstream: {address: 'db:5432', tls: {mode: require, ca: x}}", "tls.ca: is not looked at with mode require"},
		{ok + "; upstream: {address: 'db:5432', tls: {mode: prefer, direct: true}}", "tls.direct: leaves no choice"},
		{ok + "; upstream: {address: 'db:5432', tls: {mode: require, cert: x}}", "tls: cert and key go together"},
		{ok + "; max_connections: -1; " + db, "max_connections: \"-1\" is not a whole number, 0 or above"},
		{ok + "; max_message: 0; " + db, "max_message: \"0\" is not a number of bytes above 0"},
		{ok + "; max_message: 256; " + db, "f.yaml:3:18: postgres[0].max_message: \"256\" is below 64KiB"},
		{ok + "; max_message: 9999999999GiB; " + db, "max_message: \"9999999999GiB\" is not"},
		{ok + "; claim_wait: 10; " + db, "claim_wait: \"10\" is not a duration"},
	} {
		text := "postgres:\n  - " + strings.ReplaceAll(c.keys, "; ", "\n    ") + "\n"
		if got := mustFail(t, text).Error(); !strings.HasPrefix(got, "f.yaml:") || !strings.Contains(got, c.says) {
			t.Errorf("%s\n  got  %s\n  want %s", text, got, c.says)
		}
	}
	two := "postgres:\n  - {" + ok + ", " + db + "}\n  - {" + ok + ", " + db + "}\n"
	if got := mustFail(t, two).Error(); got != "f.yaml:3:14: postgres[1].listen: 127.0.0.1:6432 is taken by postgres[0].listen" {
		t.Errorf("got %s", got)
	}
}

// A mistake that shows in use has the place of its key, or of what is around it.
func TestProblemPlace(t *testing.T) {
	t.Parallel()
	c := mustParse(t, least)
	for key, want := range map[string]string{
		"postgres[0].listen":          "f.yaml:1:21: postgres[0].listen: no",
		"postgres[0].tls.cert":        "f.yaml:1:12: postgres[0].tls.cert: no",
		"postgres[0].upstream.tls.ca": "f.yaml:1:49: postgres[0].upstream.tls.ca: no",
		"admin.listen":                "f.yaml: admin.listen: no",
	} {
		if got := c.Problem(key, "no").Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(least)
	f.Add(leastS3)
	f.Add("a: &a [*a]\n")
	f.Add("log: &l {level: ${HOST}}\nadmin: *l\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := parse(text); (c == nil) == (err == nil) {
			t.Errorf("got %v, %v", c, err)
		}
	})
}
