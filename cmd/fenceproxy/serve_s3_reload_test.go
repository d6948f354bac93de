package main

import (
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// Requests outlive a reload; those that come then get what is new.
func testServeS3Reload(_ *testing.T, s *shop) {
	p := s.serve(oneShop)
	addr := p.addr("127.0.0.1:0")
	busy := begin(s, p, addr, "k")
	s.reload(p, strings.Replace(oneShop, "[{access_key: app,", "[{access_key: other,", 1)+"    header_timeout: 3s\n")
	p.await("this takes effect at the next start", "s3[0].header_timeout")
	s.refuses(s.customer(addr, 34).put("l", "one"), "InvalidAccessKeyId")
	s.stores(s.customerOf(addr, "other", "s3cret-of-the-app", 34, nil).put("l", "two"))
	s.stores(busy.end())
	s.reload(p, oneShop+"    resources: [{prefix: BUCKET/, resource: stock}]\n    header_timeout: 3s\n")
	s.refuses(s.customer(addr, 34).put("l", "three"), "FenceTokenMissing")
	p.signal(syscall.SIGTERM)
	p.ends(0, "stopped")
}

// A mistake is logged with its place and without secrets, and everything stays
// as it was.
func testServeS3ReloadMistakes(t *testing.T, s *shop) {
	p := s.serve(oneShop)
	addr := p.addr("127.0.0.1:0")
	for _, c := range []struct{ text, says string }{
		{strings.Replace(oneShop, "s3cret-of-the-app", "s3cret", 1), ":6:45: s3[0].clients[0].secret_key: has less than 16 bytes"},
		{strings.Replace(oneShop, "http://STORE", "s3cret", 1), ":5:26: s3[0].upstream.endpoint: is not the URL of a store"},
		{oneShop + "    tls: {cert: 'DIR/no', key: 'DIR/no'}\n", ":7:17: s3[0].tls.cert: open " + s.dir + "/no: no such file"},
		{oneShop + "  - {listen: STORE, upstream: {endpoint: 'http://h', access_key: a, secret_key: s3cret}, clients: [{access_key: app, secret_key: s3cret-of-the-app, buckets: ['*']}]}\n", "s3[1].listen: cannot listen on " + s.server.Endpoint()},
	} {
		s.file(jsonLog + c.text)
		p.signal(syscall.SIGHUP)
		p.await("not reloaded, nothing was changed", c.says)
	}
	s.stores(s.customer(addr, 34).put("k", "one"))
	if strings.Contains(p.log(), "s3cret") {
		t.Error("the log has a secret in it")
	}
}

// Listeners come and go, beside those for Postgres; one that goes lets its
// requests end.
func testServeS3ReloadListeners(t *testing.T, s *shop) {
	database := newStand(t, s.program)
	withPostgres := oneShop + "postgres: [{listen: '[::1]:0', untokened: allow, upstream: {address: '" + database.server.Addr() + "'}}]\n"
	p := s.serve(withPostgres)
	addr, other := p.addr("127.0.0.1:0"), p.addr("[::1]:0")
	s.stores(s.customer(addr, 34).put("k", "one"))
	database.exec(database.connect(database.via(other, 34)), "INSERT INTO orders VALUES (1)")
	busy := begin(s, p, addr, "l")

	_, without, _ := strings.Cut(withPostgres, "postgres:")
	s.reload(p, "admin: {listen: ':0'}\npostgres:"+without)
	p.await("no longer listening", "127.0.0.1:0")
	until(t, "nobody else gets in", func() bool {
		_, err := net.Dial("tcp", addr)
		return err != nil
	})
	database.exec(database.connect(database.via(other, 34)), "INSERT INTO orders VALUES (2)")
	s.stores(busy.end())
	p.await("drained", "127.0.0.1:0")

	s.reload(p, withPostgres)
	s.holds(p.address("127.0.0.1:0"), "one")
	if _, text := p.get("/metrics"); !strings.Contains(text, `operation="PutObject"} 2`) {
		t.Error("what was counted is gone")
	}
	p.signal(syscall.SIGTERM)
	p.ends(0)
}

// Another store behind the same listener: requests that come go there, none is
// refused in between, and those that are under way end where they began.
func testServeS3ReloadUpstream(t *testing.T, s *shop) {
	link := testenv.NewLink(t, s.server.Endpoint(), testenv.LinkConfig{})
	p := s.serve(oneShop)
	addr := p.addr("127.0.0.1:0")
	busy := begin(s, p, addr, "k")
	s.reload(p, strings.Replace(oneShop, "STORE", link.Addr(), 1))
	p.await("no longer listening", `"another_upstream":true`)
	s.stores(s.customer(addr, 34).put("l", "one"))
	link.Refuse(true) // so it is through the link
	if code := s.customer(addr, 34).put("l", "two"); code == "" {
		t.Error("written to the store that was there before")
	}
	s.stores(busy.end())
	p.await(`"msg":"drained"`)
	p.signal(syscall.SIGTERM)
	p.ends(0)
}

// What was for S3 is for Postgres at the same address.
func testServeS3ReloadProtocol(t *testing.T, s *shop) {
	database := newStand(t, s.program)
	p := s.serve(oneShop)
	addr := p.addr("127.0.0.1:0")
	s.stores(s.customer(addr, 34).put("k", "one"))
	s.reload(p, "postgres: [{listen: '127.0.0.1:0', untokened: allow, upstream: {address: '"+database.server.Addr()+"'}}]\n")
	p.await("no longer listening", `"another_upstream":true`)
	conn, err := pgx.Connect(t.Context(), database.via(addr, 0))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close(t.Context())
	p.signal(syscall.SIGTERM)
	p.ends(0)
}

// Certificates are read again; connections stay.
func testServeS3ReloadTLS(t *testing.T, s *shop) {
	writeCertificate(t, s.dir, "first")
	text := oneShop + "    tls: {cert: 'DIR/tls.crt', key: 'DIR/tls.key'}\n"
	p := s.serve(text)
	addr := p.addr("127.0.0.1:0")
	shown := ""
	secure := func() *http.Transport {
		return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error {
			shown = state.PeerCertificates[0].Subject.CommonName
			return nil
		}}}
	}
	kept := secure()
	defer kept.CloseIdleConnections()
	first := s.customerOf(addr, "app", "s3cret-of-the-app", 34, kept)
	s.stores(first.put("k", "one"))
	if shown != "first" {
		t.Errorf("shown %q", shown)
	}
	writeCertificate(t, s.dir, "second")
	s.reload(p, text)
	s.stores(first.put("k", "two"))
	if shown != "first" {
		t.Errorf("the connection did not stay: shown %q", shown)
	}
	fresh := secure()
	defer fresh.CloseIdleConnections()
	s.stores(s.customerOf(addr, "app", "s3cret-of-the-app", 34, fresh).put("k", "three"))
	if shown != "second" {
		t.Errorf("shown %q", shown)
	}
	if code := s.customer(addr, 34).put("k", "four"); code == "" {
		t.Error("written without TLS")
	}
}
