package history_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWhatWasRecordedIsLoaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var want []history.Op
	for _, name := range []string{"w1", "w2"} {
		r, err := history.Create(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		ended := r.Begin(history.Op{Kind: history.Write, Way: "pgstore", Resource: "a", Number: 7, Holder: "h", Seen: history.State{Version: 3, ID: "w0-1"}})
		open := r.Begin(history.Op{Kind: history.Claim, Way: "s3store", Resource: "b", Number: 8, Shared: true})
		ended = r.End(ended, guard.Refused, "stale", errors.New("stale token"))
		if ended.Ended <= ended.Began || open.Began < ended.Began {
			t.Errorf("times do not go on: %v, %v", ended, open)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		want = append(want, ended, open)
	}
	got, err := history.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A process that is killed in the middle of a line leaves the lines before it.
func TestHalfALine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := `{"op":"w1-1","kind":"write","way":"pgstore","began":1}` + "\n" + `{"op":"w1-1","kind":"write","way":"pgst`
	if err := os.WriteFile(filepath.Join(dir, "w1.ops"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ops, err := history.Load(dir)
	if err != nil || len(ops) != 1 || ops[0].Over() {
		t.Errorf("%v, %v", ops, err)
	}
}

func TestDamageIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "w1.ops"), []byte("{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ops, err := history.Load(dir); err == nil {
		t.Errorf("%v, and no error", ops)
	}
}
