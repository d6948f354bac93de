package s3proxy

import (
	"crypto/tls"
	"net/http"
	"testing"
)

// A reload that changes nothing for a bucket, as for a new certificate or another client,
// does not make the proxy forget what holders have seen there, nor what they were told (I9).
func TestReloadRemembersWhatHoldersHaveSeen(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(c *Config, bucket string){
		"nothing":         func(*Config, string) {},
		"a client":        func(c *Config, _ string) { c.Clients = c.Clients[:1] },
		"another bucket":  func(c *Config, _ string) { c.Resources = []Resource{{Prefix: "elsewhere/", Resource: "others"}} },
		"a default":       func(c *Config, _ string) { c.Upstream.ResponseTimeout = defaultResponseTimeout },
		"max_connections": func(c *Config, _ string) { c.MaxConnections = 100 },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			p, old := e.start(t), e.start(t)
			reload := func() {
				c := e.config()
				change(&c, e.bucket)
				if err := p.Reload(c); err != nil {
					t.Fatal(err)
				}
			}
			put(t, old.app(t, token(33)), e.bucket, "k", "A")
			holder := p.app(t, token(34))
			expectValue(t, holder, e.bucket, "k", "A")
			put(t, old.app(t, token(33)), e.bucket, "k", "late")
			reload()
			blind := func() (*http.Response, string) {
				return p.do(t, http.MethodPut, "/"+e.bucket+"/k", "A+1", carrying(t, token(34), map[string]string{"Amz-Sdk-Invocation-Id": "one"}))
			}
			for range 2 { // the second is one that an SDK makes because the first's answer was lost
				if res, body := blind(); res.StatusCode != http.StatusPreconditionFailed || code(body) != "PreconditionFailed" {
					t.Errorf("blind write behind it: %d %s", res.StatusCode, body)
				}
				reload()
			}
			expectValue(t, holder, e.bucket, "k", "late")
		})
	}
}

// Whether it is the same store does not depend on how often its authorities were read.
func TestSameUpstream(t *testing.T) {
	t.Parallel()
	_, one := certificate(t)
	_, another := certificate(t)
	is := Upstream{Endpoint: "https://s", SecretKey: "a", TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: one.Clone()}}
	for what, c := range map[string]struct {
		same   bool
		change func(u *Upstream)
	}{
		"nothing":     {true, func(*Upstream) {}},
		"no TLS":      {false, func(u *Upstream) { u.TLS = nil }},
		"authorities": {false, func(u *Upstream) { u.TLS.RootCAs = another }},
		"the system":  {false, func(u *Upstream) { u.TLS.RootCAs = nil }},
		"version":     {false, func(u *Upstream) { u.TLS.MinVersion = tls.VersionTLS13 }},
		"endpoint":    {false, func(u *Upstream) { u.Endpoint = "https://t" }},
		"secret":      {false, func(u *Upstream) { u.SecretKey = "b" }},
	} {
		other := is
		other.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: one.Clone()}
		c.change(&other)
		if is.same(&other) != c.same || other.same(&is) != c.same {
			t.Errorf("%s differs: want the same %v", what, c.same)
		}
	}
	if none := (Upstream{}); !none.same(&none) {
		t.Error("without TLS it is another one each time")
	}
}
