package plant

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Build compiles the program with the hole in it and returns its path; "" if
// there is none to compile. Root is the folder of the repository.
func (h Hole) Build(tb testing.TB, root string) string {
	tb.Helper()
	dir := tb.TempDir()
	path := filepath.Join(dir, "program")
	var args []string
	switch h.In {
	case Nothing:
		return ""
	case Worker:
		args = []string{"test", "-c", "-vet=off", "-o", path, "-overlay", h.overlay(tb, root, dir), "./test/chaos"}
	case Proxy:
		args = []string{"build", "-o", path, "-overlay", h.overlay(tb, root, dir), "./cmd/fenceproxy"}
	}
	cmd := exec.CommandContext(tb.Context(), "go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("go %v: %v\n%s", args, err, out)
	}
	return path
}

// Sources are the changed source files, by their paths in root.
func (h Hole) Sources(root string) (map[string]string, error) {
	changed := map[string]string{}
	for _, c := range h.Changes {
		path := filepath.Join(root, c.File)
		text, known := changed[path]
		if !known {
			file, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			text = string(file)
		}
		if n := strings.Count(text, c.Old); n != 1 {
			return nil, fmt.Errorf("%s has %q %d times, and should have it once: the hole has to follow the code", c.File, c.Old, n)
		}
		changed[path] = strings.Replace(text, c.Old, c.New, 1)
	}
	return changed, nil
}

// overlay writes the changed files and the list of them.
func (h Hole) overlay(tb testing.TB, root, dir string) string {
	tb.Helper()
	sources, err := h.Sources(root)
	if err != nil {
		tb.Fatal(err)
	}
	replaced := map[string]string{}
	for path, text := range sources {
		changed := filepath.Join(dir, fmt.Sprintf("%d.go", len(replaced)))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
		replaced[path] = changed
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}
