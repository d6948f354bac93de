package s3proxy

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"
)

func valid() Config {
	return Config{
		Upstream: Upstream{Endpoint: "http://127.0.0.1:9000", AccessKey: "a", SecretKey: "s"},
		Clients:  []Client{{AccessKey: "c", SecretKey: "t", Buckets: []string{"bucket"}}},
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(c *Config){
		"":                          func(*Config) {},
		"endpoint":                  func(c *Config) { c.Upstream.Endpoint = "" },
		"endpoint is not":           func(c *Config) { c.Upstream.Endpoint = "127.0.0.1:9000" },
		"endpoint is not http(s):/": func(c *Config) { c.Upstream.Endpoint = "http://user:pass@h" },
		"endpoint is not http":      func(c *Config) { c.Upstream.Endpoint = "http://h/path" },
		"needs AccessKey and":       func(c *Config) { c.Upstream.SecretKey = "" },
		"nobody may come":           func(c *Config) { c.Clients = nil },
		"client 0 needs":            func(c *Config) { c.Clients[0].SecretKey = "" },
		"there twice":               func(c *Config) { c.Clients = append(c.Clients, c.Clients[0]) },
		"has no buckets":            func(c *Config) { c.Clients[0].Buckets = nil },
		"all buckets, and some":     func(c *Config) { c.Clients[0].Buckets = []string{"*", "a"} },
		`bucket "A_"`:               func(c *Config) { c.Clients[0].Buckets = []string{"A_"} },
		"unknown policy 9":          func(c *Config) { c.Untokened = 9 },
		"allow needs resources":     func(c *Config) { c.Untokened = Allow },
		"must not be negative":      func(c *Config) { c.MaxBodyTime = -time.Second },
		"TLS needs a certificate":   func(c *Config) { c.TLS = &tls.Config{MinVersion: tls.VersionTLS12} },
		"domain":                    func(c *Config) { c.Domains = []string{"A.example"} },
		"no slash":                  func(c *Config) { c.Resources = []Resource{{"bucket", "r"}} },
		"begin with a bucket":       func(c *Config) { c.Resources = []Resource{{"/k", "r"}} },
		"fence's own":               func(c *Config) { c.Resources = []Resource{{"bucket/.fence/a", "r"}} },
		`"bucket/a" is there twice`: func(c *Config) { c.Resources = []Resource{{"bucket/a", "r"}, {"bucket/a", "q"}} },
		`prefix "bucket/a": `:       func(c *Config) { c.Resources = []Resource{{"bucket/a", ""}} },
	} {
		c := valid()
		change(&c)
		_, err := New(c)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "pass")) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	for _, p := range []Policy{ReadOnly, Deny, Allow} {
		text, err := p.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back Policy
		if err := back.UnmarshalText(text); err != nil || back != p {
			t.Errorf("%s: %v, %v", text, back, err)
		}
	}
	var p Policy
	if err := p.UnmarshalText([]byte("readonly")); err == nil {
		t.Error("readonly is a policy")
	}
}
