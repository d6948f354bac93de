package serveconfig

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
)

// LoadTLS reads the certificates of listener i for Postgres: what clients are shown, nil if
// they connect without TLS, and what the server is, nil if it is not asked for
// TLS. What is wrong with the files is Problems.
func (c *Config) LoadTLS(i int) (clients, upstream *tls.Config, err error) {
	l := loader{config: c}
	path := index("postgres", i)
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

// LoadS3TLS reads the certificates of listener i for S3: what clients are shown,
// nil if they connect without TLS, and whom the store may be signed by, nil if
// its endpoint is http://. What is wrong with the files is Problems.
func (c *Config) LoadS3TLS(i int) (clients, upstream *tls.Config, err error) {
	l := loader{config: c}
	path, s := index("s3", i), &c.S3[i]
	if t := s.TLS; t != nil {
		clients = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: l.pair(path+".tls", t.Cert, t.Key)}
		if t.ClientCA != "" {
			clients.ClientCAs = l.authorities(path+".tls.client_ca", t.ClientCA)
			clients.ClientAuth = tls.RequireAndVerifyClientCert
		}
	}
	if strings.HasPrefix(s.Upstream.Endpoint, "https://") {
		upstream = &tls.Config{MinVersion: tls.VersionTLS12}
		if s.Upstream.CA != "" {
			upstream.RootCAs = l.authorities(path+".upstream.ca", s.Upstream.CA)
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
