package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// s3site is a bucket, and processes of fenceproxy in front of it.
type s3site struct {
	t       *testing.T
	program string
	server  *testenv.S3Server
	link    *testenv.S3Link // a second way to the server
	bucket  string
}

// eachS3Site runs tests of the built program, each on a bucket of its own.
func eachS3Site(t *testing.T, tests map[string]func(*testing.T, *s3site)) {
	t.Helper()
	program := buildFenceproxy(t) + "/fenceproxy"
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.S3(t)
			test(t, &s3site{t, program, server, server.Link(t), server.Bucket(t)})
		})
	}
}

// s3proxy is fenceproxy serve on ports that stay its own when it is killed.
type s3proxy struct {
	*localserver.Process

	site  *s3site
	addr  string // of the listener
	admin string
	dir   string // with its configuration and its log
}

// proxy starts a process in front of the server at an address. More is added to
// its configuration: lines of the listener.
func (s *s3site) proxy(upstream, more string) *s3proxy {
	s.t.Helper()
	p := &s3proxy{site: s, dir: s.t.TempDir()}
	err := localserver.OnFreePorts(2, func(ports []int) error {
		p.addr, p.admin = localserver.Loopback(ports[0]), localserver.Loopback(ports[1])
		p.write(upstream, more)
		return p.start()
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		p.End(0)
		if s.t.Failed() {
			s.t.Log(p.log())
		}
	})
	return p
}

// two starts two processes straight in front of the server.
func (s *s3site) two() []*s3proxy {
	s.t.Helper()
	return []*s3proxy{s.proxy(s.server.Endpoint(), ""), s.proxy(s.server.Endpoint(), "")}
}

func (p *s3proxy) write(upstream, more string) {
	s := p.site
	s.t.Helper()
	text := fmt.Sprintf(`admin: {listen: '%s'}
log: {format: json, level: debug}
shutdown_timeout: 2m
s3:
  - listen: '%s'
    upstream: {endpoint: 'http://%s', region: %s, access_key: %s, secret_key: %s}
    clients: [{access_key: app, secret_key: s3cret-of-the-app, buckets: [%s]}]
%s
`, p.admin, p.addr, upstream, s.server.Region, s.server.AccessKey, s.server.SecretKey, s.bucket, more)
	if err := os.WriteFile(filepath.Join(p.dir, "fenceproxy.yaml"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// start starts the process, again on the same ports if it was there before.
func (p *s3proxy) start() error {
	cmd := exec.CommandContext(context.WithoutCancel(p.site.t.Context()), p.site.program, "serve", "--config", filepath.Join(p.dir, "fenceproxy.yaml"))
	var err error
	if p.Process, err = localserver.StartLogged(cmd, filepath.Join(p.dir, "log"), syscall.SIGKILL); err != nil {
		return err
	}
	err = p.AwaitReady(p.site.t.Context(), time.Minute, func(ctx context.Context) error {
		_, err := ask(ctx, p.admin, "/readyz")
		return err
	})
	if err != nil {
		p.End(0)
		// As OnFreePorts knows it.
		return fmt.Errorf("%w\n%s", err, strings.ReplaceAll(p.log(), "another program listens there", "address already in use"))
	}
	return nil
}

func (p *s3proxy) restart() {
	p.site.t.Helper()
	if err := p.start(); err != nil {
		p.site.t.Fatal(err)
	}
}

func (p *s3proxy) log() string {
	text, _ := os.ReadFile(filepath.Join(p.dir, "log"))
	return string(text)
}

func (p *s3proxy) signal(sig syscall.Signal) {
	p.site.t.Helper()
	if err := p.Signal(sig); err != nil {
		p.site.t.Fatal(err)
	}
}

// metrics are those of the process.
func (p *s3proxy) metrics() string {
	p.site.t.Helper()
	text, err := ask(p.site.t.Context(), p.admin, "/metrics")
	if err != nil {
		p.site.t.Fatal(err)
	}
	return text
}

// ask asks the admin listener.
func ask(ctx context.Context, admin, path string) (string, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+path, nil)
	if err != nil {
		return "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, res.Status, text)
	}
	return string(text), err
}

// store is the bucket as Go programs see it, past the proxies.
func (s *s3site) store() *s3store.Store {
	s.t.Helper()
	store, err := s3store.New(s.server.Client(s.t), s3store.Config{Bucket: s.bucket, ReadWithoutToken: true})
	if err != nil {
		s.t.Fatal(err)
	}
	return store
}

// stored is what a key holds, "" if there is no object.
func (s *s3site) stored(store *s3store.Store, key string) string {
	s.t.Helper()
	object, err := store.Get(s.t.Context(), guard.Token{}, key, s3store.GetOptions{})
	if errors.Is(err, s3store.ErrNotFound) {
		return ""
	}
	if err != nil {
		s.t.Fatal(err)
	}
	defer object.Close()
	return string(must(io.ReadAll(object))(s.t))
}

func (s *s3site) holds(key, want string) {
	s.t.Helper()
	if got := s.stored(s.store(), key); got != want {
		s.t.Errorf("%s holds %d bytes %.80q, want %d bytes %.80q", key, len(got), got, len(want), want)
	}
}

// eventually polls until done.
func (s *s3site) eventually(what string, done func() bool) {
	s.t.Helper()
	deadline := time.After(time.Minute)
	for tick := time.NewTicker(10 * time.Millisecond); !done(); {
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("not within a minute: %s", what)
		}
	}
}

// nobodyEnters waits until an address takes no connections any more.
func (s *s3site) nobodyEnters(addr string) {
	s.t.Helper()
	s.eventually("nobody gets in", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

// atOnce runs n functions at the same time.
func atOnce(n int, f func(i int)) {
	var all sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-gate
			f(i)
		})
	}
	close(gate)
	all.Wait()
}
