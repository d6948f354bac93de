package serve

import (
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// Requests outlive a reload; those that come then get what is new.
func testServeS3Reload(_ *testing.T, s *clitest.Shop) {
	p := s.Serve(clitest.OneShop)
	addr := p.Addr("127.0.0.1:0")
	busy := begin(s, p, addr, "k")
	s.Reload(p, strings.Replace(clitest.OneShop, "[{access_key: app,", "[{access_key: other,", 1)+"    header_timeout: 3s\n")
	p.Await("this takes effect at the next start", "s3[0].header_timeout")
	s.Refuses(s.Customer(addr, 34).Put("l", "one"), "InvalidAccessKeyId")
	s.Stores(s.CustomerOf(addr, "other", "s3cret-of-the-app", 34, nil).Put("l", "two"))
	s.Stores(busy.end())
	s.Reload(p, clitest.OneShop+"    resources: [{prefix: BUCKET/, resource: stock}]\n    header_timeout: 3s\n")
	s.Refuses(s.Customer(addr, 34).Put("l", "three"), "FenceTokenMissing")
	p.Signal(syscall.SIGTERM)
	p.Ends(0, "stopped")
}

// A mistake is logged with its place and without secrets, and everything stays
// as it was.
func testServeS3ReloadMistakes(t *testing.T, s *clitest.Shop) {
	p := s.Serve(clitest.OneShop)
	addr := p.Addr("127.0.0.1:0")
	for _, c := range []struct{ text, says string }{
		{strings.Replace(clitest.OneShop, "s3cret-of-the-app", "s3cret", 1), ":6:45: s3[0].clients[0].secret_key: has less than 16 bytes"},
		{strings.Replace(clitest.OneShop, "http://STORE", "s3cret", 1), ":5:26: s3[0].upstream.endpoint: is not the URL of a store"},
		{clitest.OneShop + "    tls: {cert: 'DIR/no', key: 'DIR/no'}\n", ":7:17: s3[0].tls.cert: open " + s.Dir + "/no: no such file"},
		{clitest.OneShop + "  - {listen: STORE, upstream: {endpoint: 'http://h', access_key: a, secret_key: s3cret}, clients: [{access_key: app, secret_key: s3cret-of-the-app, buckets: ['*']}]}\n", "s3[1].listen: cannot listen on " + s.Server.Endpoint()},
	} {
		s.File(clitest.JSONLog + c.text)
		p.Mistaken(c.says)
	}
	s.Stores(s.Customer(addr, 34).Put("k", "one"))
	if strings.Contains(p.Log(), "s3cret") {
		t.Error("the log has a secret in it")
	}
}

// Listeners come and go, beside those for Postgres; one that goes lets its
// requests end.
func testServeS3ReloadListeners(t *testing.T, s *clitest.Shop) {
	database := newStand(t, s.Program)
	withPostgres := clitest.OneShop + "postgres: [{listen: '[::1]:0', untokened: allow, upstream: {address: '" + database.server.Addr() + "'}}]\n"
	p := s.Serve(withPostgres)
	addr, other := p.Addr("127.0.0.1:0"), p.Addr("[::1]:0")
	s.Stores(s.Customer(addr, 34).Put("k", "one"))
	database.exec(database.connect(database.via(other, 34)), "INSERT INTO orders VALUES (1)")
	busy := begin(s, p, addr, "l")

	_, without, _ := strings.Cut(withPostgres, "postgres:")
	s.Reload(p, "admin: {listen: ':0'}\npostgres:"+without)
	p.Await("no longer listening", "127.0.0.1:0")
	clitest.Until(t, "nobody else gets in", func() bool {
		_, err := net.Dial("tcp", addr)
		return err != nil
	})
	database.exec(database.connect(database.via(other, 34)), "INSERT INTO orders VALUES (2)")
	s.Stores(busy.end())
	p.Await("drained", "127.0.0.1:0")

	s.Reload(p, withPostgres)
	s.Holds(p.Address("127.0.0.1:0"), "one")
	if _, text := p.Get("/metrics"); !strings.Contains(text, `operation="PutObject"} 2`) {
		t.Error("what was counted is gone")
	}
	p.Signal(syscall.SIGTERM)
	p.Ends(0)
}

// Another store behind the same listener: requests that come go there, none is
// refused in between, and those that are under way end where they began.
func testServeS3ReloadUpstream(t *testing.T, s *clitest.Shop) {
	link := testenv.NewLink(t, s.Server.Endpoint(), testenv.LinkConfig{})
	p := s.Serve(clitest.OneShop)
	addr := p.Addr("127.0.0.1:0")
	busy := begin(s, p, addr, "k")
	s.Reload(p, strings.Replace(clitest.OneShop, "STORE", link.Addr(), 1))
	p.Await("no longer listening", `"another_upstream":true`)
	s.Stores(s.Customer(addr, 34).Put("l", "one"))
	link.Refuse(true) // so it is through the link
	if code := s.Customer(addr, 34).Put("l", "two"); code == "" {
		t.Error("written to the store that was there before")
	}
	s.Stores(busy.end())
	p.Await(`"msg":"drained"`)
	p.Signal(syscall.SIGTERM)
	p.Ends(0)
}

// What was for S3 is for Postgres at the same address.
func testServeS3ReloadProtocol(t *testing.T, s *clitest.Shop) {
	database := newStand(t, s.Program)
	p := s.Serve(clitest.OneShop)
	addr := p.Addr("127.0.0.1:0")
	s.Stores(s.Customer(addr, 34).Put("k", "one"))
	s.Reload(p, "postgres: [{listen: '127.0.0.1:0', untokened: allow, upstream: {address: '"+database.server.Addr()+"'}}]\n")
	p.Await("no longer listening", `"another_upstream":true`)
	conn, err := pgx.Connect(t.Context(), database.via(addr, 0))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close(t.Context())
	p.Signal(syscall.SIGTERM)
	p.Ends(0)
}

// Certificates are read again; connections stay.
func testServeS3ReloadTLS(t *testing.T, s *clitest.Shop) {
	writeCertificate(t, s.Dir, "first")
	text := clitest.OneShop + "    tls: {cert: 'DIR/tls.crt', key: 'DIR/tls.key'}\n"
	p := s.Serve(text)
	addr := p.Addr("127.0.0.1:0")
	shown := ""
	secure := func() *http.Transport {
		return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error {
			shown = state.PeerCertificates[0].Subject.CommonName
			return nil
		}}}
	}
	kept := secure()
	defer kept.CloseIdleConnections()
	first := s.CustomerOf(addr, "app", "s3cret-of-the-app", 34, kept)
	s.Stores(first.Put("k", "one"))
	if shown != "first" {
		t.Errorf("shown %q", shown)
	}
	writeCertificate(t, s.Dir, "second")
	s.Reload(p, text)
	s.Stores(first.Put("k", "two"))
	if shown != "first" {
		t.Errorf("the connection did not stay: shown %q", shown)
	}
	fresh := secure()
	defer fresh.CloseIdleConnections()
	s.Stores(s.CustomerOf(addr, "app", "s3cret-of-the-app", 34, fresh).Put("k", "three"))
	if shown != "second" {
		t.Errorf("shown %q", shown)
	}
	if code := s.Customer(addr, 34).Put("k", "four"); code == "" {
		t.Error("written without TLS")
	}
}
