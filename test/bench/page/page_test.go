package page_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/test/bench/page"
	"github.com/fenceproxy/fenceproxy/test/bench/parts"
)

const docs = "../../../docs"

// TestCommitted is that what is in docs is what the results there make, and so that
// writing it twice changes nothing.
func TestCommitted(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	if err := os.Mkdir(filepath.Join(out, "benchmarks"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range glob(t, docs, "*.json") {
		if err := os.WriteFile(filepath.Join(out, "benchmarks", filepath.Base(path)), read(t, path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := page.Write(out, docs, parts.Names()); err != nil {
		t.Fatal(err)
	}
	files := []string{"benchmarks.md", "operations.md"}
	for _, path := range glob(t, out, "*.svg") {
		files = append(files, filepath.Join("benchmarks", filepath.Base(path)))
	}
	for _, file := range files {
		if !bytes.Equal(read(t, filepath.Join(out, file)), read(t, filepath.Join(docs, file))) {
			t.Errorf("docs/%s is not what the results make: make bench ARGS=-render", file)
		}
	}
}

// TestNothingMeasured is that parts that were never measured are said to be so.
func TestNothingMeasured(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	if err := page.Write(out, docs, parts.Names()); err != nil {
		t.Fatal(err)
	}
	text := string(read(t, filepath.Join(out, "benchmarks.md")))
	for _, part := range parts.Names() {
		if !strings.Contains(text, "| "+part+" | *not yet* |") {
			t.Errorf("nothing is said of %s", part)
		}
	}
}

func glob(t *testing.T, root, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "benchmarks", pattern))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
