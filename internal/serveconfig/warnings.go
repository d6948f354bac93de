package serveconfig

import (
	"crypto/tls"
	"net"
	"os"
	"time"
)

// soon is how long before a certificate ends Warnings begins to say so.
const soon = 14 * 24 * time.Hour

// Warnings are what works and may not be meant: keys and secrets that everybody
// on the machine can read, certificates that have ended or soon do, an admin
// listener that others can reach, a client of S3 that can do without the proxy.
func (c *Config) Warnings(now time.Time) []*Problem {
	w := warner{config: c, now: now}
	if host, _, err := net.SplitHostPort(c.Admin.Listen); err == nil && !isLoopback(host) {
		what := "metrics"
		if c.Admin.PProf {
			what = "metrics, and by pprof the program's memory"
		}
		w.warn("admin.listen", "whoever can reach %s sees the %s: there is no password", c.Admin.Listen, what)
	}
	if len(c.plain) > 0 {
		w.file(c.plain[0], c.file)
	}
	for i, p := range c.Postgres {
		path := index("postgres", i)
		if p.TLS != nil {
			w.file(path+".tls.key", p.TLS.Key)
		}
		w.file(path+".upstream.tls.key", p.Upstream.TLS.Key)
		if clients, upstream, err := c.LoadTLS(i); err == nil { // else it is a mistake
			w.certificate(path+".tls.cert", clients)
			w.certificate(path+".upstream.tls.cert", upstream)
		}
	}
	for i, s := range c.S3 {
		path := index("s3", i)
		if s.TLS != nil {
			w.file(path+".tls.key", s.TLS.Key)
		}
		if clients, _, err := c.LoadS3TLS(i); err == nil {
			w.certificate(path+".tls.cert", clients)
		}
		for j, client := range s.Clients {
			if client.SecretKey == s.Upstream.SecretKey {
				w.warn(index(path+".clients", j)+".secret_key", "is that of upstream: this client can write to the store itself, past the fence")
			}
		}
	}
	return w.warnings
}

// warner collects warnings.
type warner struct {
	config   *Config
	now      time.Time
	warnings []*Problem
}

func (w *warner) warn(key, format string, args ...any) {
	w.warnings = append(w.warnings, w.config.Problem(key, format, args...))
}

// file warns of a file with a secret in it that is everybody's.
func (w *warner) file(key, path string) {
	if path == "" {
		return
	}
	if info, err := os.Stat(path); err == nil && info.Mode()&0o007 != 0 {
		w.warn(key, "everybody on this machine has access to %s (%v): chmod o= takes it away", path, info.Mode().Perm())
	}
}

func (w *warner) certificate(key string, config *tls.Config) {
	if text := ending(config, w.now); text != "" {
		w.warn(key, "%s", text)
	}
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
