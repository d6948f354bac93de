package e2e_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
)

// The shell of README.md does what its comments say, on other ports.
func TestReadmeProxy(t *testing.T) {
	t.Parallel()
	block := readmeBlockWith(t, "sh", "--postgres-listen")
	pool := ordersPool(t)
	u, err := url.Parse(pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	dir := buildFenceproxy(t)
	free, err := localserver.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(free)
	script := strings.NewReplacer("127.0.0.1:5432", u.Host, "6432", port).Replace(awaiting(block, "6432"))
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	clients, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	password, _ := u.User.Password()
	cmd.Env = append(os.Environ(), "PATH="+strings.Join(append([]string{dir, os.Getenv("PATH")}, clients...), ":"), "PSQLRC=/dev/null",
		"PGUSER="+u.User.Username(), "PGPASSWORD="+password, "PGDATABASE="+strings.TrimPrefix(u.Path, "/"), "LC_ALL=C")
	out, _ := cmd.CombinedOutput() // what each line has to say is looked at, the last one's exit code says nothing
	said := string(out)
	for _, want := range []string{"UPDATE 1\n", "ERROR:  fence: stale token 33 for \"orders\"", "ERROR:  cannot execute UPDATE in a read-only transaction"} {
		_, after, ok := strings.Cut(said, want)
		if !ok {
			t.Fatalf("it does not say %q at its place:\n%s", want, out)
		}
		said = after
	}
	if !shipped(t, pool) {
		t.Error("not shipped")
	}
}

// readmeBlockWith is the only block of README.md in a language that has text in
// it.
func readmeBlockWith(t *testing.T, language, text string) string {
	t.Helper()
	var found []string
	for _, block := range readmeBlocks(t, language) {
		if strings.Contains(block, text) {
			found = append(found, block)
		}
	}
	if len(found) != 1 {
		t.Fatalf("README.md has %d blocks of %s with %s", len(found), language, text)
	}
	return found[0]
}

// buildFenceproxy returns a folder with the program.
func buildFenceproxy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/fenceproxy", "../../cmd/fenceproxy").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return dir
}

// awaiting is a script that waits for what it has started in the background
// until that listens at a port, and ends it in the end.
func awaiting(script, port string) string {
	before, rest, _ := strings.Cut(script, " &\n")
	return before + " &\ntrap 'kill $!; wait $!' EXIT\n" +
		"for ((i = 0; i < 600; i++)); do (: <>/dev/tcp/127.0.0.1/" + port + ") 2>/dev/null && break; sleep 0.1; done\n" + rest
}
