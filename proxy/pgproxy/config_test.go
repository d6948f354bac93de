package pgproxy

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	ok := Config{Upstream: Upstream{Address: "localhost:5432"}}
	s, err := New(ok)
	if err != nil {
		t.Fatal(err)
	}
	c := s.config.Load()
	if c.ClaimWait != 10*time.Second || c.HandshakeTimeout != time.Minute || c.MaxMessage != 256<<20 || c.Untokened != ReadOnly || c.Evict {
		t.Errorf("defaults are %+v", c)
	}
	cert := &tls.Config{Certificates: make([]tls.Certificate, 1), MinVersion: tls.VersionTLS12}
	perClient := cert.Clone()
	perClient.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return cert, nil }
	for name, spoil := range map[string]func(*Config){
		"address":          func(c *Config) { c.Upstream.Address = "" },
		"policy":           func(c *Config) { c.Untokened = 3 },
		"TLS mode":         func(c *Config) { c.Upstream.TLSMode = 5 },
		"direct TLS":       func(c *Config) { c.Upstream.TLSMode, c.Upstream.DirectTLS = TLSPrefer, true },
		"no name":          func(c *Config) { c.Upstream.Address, c.Upstream.TLSMode = ":5432", TLSVerifyFull },
		"claim wait":       func(c *Config) { c.ClaimWait = -1 },
		"connect timeout":  func(c *Config) { c.Upstream.ConnectTimeout = -1 },
		"max connections":  func(c *Config) { c.MaxConnections = -1 },
		"max message":      func(c *Config) { c.MaxMessage = -1 },
		"no certificate":   func(c *Config) { c.TLS = &TLS{Config: &tls.Config{MinVersion: tls.VersionTLS12}} },
		"no TLS config":    func(c *Config) { c.TLS = &TLS{} },
		"config by client": func(c *Config) { c.TLS = &TLS{Config: perClient} },
		"user unverified":  func(c *Config) { c.TLS = &TLS{Config: cert, VerifyUser: true} },
	} {
		bad := ok
		spoil(&bad)
		if _, err := New(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
		if err := s.Reload(bad); err == nil {
			t.Errorf("%s: no error of Reload", name)
		}
	}
	if s.config.Load() != c {
		t.Error("a bad config is in force")
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for p := ReadOnly; p <= Allow; p++ {
		text, _ := p.MarshalText()
		var back Policy
		if err := back.UnmarshalText(text); err != nil || back != p {
			t.Errorf("%s is %v, %v", text, back, err)
		}
	}
	for m := TLSDisable; m <= TLSVerifyFull; m++ {
		text, _ := m.MarshalText()
		var back TLSMode
		if err := back.UnmarshalText(text); err != nil || back != m {
			t.Errorf("%s is %v, %v", text, back, err)
		}
	}
	var m TLSMode
	if err := m.UnmarshalText([]byte("verify")); err == nil || !strings.Contains(err.Error(), `"verify-ca"`) {
		t.Errorf("got %v", err)
	}
	if Policy(9).String() != "invalid(9)" {
		t.Error(Policy(9))
	}
}
