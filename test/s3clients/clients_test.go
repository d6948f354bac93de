package s3clients_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
)

// timeLimit is how long a client may take; it is far more than any needs.
const timeLimit = 8 * time.Minute

// client is a program that uses a bucket.
type client struct {
	name string
	argv func(t *testing.T) []string
	// variant of another one: what it may not do the other one has tried.
	variant bool
	// slow to start: what another one that is made of the same has shown it is
	// spared.
	slow bool
	// direct is how it gets to the server in any case; "" is as it does to the
	// proxy.
	direct string
	// late: it has a scenario in which it is overtaken at its marker.
	late bool
	// env is more of its environment; through is that on the way through the
	// proxy.
	env, through []string
	// authority is the environment variable that names whom it trusts: it comes
	// by TLS as well, where it treats bodies otherwise.
	authority string
}

// What a client is asked to do: all it can; to be overtaken in the middle; to try
// what it may not; to write one object with the key once.
const (
	everything = ""
	late       = "late"
	mayNot     = "not"
	once       = "once"
)

// marker is what a client says, on a line of its own, when it will go on only
// after it has read a line.
const marker = "claim?"

// outcome is what a client has said, up to the marker and behind it.
type outcome struct {
	before, after string
	marked        bool // it came to its marker
	code          int
	state         string // at the end
}

func (o outcome) String() string {
	text := o.before
	if o.marked {
		text += marker + o.after
	}
	return text + "\nexit code " + strconv.Itoa(o.code) + "\n"
}

// TestClients has each client do the same in several ways.
func TestClients(t *testing.T) {
	t.Parallel()
	for _, c := range programs() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			argv := c.argv(t)
			t.Run("http", func(t *testing.T) {
				t.Parallel()
				c.same(t, argv, false)
			})
			if c.authority != "" {
				t.Run("https", func(t *testing.T) {
					t.Parallel()
					c.same(t, argv, true)
				})
			}
			c.refused(t, argv)
			c.retried(t, argv)
		})
	}
}

// same wants a client with a current token to see what it sees without a proxy
// (I7).
func (c client) same(t *testing.T, argv []string, secure bool) {
	t.Helper()
	want := c.run(t, newWorld(t, direct, secure || c.direct == "https"), argv, everything, nil)
	if want.code != 0 {
		t.Fatalf("it did not come to its end:\n%v", want)
	}
	t.Logf("%v", want)
	t.Run("current", func(t *testing.T) {
		got := c.run(t, newWorld(t, current, secure), argv, everything, nil)
		same(t, "what it says", want.String(), got.String())
		same(t, "what it wrote", want.state, got.state)
	})
}

// refused wants a client that lost its lock refused, and to take that for an
// answer.
func (c client) refused(t *testing.T, argv []string) {
	t.Helper()
	if c.variant {
		return
	}
	if c.late {
		t.Run("overtaken", func(t *testing.T) {
			w, claimed := newWorld(t, overtaken, false), ""
			got := c.run(t, w, argv, late, func() {
				w.claim(t)
				for _, key := range []string{"late/put", "late/delete", "late/multi"} {
					w.put(t, key, "of the newer holder")
				}
				claimed = w.state(t)
			})
			if !got.marked {
				t.Fatalf("it did not come to its marker:\n%v", got)
			}
			same(t, "what it wrote after the claim", claimed, got.state)
			c.golden(t, "overtaken", got.after)
		})
	}
	for _, by := range []way{stale, untokened} {
		if c.slow && by == untokened {
			continue
		}
		t.Run(by.String(), func(t *testing.T) {
			w := newWorld(t, by, false)
			before := w.untouched(t)
			got := c.run(t, w, argv, mayNot, nil)
			same(t, "what is in the bucket", before, w.untouched(t))
			c.golden(t, by.String(), got.String()+"\nRequests:\n"+told(w.tap.all(t)))
		})
	}
}

// retried wants a client to try again what the proxy could not do just now.
func (c client) retried(t *testing.T, argv []string) {
	t.Helper()
	if c.variant {
		return
	}
	t.Run("retried", func(t *testing.T) {
		w := newWorld(t, current, false)
		tried := func() (n int) {
			for _, r := range w.tap.heard() {
				if r.method == http.MethodPut && r.path == "once" {
					n++
				}
			}
			return n
		}
		first := func(r s3link.Request) bool { return r.Op == s3link.PutObject && r.Key == "once" && tried() == 1 }
		for n := 1; n < 100; n++ { // more often than the proxy itself tries
			w.link.Answer(first, n, http.StatusServiceUnavailable, "SlowDown")
		}
		got := c.run(t, w, argv, once, nil)
		if n := tried(); n != 2 || got.code != 0 || !strings.HasPrefix(got.state, `"once" `) {
			t.Errorf("tried %d times:\n%v%s", n, got, got.state)
		}
	})
}

// run runs a program; at its marker it waits for meanwhile.
func (c client) run(t *testing.T, w *world, argv []string, task string, meanwhile func()) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	if task != everything {
		cmd.Args = append(cmd.Args, task)
	}
	cmd.Dir, cmd.Env = t.TempDir(), append(w.env(t, c.authority), c.env...)
	if w.by != direct {
		cmd.Env = append(cmd.Env, c.through...)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	o := outcome{}
	o.before, o.after = listen(out, func() {
		o.marked = true
		if meanwhile != nil {
			meanwhile()
		}
		_, _ = io.WriteString(stdin, "\n")
	})
	_ = stdin.Close()
	if err := cmd.Wait(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) || ctx.Err() != nil {
			t.Fatalf("%s: %v, %v\n%s%s", c.name, err, ctx.Err(), o.before, o.after)
		}
		o.code = exit.ExitCode()
	}
	o.before, o.after, o.state = w.plain(o.before), w.plain(o.after), w.state(t)
	return o
}

// listen reads what a client says, and calls at at its marker.
func listen(out io.Reader, at func()) (before, after string) {
	var all strings.Builder
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if line == marker+"\n" && before == "" {
			before = all.String()
			all.Reset()
			at()
		} else {
			all.WriteString(line)
		}
		if err != nil {
			break
		}
	}
	if before == "" {
		return all.String(), ""
	}
	return before, all.String()
}

// same compares texts, and shows the lines that differ.
func same(t *testing.T, what, want, got string) {
	t.Helper()
	if want == got {
		return
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"want": want, "got": got} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "diff", "-U0", "want", "got")
	cmd.Dir = dir
	diff, _ := cmd.Output() // fails, since they differ
	t.Errorf("%s differs:\n%s", what, diff)
}
