package serveconfig

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// soon is how long before a certificate ends Warnings begins to say so.
const soon = 14 * 24 * time.Hour

// LoadTLS reads the certificates of listener i: what clients are shown, nil if
// they connect without TLS, and what the server is, nil if it is not asked for
// TLS. What is wrong with the files is Problems.
func (c *Config) LoadTLS(i int) (clients, upstream *tls.Config, err error) {
	l := loader{config: c}
	path := "postgres[" + strconv.Itoa(i) + "]"
	if t := c.Postgres[i].TLS; t != nil {
		clients = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: l.pair(path+".tls", t.Cert, t.Key)}
		if t.ClientCA != "" {
			clients.ClientCAs = l.authorities(path+".tls.client_ca", t.ClientCA)
			clients.ClientAuth = tls.RequireAndVerifyClientCert
		}
	}
	if t := c.Postgres[i].Upstream.TLS; t.Mode != "disable" {
		upstream = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
		if t.CA != "" {
			upstream.RootCAs = l.authorities(path+".upstream.tls.ca", t.CA)
		}
		if t.Cert != "" {
			upstream.Certificates = l.pair(path+".upstream.tls", t.Cert, t.Key)
		}
	}
	if len(l.problems) > 0 {
		return nil, nil, l.problems
	}
	return clients, upstream, nil
}

// loader reads files, and goes on after a mistake.
type loader struct {
	config   *Config
	problems Problems
}

func (l *loader) fail(key string, err error) {
	l.problems = append(l.problems, l.config.Problem(key, "%v", err))
}

func (l *loader) read(key, path string) []byte {
	text, err := os.ReadFile(path)
	if err != nil {
		l.fail(key, err)
	}
	return text
}

// pair reads a certificate and its key, which are under path.
func (l *loader) pair(path, cert, key string) []tls.Certificate {
	before := len(l.problems)
	certText, keyText := l.read(path+".cert", cert), l.read(path+".key", key)
	if len(l.problems) > before {
		return nil
	}
	pair, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		l.fail(path+".cert", fmt.Errorf("%s and %s: %w", cert, key, err))
	}
	return []tls.Certificate{pair}
}

func (l *loader) authorities(key, path string) *x509.CertPool {
	before := len(l.problems)
	text, pool := l.read(key, path), x509.NewCertPool()
	if len(l.problems) == before && !pool.AppendCertsFromPEM(text) {
		l.fail(key, fmt.Errorf("%s has no certificate in PEM", path))
	}
	return pool
}

// Warnings are what works and may not be meant: keys that everybody on the
// machine can read, certificates that have ended or soon do, an admin listener
// that others can reach.
func (c *Config) Warnings(now time.Time) []*Problem {
	var warnings []*Problem
	warn := func(key, format string, args ...any) {
		warnings = append(warnings, c.Problem(key, format, args...))
	}
	if host, _, err := net.SplitHostPort(c.Admin.Listen); err == nil && !isLoopback(host) {
		what := "metrics"
		if c.Admin.PProf {
			what = "metrics, and by pprof the program's memory"
		}
		warn("admin.listen", "whoever can reach %s sees the %s: there is no password", c.Admin.Listen, what)
	}
	for i, p := range c.Postgres {
		path := "postgres[" + strconv.Itoa(i) + "]"
		var clientKey string
		if p.TLS != nil {
			clientKey = p.TLS.Key
		}
		for _, file := range []struct{ key, path string }{
			{path + ".tls.key", clientKey}, {path + ".upstream.tls.key", p.Upstream.TLS.Key},
		} {
			if info, err := os.Stat(file.path); file.path != "" && err == nil && info.Mode()&0o007 != 0 {
				warn(file.key, "everybody on this machine has access to %s (%v): chmod o= takes it away", file.path, info.Mode().Perm())
			}
		}
		clients, upstream, err := c.LoadTLS(i)
		if err != nil {
			continue // no warning but a mistake
		}
		for _, certs := range []struct {
			key    string
			config *tls.Config
		}{{path + ".tls.cert", clients}, {path + ".upstream.tls.cert", upstream}} {
			if text := ending(certs.config, now); text != "" {
				warn(certs.key, "%s", text)
			}
		}
	}
	return warnings
}

// ending says of a certificate that it is not valid, or not for long; "" if it is.
func ending(config *tls.Config, now time.Time) string {
	if config == nil || len(config.Certificates) == 0 {
		return ""
	}
	leaf := config.Certificates[0].Leaf
	switch {
	case now.Before(leaf.NotBefore):
		return "the certificate is not valid before " + leaf.NotBefore.UTC().Format(time.RFC3339)
	case now.After(leaf.NotAfter):
		return "the certificate has ended at " + leaf.NotAfter.UTC().Format(time.RFC3339)
	case now.Add(soon).After(leaf.NotAfter):
		return "the certificate ends at " + leaf.NotAfter.UTC().Format(time.RFC3339)
	}
	return ""
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
