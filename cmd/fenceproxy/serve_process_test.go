package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const jsonLog = "log: {format: json, level: debug}\n"

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

// startServe starts serve with variables beyond this process's.
func startServe(t *testing.T, program string, env []string, args ...string) *proxy {
	t.Helper()
	p := &proxy{t: t, cmd: exec.Command(program, append([]string{"serve"}, args...)...), done: make(chan struct{}), more: make(chan struct{}, 1)}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Env = append(os.Environ(), env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
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
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Log(p.log())
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

// reload has the configuration read again.
func (p *proxy) reload() {
	p.t.Helper()
	p.mu.Lock()
	p.seen = len(p.lines) // what is awaited comes now
	p.mu.Unlock()
	p.signal(syscall.SIGHUP)
	p.await("reloaded")
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
