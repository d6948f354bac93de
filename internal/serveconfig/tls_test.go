package serveconfig

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate writes one that is valid for a year from start, and its key.
func certificate(t *testing.T, dir, name string, start time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: start, NotAfter: start.AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, name+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
	write(t, filepath.Join(dir, name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600)
}

func write(t *testing.T, path string, text []byte, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, text, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
}

const secure = `admin: {listen: "DIR:9187", pprof: true}
postgres:
  - listen: 127.0.0.1:6432
    tls: {cert: DIR/a.crt, key: DIR/a.key, client_ca: DIR/ca.crt, required: true}
    upstream:
      address: db:5432
      tls:
        mode: verify-full
        ca: DIR/ca.crt
        cert: DIR/b.crt
        key: DIR/b.key
        server_name: primary
`

func TestLoadTLS(t *testing.T) {
	t.Parallel()
	now, dir := time.Now(), t.TempDir()
	for _, name := range []string{"a", "b", "ca"} {
		certificate(t, dir, name, now.Add(-time.Hour))
	}
	text := strings.ReplaceAll(strings.Replace(secure, "DIR", "", 1), "DIR", dir)
	c := mustParse(t, text)
	clients, upstream, err := c.LoadTLS(0)
	if err != nil {
		t.Fatal(err)
	}
	if clients.Certificates[0].Leaf.Subject.CommonName != "a" || clients.ClientAuth != tls.RequireAndVerifyClientCert || clients.ClientCAs == nil {
		t.Errorf("clients: %+v", clients)
	}
	if upstream.Certificates[0].Leaf.Subject.CommonName != "b" || upstream.RootCAs == nil || upstream.ServerName != "primary" {
		t.Errorf("upstream: %+v", upstream)
	}
	if warnings := c.Warnings(now); len(warnings) > 0 {
		t.Errorf("warnings: %v", warnings)
	}
	if clients, upstream, err := mustParse(t, least).LoadTLS(0); clients != nil || upstream != nil || err != nil {
		t.Errorf("of nothing: %v, %v, %v", clients, upstream, err)
	}

	certificate(t, dir, "a", now.AddDate(-1, 0, 1)) // ends tomorrow
	certificate(t, dir, "b", now.AddDate(-2, 0, 0)) // ended a year ago
	write(t, filepath.Join(dir, "a.key"), mustRead(t, filepath.Join(dir, "a.key")), 0o644)
	c = mustParse(t, strings.Replace(text, `":9187"`, `"0.0.0.0:9187"`, 1))
	wantLines(t, Problems(c.Warnings(now)),
		"f.yaml:1:17: admin.listen: whoever can reach 0.0.0.0:9187 sees the metrics, and by pprof the program's memory",
		"f.yaml:4:", "postgres[0].tls.key: everybody on this machine has access to "+dir+"/a.key (-rw-r--r--): chmod o=",
		"f.yaml:4:17: postgres[0].tls.cert: the certificate ends at ",
		"f.yaml:10:15: postgres[0].upstream.tls.cert: the certificate has ended at ")

	write(t, filepath.Join(dir, "a.key"), mustRead(t, filepath.Join(dir, "b.key")), 0o600)
	write(t, filepath.Join(dir, "ca.crt"), []byte("nothing"), 0o600)
	if err := os.Remove(filepath.Join(dir, "b.key")); err != nil {
		t.Fatal(err)
	}
	_, _, err = c.LoadTLS(0)
	wantLines(t, err,
		"f.yaml:4:17: postgres[0].tls.cert: "+dir+"/a.crt and "+dir+"/a.key: tls: private key does not match public key",
		"postgres[0].tls.client_ca: "+dir+"/ca.crt has no certificate in PEM",
		"f.yaml:9:13: postgres[0].upstream.tls.ca: "+dir+"/ca.crt has no certificate in PEM",
		"f.yaml:11:14: postgres[0].upstream.tls.key: open "+dir+"/b.key: no such file or directory")
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// wantLines wants these texts in err, in this order.
func wantLines(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	rest := err.Error()
	for _, text := range texts {
		_, after, ok := strings.Cut(rest, text)
		if !ok {
			t.Errorf("there is no %q at its place in\n%v", text, err)
			continue
		}
		rest = after
	}
}
