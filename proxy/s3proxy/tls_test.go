package s3proxy

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// certificate returns one for 127.0.0.1, and the authorities that signed it.
func certificate(tb testing.TB) (tls.Certificate, *x509.CertPool) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	c := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "proxy"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &c, &c, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// With TLS clients send their bodies with checksums behind them. And a reload
// brings a new certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	c := e.config()
	cert, pool := certificate(t)
	c.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	p := start(t, c)
	client := func(pool *x509.CertPool) minio.Core {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
		t.Cleanup(transport.CloseIdleConnections)
		m, err := minio.New(p.addr, &minio.Options{
			Creds: credentials.NewStaticV4(appKey, appSecret, text(t, token(33))), Secure: true, Region: "us-east-1",
			BucketLookup: minio.BucketLookupPath, Transport: transport, MaxRetries: 1, TrailingHeaders: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		return minio.Core{Client: m}
	}
	first := client(pool)
	body := bytes.Repeat([]byte("x"), 3<<20)
	info, err := first.Client.PutObject(t.Context(), e.bucket, "k", bytes.NewReader(body), int64(len(body)), minio.PutObjectOptions{Checksum: minio.ChecksumCRC32C})
	if err != nil || info.ChecksumCRC32C == "" {
		t.Errorf("put: %+v, %v", info, err)
	}
	expectValue(t, first, e.bucket, "k", string(body))
	other, otherPool := certificate(t)
	c.TLS = &tls.Config{Certificates: []tls.Certificate{other}}
	if err := p.Reload(c); err != nil {
		t.Fatal(err)
	}
	expectValue(t, client(otherPool), e.bucket, "k", string(body))
	if _, err := tryPut(t, client(pool), e.bucket, "k", "v"); err == nil {
		t.Error("the old certificate is still shown")
	}
	plain, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	_, _ = io.WriteString(plain, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if answer, _ := io.ReadAll(plain); bytes.Contains(answer, []byte(" 200 ")) {
		t.Errorf("without TLS: %s", answer)
	}
}
