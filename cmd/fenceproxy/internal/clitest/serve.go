package clitest

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

// JSONLog is the part of a configuration that makes a Proxy's log readable here.
const JSONLog = "log: {format: json, level: debug}\n"

// Proxy is a run of serve.
type Proxy struct {
	// Done is closed when it has ended.
	Done chan struct{}

	t   *testing.T
	cmd *exec.Cmd

	mu    sync.Mutex
	lines []string // of standard error
	seen  int      // so many of them are of before what is awaited
	more  chan struct{}
}

// StartServe starts serve with variables beyond this process's.
func StartServe(t *testing.T, program string, env []string, args ...string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, cmd: exec.Command(program, append([]string{"serve"}, args...)...), Done: make(chan struct{}), more: make(chan struct{}, 1)}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Env = append(os.Environ(), env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.Done)
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
		<-p.Done
		if t.Failed() {
			t.Log(p.Log())
		}
	})
	return p
}

// Log is all of it so far.
func (p *Proxy) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// Await waits for a line that has all of words.
func (p *Proxy) Await(words ...string) {
	p.t.Helper()
	p.mu.Lock()
	seen := p.seen
	p.mu.Unlock()
	p.awaitFrom(seen, words)
}

// awaitFrom is Await of a line that is not among the first ones; it returns it.
func (p *Proxy) awaitFrom(seen int, words []string) string {
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
		case <-p.Done:
			if ended {
				p.t.Fatalf("it ended without a line with %q:\n%s", words, p.Log())
			}
			ended = true
		case <-deadline:
			p.t.Fatalf("no line with %q within a minute:\n%s", words, p.Log())
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

// Addr is where the listener listens, by its name in the configuration.
func (p *Proxy) Addr(listen string) string {
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

// Signal sends it a signal.
func (p *Proxy) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// Ends waits for the end, and wants its exit code and words in the last line.
func (p *Proxy) Ends(code int, words ...string) {
	p.t.Helper()
	select {
	case <-p.Done:
	case <-time.After(time.Minute):
		_ = p.cmd.Process.Signal(syscall.SIGABRT) // it is to say where it hangs
		<-p.Done
		p.t.Fatalf("it did not end:\n%s", p.Log())
	}
	last := p.Log()[strings.LastIndex(p.Log(), "\n")+1:]
	if got := p.cmd.ProcessState.ExitCode(); got != code || !has(last, words) {
		p.t.Errorf("exit code %d with %q, want %d with %q", got, last, code, words)
	}
}

// Reload has the configuration read again.
func (p *Proxy) Reload() {
	p.t.Helper()
	p.hangUp(`"msg":"reloaded"`)
}

// Mistaken has a configuration read that has a mistake, and wants it told.
func (p *Proxy) Mistaken(words ...string) {
	p.t.Helper()
	p.hangUp(append([]string{`"msg":"not reloaded, nothing was changed"`}, words...)...)
}

// hangUp sends the signal to reload, and waits for what it is answered: what was
// logged before is none, of this call and of those that come.
func (p *Proxy) hangUp(words ...string) {
	p.t.Helper()
	p.mu.Lock()
	p.seen = len(p.lines)
	p.mu.Unlock()
	p.Signal(syscall.SIGHUP)
	p.Await(words...)
}

// Get asks the admin listener.
func (p *Proxy) Get(path string) (status int, text string) {
	p.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+p.Addr("admin")+path, http.NoBody)
	Must(p.t, err)
	response, err := client.Do(request)
	Must(p.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// Address is where a listener listens now.
func (p *Proxy) Address(listen string) string {
	p.t.Helper()
	var line struct {
		Address string `json:"address"`
	}
	p.mu.Lock()
	seen := p.seen
	p.mu.Unlock()
	Must(p.t, json.Unmarshal([]byte(p.awaitFrom(seen, []string{`"msg":"listening"`, `"listen":"` + listen + `"`})), &line))
	return line.Address
}
