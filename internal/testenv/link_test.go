package testenv_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

const putPath = "/etcdserverpb.KV/Put"

func TestLinkCountsCalls(t *testing.T) {
	t.Parallel()
	link := testenv.NewLink(t, testenv.Etcd(t).Endpoints()[0], testenv.LinkConfig{Protocol: testenv.HTTP2})
	client := etcdClient(t, clientv3.Config{Endpoints: []string{link.Addr()}})
	for range 3 { // later ones come from the table of headers
		if _, err := client.Put(t.Context(), t.Name(), "v"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Get(t.Context(), t.Name()); err != nil {
		t.Fatal(err)
	}
	want := []string{putPath, putPath, putPath, "/etcdserverpb.KV/Range"}
	if diff := cmp.Diff(want, link.Paths()); diff != "" || link.Requests() != 4 {
		t.Errorf("%d requests, paths -want +got:\n%s", link.Requests(), diff)
	}
}

func TestLinkDropsTheReplyOfACall(t *testing.T) {
	t.Parallel()
	e := testenv.Etcd(t)
	link := testenv.NewLink(t, e.Endpoints()[0], testenv.LinkConfig{Protocol: testenv.HTTP2})
	through := etcdClient(t, clientv3.Config{Endpoints: []string{link.Addr()}})
	direct := etcdClient(t, clientv3.Config{Endpoints: e.Endpoints()})
	// A stream on the same connection, with frames in between.
	watch := through.Watch(t.Context(), t.Name(), clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	<-watch
	link.DropReplyTo(func(path string) bool { return path == putPath }, 2)
	if _, err := through.Put(t.Context(), t.Name()+"/1", "v"); err != nil {
		t.Fatalf("first put: %v", err)
	}
	if _, err := through.Get(t.Context(), t.Name()); err != nil {
		t.Fatalf("get: %v", err)
	}
	if res, err := through.Put(t.Context(), t.Name()+"/2", "v"); err == nil {
		t.Fatalf("second put got its reply: %v", res)
	}
	got, err := direct.Get(t.Context(), t.Name()+"/2")
	if err != nil || len(got.Kvs) != 1 {
		t.Errorf("second put did not reach the server: %v, %v", got, err)
	}
	if _, err := through.Put(t.Context(), t.Name()+"/3", "v"); err != nil {
		t.Errorf("after the cut: %v", err)
	}
}

func TestLinkDropsTheReplyOfAStatement(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		url := s.Database(t)
		direct := connect(t, url)
		exec(t, direct, "create table t (n int)")
		link := testenv.NewLink(t, s.Addr(), testenv.LinkConfig{Protocol: testenv.PostgresWire})
		// sslmode=prefer begins with an SSLRequest.
		via := strings.Replace(testenv.URLVia(url, link.Addr()), "sslmode=disable", "sslmode=prefer", 1)

		conn := connect(t, via)
		if n := link.Requests(); n != 0 {
			t.Errorf("%d requests by connecting", n)
		}
		exec(t, conn, "insert into t values (1)")
		if n := link.Requests(); n != 1 {
			t.Errorf("%d requests by a simple query", n)
		}
		batch := &pgx.Batch{}
		batch.Queue("insert into t values (2)")
		batch.Queue("insert into t select g from generate_series(3, 1000) g")
		if err := conn.SendBatch(t.Context(), batch).Close(); err != nil {
			t.Fatalf("batch: %v", err)
		}
		before := link.Requests()
		link.DropReply(2)
		exec(t, conn, "select 1")
		if _, err := conn.Exec(t.Context(), "insert into t select g from generate_series(1001, 1010) g"); err == nil {
			t.Error("the statement got its reply")
		}
		if !conn.IsClosed() {
			t.Error("the connection was not cut")
		}
		if n := link.Requests() - before; n != 2 {
			t.Errorf("%d requests by two statements", n)
		}
		if got := query[int64](t, direct, "select count(*) from t"); got != 1010 {
			t.Errorf("%d rows", got)
		}
		exec(t, connect(t, via), "select 1")
	})
}

func TestLinkDropsTheReplyOfACopy(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	url := s.Database(t)
	direct := connect(t, url)
	exec(t, direct, "create table t (n int)")
	link := testenv.NewLink(t, s.Addr(), testenv.LinkConfig{Protocol: testenv.PostgresWire})
	conn := connect(t, testenv.URLVia(url, link.Addr()))
	link.DropReply(1)
	if _, err := conn.PgConn().CopyFrom(t.Context(), strings.NewReader("1\n2\n"), "copy t from stdin"); err == nil {
		t.Error("COPY got its reply")
	}
	if got := query[int64](t, direct, "select count(*) from t"); got != 2 {
		t.Errorf("%d rows", got)
	}
}

// echo is a server that sends back each line.
func echo(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				io.Copy(conn, conn)
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return ln.Addr().String()
}

type lineConn struct {
	net.Conn
	r *bufio.Reader
}

func dialLines(t *testing.T, addr string) lineConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return lineConn{conn, bufio.NewReader(conn)}
}

func (c lineConn) say(line string, limit time.Duration) (string, error) {
	if line != "" {
		if _, err := io.WriteString(c, line+"\n"); err != nil {
			return "", err
		}
	}
	c.SetReadDeadline(time.Now().Add(limit))
	answer, err := c.r.ReadString('\n')
	return strings.TrimSuffix(answer, "\n"), err
}

const long = 20 * time.Second

