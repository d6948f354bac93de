package pgproxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key := newKey(t)
	cert, raw := sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}, nil, key, key)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{cert: cert, key: key, pool: pool, pem: raw}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign has parent's key sign cert; without a parent it is its own.
func sign(t *testing.T, cert, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (*x509.Certificate, []byte) {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	cert.SerialNumber, cert.NotBefore, cert.NotAfter = serial, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if parent == nil {
		parent = cert
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return parsed, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// identity is a certificate with its key, also as PEM.
type identity struct {
	tls.Certificate

	certPEM, keyPEM []byte
}

// issue makes a certificate for name, a client's common name or a server's host.
func (a *authority) issue(t *testing.T, name string) *identity {
	t.Helper()
	key := newKey(t)
	cert := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		cert.IPAddresses = []net.IP{ip}
	} else {
		cert.DNSNames = []string{name}
	}
	_, certPEM := sign(t, cert, a.cert, key, a.key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return &identity{Certificate: pair, certPEM: certPEM, keyPEM: keyPEM}
}

// files writes the identity and returns the parameters with which libpq and pgx
// show it.
func (i *identity) files(t *testing.T) []string {
	t.Helper()
	return []string{"sslcert", writeFile(t, "client.crt", i.certPEM), "sslkey", writeFile(t, "client.key", i.keyPEM)}
}

func (a *authority) file(t *testing.T) string {
	t.Helper()
	return writeFile(t, "ca.crt", a.pem)
}

func writeFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// clientTLS is TLS with the identity.
func clientTLS(i *identity) *TLS {
	return &TLS{Config: &tls.Config{Certificates: []tls.Certificate{i.Certificate}, MinVersion: tls.VersionTLS12}}
}

// secureServer is a server with TLS and a user for each way to authenticate.
type secureServer struct {
	*testenv.PostgresServer

	authority *authority
	identity  *identity // made out to 127.0.0.1
	database  string    // URL as the superuser
}

const (
	rightPassword = "right horse" // of every user
	hba           = `
local   all all     trust
hostssl all by_cert all cert
host    all by_md5  all md5
host    all by_text all password
host    all by_trust all trust
host    all by_none all reject
hostnossl all by_tls all reject
host    all all     all scram-sha-256
`
)

var methods = []string{"by_scram", "by_md5", "by_text", "by_trust", "by_cert", "by_none", "by_tls"}

func startSecure(t *testing.T, major int) *secureServer {
	t.Helper()
	s := &secureServer{
		PostgresServer: testenv.StartPostgres(t, testenv.PostgresConfig{Major: major}),
		authority:      newAuthority(t),
	}
	s.identity = s.authority.issue(t, "127.0.0.1")
	s.database = s.Database(t)
	for _, user := range methods {
		s.exec(t, "create role "+user+" login")
		encryption := "scram-sha-256"
		if user == "by_md5" {
			encryption = "md5"
		}
		s.exec(t, "set password_encryption = '"+encryption+"'; alter role "+user+" password '"+rightPassword+"'")
	}
	s.put(t, "ca.crt", s.authority.pem)
	s.put(t, "server.crt", s.identity.certPEM)
	s.put(t, "server.key", s.identity.keyPEM)
	s.put(t, "pg_hba.conf", []byte(hba))
	s.exec(t, "alter system set ssl = on")
	s.exec(t, "alter system set ssl_ca_file = 'ca.crt'")
	s.exec(t, "select pg_reload_conf()")
	s.awaitTLS(t)
	return s
}

func (s *secureServer) exec(t *testing.T, sql string) {
	t.Helper()
	if err := withConn(t, s.database, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.PgConn().Exec(ctx, sql).ReadAll()
		return err
	}); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// put writes a file into the server's data folder, as the server.
func (s *secureServer) put(t *testing.T, name string, content []byte) {
	t.Helper()
	s.exec(t, fmt.Sprintf("copy (select unnest(string_to_array('%s', e'\\n'))) to program 'umask 077; cat > %s'", content, name))
}

// awaitTLS waits until the server has read its configuration again.
func (s *secureServer) awaitTLS(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(testLimit)
	for {
		_, err := ask(t, s.as(t, "by_tls", rightPassword, "sslmode", "require"), "select 'x'")
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no TLS: %v", err)
		}
	}
}

// as is the server's database for a user, without the proxy.
func (s *secureServer) as(t *testing.T, user, password string, params ...string) string {
	t.Helper()
	return withParams(t, testenv.URLAs(s.database, user, password), params...)
}

func withConn(t *testing.T, databaseURL string, f func(context.Context, *pgx.Conn) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return f(ctx, conn)
}

// eachSecure runs f with a server of its own of each version.
func eachSecure(t *testing.T, f func(t *testing.T, s *secureServer)) {
	t.Helper()
	testenv.EachPostgres(t, func(t *testing.T, shared *testenv.PostgresServer) {
		t.Parallel()
		f(t, startSecure(t, shared.Major()))
	})
}
