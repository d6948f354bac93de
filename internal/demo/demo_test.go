package demo

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestVerify(t *testing.T) {
	t.Parallel()
	good := Result{Unfenced: Account{StaleWritesApplied: 1}, Fenced: Account{StaleWritesRefused: 1, Right: true}}
	if err := good.Verify(); err != nil {
		t.Errorf("as it must be: %v", err)
	}
	for name, change := range map[string]func(*Result){
		"no stale write was applied":  func(r *Result) { r.Unfenced.StaleWritesApplied = 0 },
		"no stale write was refused":  func(r *Result) { r.Fenced.StaleWritesRefused = 0 },
		"2 stale writes were applied": func(r *Result) { r.Fenced.StaleWritesApplied = 2 },
		"the fenced ledger is wrong":  func(r *Result) { r.Fenced.Right = false },
	} {
		r := good
		change(&r)
		if err := r.Verify(); !errors.Is(err, ErrNotShown) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInDatabase(t *testing.T) {
	t.Parallel()
	for _, given := range []string{
		"postgres://u:p%40ss@h:5433/d?sslmode=disable",
		"postgresql://u@h",
		"postgres://u:p@h1:5432,h2:5433/d?target_session_attrs=read-write",
		"postgres:///d?host=/var/run/postgresql&user=u&dbname=other",
		"postgres://h/?database=other&user=u",
		"host=h port=5433 user=u password='p ss' dbname=d",
		"host=h user=u",
	} {
		before, err := pgx.ParseConfig(given)
		if err != nil {
			t.Fatalf("%s: %v", given, err)
		}
		changed, err := inDatabase(given, "mine")
		if err != nil {
			t.Errorf("%s: %v", given, err)
			continue
		}
		after, err := pgx.ParseConfig(changed)
		if err != nil {
			t.Fatalf("%s: %v", given, err)
		}
		if after.Database != "mine" || after.Host != before.Host || after.Port != before.Port || after.User != before.User || after.Password != before.Password {
			t.Errorf("%s: %s is another server or user", given, changed)
		}
	}
}

// The cleaner removes a folder with all that is in it: it must be one of the
// demo's.
func TestCleanUpKeepsOtherFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	err := CleanUp(t.Context(), strings.NewReader(`{"dir":"`+dir+`"}`+"\n"))
	if err == nil || !strings.Contains(err.Error(), "not a folder of the demo") {
		t.Errorf("error: %v", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the folder is gone: %v", err)
	}
	mine := filepath.Join(dir, namePrefix+"x")
	if err := os.MkdirAll(filepath.Join(mine, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	// The last line counts; the first was before the folder had a name.
	if err := CleanUp(t.Context(), strings.NewReader("{}\n"+`{"dir":"`+mine+`"}`+"\n")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(mine); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	plainly := NewTimeline(&out, false, false)
	plainly.say(first, 34, red, "wrote %d", 5)
	plainly.waiting("soon")
	plainly.say(director, 0, plain, "done")
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 4 || strings.Contains(out.String(), "\x1b") || strings.Contains(out.String(), "\r") {
		t.Errorf("plain: %q", out.String())
	}
	if !strings.HasSuffix(lines[0], " s  worker 1  token 34   wrote 5") || !strings.HasSuffix(lines[2], " s  demo      -          done") {
		t.Errorf("plain: %q", out.String())
	}

	out.Reset()
	terminal := NewTimeline(&out, true, true)
	terminal.waiting("soon")
	terminal.waiting("very soon")
	terminal.say(first, 34, red, "wrote")
	if got := out.String(); strings.Count(got, "\r\x1b[K") != 2 || strings.Count(got, "\n") != 1 || !strings.Contains(got, "\x1b[1;31mwrote\x1b[0m") {
		t.Errorf("terminal: %q", got)
	}
}
