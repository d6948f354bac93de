package clients_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// timeLimit is how long a client may take; it is far more than any needs.
const timeLimit = 90 * time.Second

// client is a program that uses a database.
type client struct {
	name string
	argv func(t *testing.T) []string
	// env is more of it.
	env []string
	// fails: its transaction fails anyhow, so that it may never be refused.
	fails bool
	// variant of another one: one version of the server is enough for it.
	variant bool
}

// marker is what a client says, on a line of its own, when it is inside of a
// transaction that it will commit. It goes on when it has read a line.
const marker = "claim?"

// outcome is what a client has said, up to the marker and behind it.
type outcome struct {
	before, after string
	marked        bool // it came to its marker
	code          int
	state         string // at the end
}

func (o outcome) String() string {
	return fmt.Sprintf("%s%s%s\nexit code %d\n", o.before, marker, o.after, o.code)
}

// TestClients has each client do the same in five ways.
func TestClients(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		for _, c := range programs() {
			if c.variant && s.Major() != testenv.Postgres(t).Major() {
				continue
			}
			t.Run(c.name, func(t *testing.T) { c.test(t, s) })
		}
	})
}

// runner is what a client does in a world; at its marker it waits for meanwhile.
type runner func(t *testing.T, w *world, meanwhile func()) outcome

func (c client) test(t *testing.T, s *testenv.PostgresServer) {
	argv := c.argv(t)
	compare(t, s, c.fails, func(t *testing.T, w *world, meanwhile func()) outcome {
		t.Helper()
		return c.run(t, w, argv, meanwhile)
	})
}

// compare runs a client in each way. One that fails anyhow may never be refused.
func compare(t *testing.T, s *testenv.PostgresServer, fails bool, run runner) {
	t.Helper()
	want := run(t, newWorld(t, s, direct), nil)
	if !want.marked {
		t.Fatalf("it did not come to its marker:\n%v", want)
	}
	t.Run("current", func(t *testing.T) {
		got := run(t, newWorld(t, s, current), nil)
		same(t, "what it says", want.String(), got.String())
		same(t, "what it wrote", want.state, got.state)
	})
	t.Run("overtaken", func(t *testing.T) {
		w, claimed := newWorld(t, s, overtaken), ""
		got := run(t, w, func() {
			w.claim(t)
			claimed = w.state(t)
		})
		same(t, "what it says before the claim", want.before, got.before)
		same(t, "what it wrote after the claim", claimed, got.state)
		if !fails {
			refused(t, got.after)
		}
	})
	t.Run("stale", func(t *testing.T) {
		w := newWorld(t, s, stale)
		before := w.state(t)
		got := run(t, w, nil)
		same(t, "what it wrote", before, got.state)
		if !fails {
			refused(t, got.String())
		}
	})
	t.Run("untokened", func(t *testing.T) {
		w := newWorld(t, s, untokened)
		before := w.state(t)
		got := run(t, w, nil)
		same(t, "what it wrote", before, got.state)
		if !strings.Contains(got.String(), "read-only transaction") {
			t.Errorf("nothing was refused:\n%v", got)
		}
	})
}

// refused wants the refusal of a stale token in what a client says. Some tell no
// SQLSTATE.
func refused(t *testing.T, said string) {
	t.Helper()
	if !strings.Contains(said, "TK001") && !strings.Contains(said, "stale token") {
		t.Errorf("it was not refused:\n%s", said)
	}
}

// run is the runner of a program.
func (c client) run(t *testing.T, w *world, argv []string, meanwhile func()) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(w.env(t), c.env...)
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
	o.before, o.after, o.state = w.plain(t, o.before), w.plain(t, o.after), w.state(t)
	return o
}

// listen reads what a client says, and calls at at its marker.
func listen(out io.Reader, at func()) (before, after string) {
	var all strings.Builder
	r := bufio.NewReader(out)
	for {
		b, err := r.ReadByte()
		if err != nil {
			break
		}
		all.WriteByte(b)
		// It may be a prompt, without an end of its line.
		if before == "" && b == '?' && strings.HasSuffix(all.String(), "\n"+marker) {
			before = strings.TrimSuffix(all.String(), marker)
			all.Reset()
			at()
		}
	}
	if before == "" {
		return all.String(), ""
	}
	return before, all.String()
}

// varying is what differs from one run to the next.
var varying = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?m)^\w{3} \w{3} +\d+ [\d:]+ \d{4} \(every`), "(every"},
	{regexp.MustCompile(`PID \d+`), "PID"},
	{regexp.MustCompile(`lo_import \d+`), "lo_import"},
	{regexp.MustCompile(`restrict \w+`), "restrict"},
}

// plain is what a client says, without what differs from one run to the next.
func (w *world) plain(t *testing.T, said string) string {
	t.Helper()
	for _, v := range varying {
		said = v.pattern.ReplaceAllString(said, v.instead)
	}
	return strings.ReplaceAll(said, w.database(t), "DATABASE")
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
	cmd := exec.CommandContext(t.Context(), "diff", "-U3", "want", "got")
	cmd.Dir = dir
	diff, _ := cmd.Output() // fails, since they differ
	t.Errorf("%s differs:\n%s", what, diff)
}
