package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
)

// TestServe runs the built program: what matters is what becomes of sessions
// when signals come.
func TestServe(t *testing.T) {
	t.Parallel()
	program := built(t)
	for name, f := range map[string]func(*testing.T, *stand){
		"fences":            testServeFences,
		"flags":             testServeFlags,
		"sockets":           testServeSockets,
		"port in use":       testServePortInUse,
		"drain":             testServeDrain,
		"drain, cut":        testServeDrainCut,
		"drain, overdue":    testServeDrainOverdue,
		"systemd":           testServeSystemd,
		"reload":            testServeReload,
		"reload, mistakes":  testServeReloadMistakes,
		"reload, listeners": testServeReloadListeners,
		"reload, upstream":  testServeReloadUpstream,
		"reload, TLS":       testServeReloadTLS,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, newStand(t, program))
		})
	}
}

// stand is a database with a fence and a table, and a folder for configurations.
type stand struct {
	t       *testing.T
	program string
	server  *testenv.PostgresServer
	url     string // of the database itself
	dir     string
	env     []string // of the proxy, beyond this process's
}

func newStand(t *testing.T, program string) *stand {
	t.Helper()
	s := &stand{t: t, program: program, server: testenv.Postgres(t)}
	var err error
	if s.dir, err = os.MkdirTemp("", "serve"); err != nil { //nolint:usetesting // a short path, for sockets
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(s.dir) })
	s.url = s.server.Database(t)
	if err := migrations.Up(t.Context(), s.url, migrations.Config{}); err != nil {
		t.Fatal(err)
	}
	s.exec(s.connect(s.url), "CREATE TABLE orders (id int PRIMARY KEY)")
	return s
}

// file writes the configuration; SERVER in it is the server's host:port, DIR
// the folder.
func (s *stand) file(text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, "fenceproxy.yaml")
	text = strings.NewReplacer("SERVER", s.server.Addr(), "DIR", s.dir).Replace(text)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *stand) connect(dsn string) *pgx.Conn {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), dsn)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (s *stand) exec(conn *pgx.Conn, sql string) {
	s.t.Helper()
	if _, err := conn.Exec(s.t.Context(), sql); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

// sqlState is the SQLSTATE of an error, else its text.
func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return fmt.Sprint(err)
}

// orders are how many rows there are.
func (s *stand) orders() (n int) {
	s.t.Helper()
	if err := s.connect(s.url).QueryRow(s.t.Context(), "SELECT count(*) FROM orders").Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// via is the URL of the database at another address, with a token of orders.
func (s *stand) via(addr string, number int) string {
	u := testenv.URLVia(s.url, addr)
	if number > 0 {
		u += "&options=" + strings.ReplaceAll(url.QueryEscape(fmt.Sprintf("-c fence.token=ft1:x:%d:h%d:test:orders", number, number)), "+", "%20")
	}
	return u
}

// proxy is a run of serve.
type proxy struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}

	mu    sync.Mutex
	lines []string // of standard error
	seen  int      // so many of them are of before what is awaited
	more  chan struct{}
}

const jsonLog = "log: {format: json, level: debug}\n"

// serve starts serve with a configuration, and waits until it listens.
func (s *stand) serve(text string) *proxy {
	s.t.Helper()
	p := s.start("--config", s.file(jsonLog+text))
	p.await(`"listening"`)
	return p
}

func (s *stand) start(args ...string) *proxy {
	s.t.Helper()
	p := &proxy{t: s.t, cmd: exec.Command(s.program, append([]string{"serve"}, args...)...), done: make(chan struct{}), more: make(chan struct{}, 1)}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	p.cmd.Env = append(os.Environ(), s.env...)
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, lines.Text())
			p.mu.Unlock()
			select {
			case p.more <- struct{}{}:
			default:
			}
		}
		_ = p.cmd.Wait()
	}()
	s.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if s.t.Failed() {
			s.t.Log(p.log())
		}
	})
	return p
}

func (p *proxy) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// await waits for a line that has all of words.
func (p *proxy) await(words ...string) {
	p.t.Helper()
	p.mu.Lock()
	seen := p.seen
	p.mu.Unlock()
	p.awaitFrom(seen, words)
}

// awaitFrom is await of a line that is not among the first ones; it returns it.
func (p *proxy) awaitFrom(seen int, words []string) string {
	p.t.Helper()
	deadline := time.After(time.Minute)
	for ended := false; ; {
		p.mu.Lock()
		for _, line := range p.lines[seen:] {
			if has(line, words) {
				p.mu.Unlock()
				return line
			}
		}
		p.mu.Unlock()
		select {
		case <-p.more:
		case <-p.done:
			if ended {
				p.t.Fatalf("it ended without a line with %q:\n%s", words, p.log())
			}
			ended = true
		case <-deadline:
			p.t.Fatalf("no line with %q within a minute:\n%s", words, p.log())
		}
	}
}

func has(line string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(line, word) {
			return false
		}
	}
	return true
}

// addr is where the listener listens, by its name in the configuration.
func (p *proxy) addr(listen string) string {
	p.t.Helper()
	var line struct {
		Address string `json:"address"`
		Admin   string `json:"admin"`
	}
	words := []string{`"msg":"listening"`, `"listen":"` + listen + `"`}
	if listen == "admin" {
		words[1] = `"admin":`
	}
	if err := json.Unmarshal([]byte(p.awaitFrom(0, words)), &line); err != nil {
		p.t.Fatal(err)
	}
	return line.Address + line.Admin
}

func (p *proxy) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// ends waits for the end, and wants its exit code and words in the last line.
func (p *proxy) ends(code int, words ...string) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		_ = p.cmd.Process.Signal(syscall.SIGABRT) // it is to say where it hangs
		<-p.done
		p.t.Fatalf("it did not end:\n%s", p.log())
	}
	last := p.log()[strings.LastIndex(p.log(), "\n")+1:]
	if got := p.cmd.ProcessState.ExitCode(); got != code || !has(last, words) {
		p.t.Errorf("exit code %d with %q, want %d with %q", got, last, code, words)
	}
}

// get asks the admin listener.
func (p *proxy) get(path string) (status int, text string) {
	p.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	response, err := client.Get("http://" + p.addr("admin") + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}