func TestLinkFreezes(t *testing.T) {
	t.Parallel()
	link := testenv.NewLink(t, echo(t), testenv.LinkConfig{})
	conn := dialLines(t, link.Addr())
	link.Freeze()
	var timeout net.Error
	if answer, err := conn.say("one", 200*time.Millisecond); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("frozen: %q, %v", answer, err)
	}
	fresh := dialLines(t, link.Addr())
	if answer, err := fresh.say("two", 200*time.Millisecond); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("frozen, new connection: %q, %v", answer, err)
	}
	link.Thaw()
	for want, c := range map[string]lineConn{"one": conn, "two": fresh} {
		if answer, err := c.say("", long); answer != want {
			t.Errorf("thawed: %q, %v, want %q", answer, err, want)
		}
	}
}

func TestLinkDelays(t *testing.T) {
	t.Parallel()
	link := testenv.NewLink(t, echo(t), testenv.LinkConfig{})
	conn := dialLines(t, link.Addr())
	const delay = 50 * time.Millisecond
	link.Delay(delay)
	start := time.Now()
	for _, line := range []string{"one", "two", "three"} {
		if answer, err := conn.say(line, long); answer != line {
			t.Fatalf("%q, %v", answer, err)
		}
	}
	if d := time.Since(start); d < 3*2*delay {
		t.Errorf("three round trips took %v", d)
	}
}

func TestLinkCutsAndRefuses(t *testing.T) {
	t.Parallel()
	link := testenv.NewLink(t, echo(t), testenv.LinkConfig{})
	conn := dialLines(t, link.Addr())
	if answer, err := conn.say("one", long); answer != "one" {
		t.Fatalf("%q, %v", answer, err)
	}
	link.Freeze() // a frozen link can be cut as well
	link.Cut()
	link.Thaw()
	if answer, err := conn.say("two", long); err == nil {
		t.Errorf("cut: %q", answer)
	}
	conn = dialLines(t, link.Addr())
	if answer, err := conn.say("three", long); answer != "three" {
		t.Errorf("new connection: %q, %v", answer, err)
	}
	lingers := dialLines(t, link.Addr())
	if answer, err := lingers.say("three", long); answer != "three" {
		t.Errorf("another connection: %q, %v", answer, err)
	}
	link.Refuse(true)
	_, _ = io.Copy(io.Discard, lingers.Conn) // its end, which the link was the first to say
	lingers.Close()
	if answer, err := conn.say("four", long); err == nil {
		t.Errorf("refused: %q", answer)
	}
	if conn, err := net.Dial("tcp", link.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("refused: %v, %v", conn, err)
	}
	if other, err := net.Listen("tcp", link.Addr()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("somebody else has the port of a link that refuses: %v, %v", other, err)
	}
	link.Refuse(false)
	if answer, err := dialLines(t, link.Addr()).say("five", long); answer != "five" {
		t.Errorf("accepted again: %q, %v", answer, err)
	}
}

func TestLinkDropsTheReplyOfBytes(t *testing.T) {
	t.Parallel()
	link := testenv.NewLink(t, echo(t), testenv.LinkConfig{})
	conn := dialLines(t, link.Addr())
	link.DropReply(2)
	if answer, err := conn.say("one", long); answer != "one" {
		t.Fatalf("%q, %v", answer, err)
	}
	if answer, err := conn.say("two", long); err == nil {
		t.Errorf("second answer: %q", answer)
	}
	if n := link.Requests(); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// What the link cannot read must not pass as if it were counted.
func TestLinkEndsWithItsServer(t *testing.T) {
	t.Parallel()
	s := testenv.StartPostgres(t, testenv.PostgresConfig{})
	link := testenv.NewLink(t, s.Addr(), testenv.LinkConfig{Protocol: testenv.PostgresWire})
	conn := connect(t, testenv.URLVia(s.Database(t), link.Addr()))
	s.Kill(t)
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	if _, err := conn.Exec(ctx, "select 1"); err == nil || ctx.Err() != nil {
		t.Errorf("after the server's end: %v", err)
	}
}

// While one reply is to be lost, others on the same connection arrive.
func TestLinkDropsNoOtherReply(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/fast", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/slow", func(http.ResponseWriter, *http.Request) { close(arrived); <-release })
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)

	link := testenv.NewLink(t, server.Listener.Addr().String(), testenv.LinkConfig{Protocol: testenv.HTTP2})
	transport := &http.Transport{Protocols: server.Config.Protocols}
	t.Cleanup(transport.CloseIdleConnections)
	get := func(path string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+link.Addr()+path, http.NoBody)
		if err != nil {
			return err
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		return res.Body.Close()
	}
	link.DropReply(1)
	slow := make(chan error)
	go func() { slow <- get("/slow") }()
	<-arrived
	if err := get("/fast"); err != nil {
		t.Errorf("another call: %v", err)
	}
	close(release)
	if err := <-slow; err == nil {
		t.Error("the call got its reply")
	}
	if diff := cmp.Diff([]string{"/slow", "/fast"}, link.Paths()); diff != "" {
		t.Error(diff)
	}
}

func TestLinkTearsAMessage(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	link := testenv.NewLink(t, server.Addr().String(), testenv.LinkConfig{})
	client, err := net.Dial("tcp", link.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	peer, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	got := make([]byte, 4)
	link.Tear(2)
	for _, message := range []string{"one.", "two."} {
		if _, err := io.WriteString(client, message); err != nil {
			t.Fatal(err)
		}
		n, err := io.ReadFull(peer, got)
		if whole := message == "one."; (err == nil) != whole || n == 4 != whole {
			t.Errorf("%d bytes of %q arrive, %v", n, message, err)
		}
	}
	if _, err := client.Read(got); err == nil {
		t.Error("the client's connection goes on")
	}
}
