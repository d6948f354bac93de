package lockurl

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	type parts struct {
		Hosts                []string
		User, Password, Path string
		Query                url.Values
		Name                 string
	}
	for text, want := range map[string]parts{
		"etcd://h": {Hosts: []string{"h:2379"}, Name: "etcd://h:2379"},
		"etcd://u:p%40%2F@h1,h2:1,[::1]:3/a/b": {
			Hosts: []string{"h1:2379", "h2:1", "[::1]:3"}, User: "u", Password: "p@/", Path: "a/b", Name: "etcd://h1:2379,h2:1,[::1]:3/a/b",
		},
		"etcds://u:p@x@h?cacert=%2Fca": { // the last @ ends the password
			Hosts: []string{"h:2379"}, User: "u", Password: "p@x", Query: url.Values{"tls": {"true"}, "cacert": {"/ca"}}, Name: "etcds://h:2379",
		},
		"etcd://h?tls": {Hosts: []string{"h:2379"}, Query: url.Values{"tls": {"true"}}, Name: "etcd://h:2379"},
		"etcd://h/?tls=true&cert=c&key=k": {
			Hosts: []string{"h:2379"}, Query: url.Values{"tls": {"true"}, "cert": {"c"}, "key": {"k"}}, Name: "etcd://h:2379",
		},
		"etcd://h?tls=false": {Hosts: []string{"h:2379"}, Name: "etcd://h:2379"},
		"redis://:secret@h":  {Hosts: []string{"h:6379"}, Password: "secret", Name: "redis://h:6379"},
		"rediss://u:p@h:1/2?issuer=i": {
			Hosts: []string{"h:1"}, User: "u", Password: "p", Path: "2", Query: url.Values{"tls": {"true"}, "issuer": {"i"}}, Name: "rediss://h:1/2",
		},
		"redis+sentinel://h1,h2:5/0?master=m": {
			Hosts: []string{"h1:26379", "h2:5"}, Path: "0", Query: url.Values{"master": {"m"}}, Name: "redis+sentinel://h1:26379,h2:5/0",
		},
		"redis+cluster://h1,h2": {Hosts: []string{"h1:6379", "h2:6379"}, Name: "redis+cluster://h1:6379,h2:6379"},
		"zk://u:p@h1,h2/locks":  {Hosts: []string{"h1:2181", "h2:2181"}, User: "u", Password: "p", Path: "locks", Name: "zk://h1:2181,h2:2181/locks"},
	} {
		target, err := Parse(text)
		if err != nil {
			t.Errorf("Parse(%q): %v", text, err)
			continue
		}
		if want.Query == nil {
			want.Query = url.Values{}
		}
		got := parts{target.hosts, target.user, target.password, target.path, target.query, target.String()}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s", text, diff)
		}
		service, err := target.Open(t.Context(), 10*time.Second)
		if strings.Contains(text, "c") && len(want.Query) > 1 || strings.Contains(text, "cacert") { // files that are not there
			if err == nil || strings.Contains(err.Error(), "p@x") {
				t.Errorf("Open(%q): %v", text, err)
			}
			continue
		}
		if want.Password != "" && strings.HasPrefix(text, "etcd") {
			continue // it would be asked for a token
		}
		if err != nil {
			t.Errorf("Open(%q): %v", text, err)
			continue
		}
		if err := service.Close(); err != nil {
			t.Errorf("Close(%q): %v", text, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                                  "does not begin with",
		"h:2379":                            "does not begin with",
		"consul://h":                        "scheme is none of",
		"etcd://":                           "a host is missing",
		"etcd://u:s3cret@":                  "a host is missing",
		"etcd://h1,,h2":                     "a host is missing",
		"etcd://h:port":                     `"h:port" is not host:port`,
		"etcd://h:1:2":                      `"h:1:2" is not host:port`,
		"etcd://h:70000":                    "is not host:port",
		"etcd://u:s3cret%zz@h":              "percent-encoded",
		"etcd://:s3cret@h":                  "a password and no user",
		"etcd://h#x":                        "fragment",
		"etcd://h?ttl=3":                    `parameter "ttl" is unknown; there are tls, cacert, cert, key`,
		"etcd://h?password=s3cret":          `parameter "password" is unknown`,
		"etcd://h?tls=1":                    "neither true nor false",
		"etcd://h?tls=true&tls=false":       "given twice",
		"etcd://h?cacert=f":                 `parameter "cacert" needs TLS`,
		"etcd://h?tls&cert=f":               "cert and key go together",
		"etcd://h?a=%zz":                    "percent-encoded",
		"redis://h1,h2":                     "several hosts",
		"redis://h/x":                       "number of a database",
		"redis://h?issuer=a.b":              "parameter issuer",
		"redis://h?replicas=x":              "parameter replicas",
		"redis+sentinel://h":                "parameter master is missing",
		"redis+cluster://h/0":               "a Cluster has none",
		"redis+cluster://h?master=m":        "unknown",
		"zk://h?root=x":                     "unknown",
		"redis://u:s3cret@h?issuer=s3cret.": "parameter issuer",
	} {
		target, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Parse(%q) = %v, %v, want an error with %q", text, target, err, says)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Parse(%q) repeats the password: %v", text, err)
		}
	}
}
