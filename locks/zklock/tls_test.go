package zklock_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks/internal/locktest"
	"github.com/fenceproxy/fenceproxy/locks/zklock"
)

// newTLS returns the address of a server that takes TLS, and sends what it gets to
// target, and the configuration of its clients.
func newTLS(t *testing.T, target string) (string, *tls.Config) {
	t.Helper()
	// Its certificate is for 127.0.0.1.
	web := httptest.NewTLSServer(nil)
	web.Close()
	client := web.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	client.NextProtos = nil
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			front, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { splice(front, target) })
		}
	})
	return ln.Addr().String(), client
}

func splice(front net.Conn, target string) {
	defer front.Close()
	back, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer back.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(back, front)
		back.Close()
	})
	_, _ = io.Copy(front, back)
	front.Close()
	wg.Wait()
}

// TestTLS: locks and what looks at them reach ZooKeeper by TLS, and trust nobody
// else's certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := newService(t, testenv.ZooKeeper(t))
	addr, client := newTLS(t, s.Addr())
	secure := newLocker(t, zklock.Dial{Servers: []string{addr}, TLS: client}, zklock.Config{TTL: longTTL, Root: s.root})
	lease := locktest.MustAcquire(t, secure.Acquire, "r")
	wait := locktest.Background(locktest.Context(t), t, secure.Acquire, "r")
	s.awaitEntries(t, "r", 2)
	if issuer, err := secure.Issuer(locktest.Context(t)); err != nil || issuer != lease.Token().Issuer {
		t.Errorf("issuer %q, %v", issuer, err)
	}
	locktest.MustRelease(t, lease)
	locktest.MustRelease(t, locktest.WantGrant(t, wait))

	stranger := newLocker(t, zklock.Dial{Servers: []string{addr}, TLS: &tls.Config{}}, zklock.Config{TTL: longTTL, Root: s.root})
	var unknown x509.UnknownAuthorityError
	if _, err := stranger.Acquire(locktest.Context(t), "r"); !errors.As(err, &unknown) {
		t.Errorf("Acquire at a server that nobody vouches for: %v", err)
	}
}
