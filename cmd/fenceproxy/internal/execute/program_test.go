package execute

import (
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
)

func testExecExitCodes(t *testing.T, x *theatre) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"plain": 0o644, "empty": 0o755} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("\x01\x02"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"true"}, 0, nil},
		{[]string{"false"}, 1, nil},
		{[]string{"sh", "-c", "exit 76"}, 76, nil},
		{[]string{"sh", "-c", "exit 255"}, 255, nil},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143, nil},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137, nil},
		{[]string{"sh", "-c", "kill -SEGV $$"}, 139, nil},
		{[]string{"no-such-command"}, 127, []string{"no-such-command: command not found"}},
		{[]string{"/no/such/command"}, 127, []string{"/no/such/command: command not found"}},
		{[]string{dir + "/plain"}, 126, []string{"cannot run", "permission denied"}},
		{[]string{dir + "/empty"}, 126, []string{"it is no program"}},
		{[]string{dir}, 126, []string{"is a directory"}},
	} {
		x.exec(append([]string{"--"}, c.args...)...).ends(c.code, c.says...)
	}
	if left := x.keys(x.client()); len(left.Kvs) > 0 {
		t.Errorf("left in etcd: %v", left.Kvs)
	}
}

func testExecStreams(t *testing.T, x *theatre) {
	data := make([]byte, 3<<20)
	_, _ = rand.Read(data)
	a := x.prepare("--lock", x.lock(""), "--resource", "orders", "--", "sh", "-c", `cat; cat <&9 >&2; printf '%s|' "$@"; pwd`, "name", "", "a b", "*\n", "--wait")
	a.cmd.Dir = t.TempDir()
	// A descriptor beyond the standard streams, at a number that nothing else has.
	ninth, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer ninth.Close()
	if _, err := ninth.WriteAt([]byte("the ninth\n"), 0); err != nil {
		t.Fatal(err)
	}
	a.cmd.ExtraFiles = []*os.File{6: ninth}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = a.in.Write(data); a.in.Close() }()
	got, err := io.ReadAll(a.out)
	if err != nil {
		t.Fatal(err)
	}
	if want := string(data) + "|a b|*\n|--wait|" + a.cmd.Dir + "\n"; string(got) != want {
		t.Errorf("got %d bytes ending in %q, want %d ending in %q", len(got), got[max(0, len(got)-50):], len(want), want[len(want)-50:])
	}
	a.ends(0)
	if a.stderr.String() != "the ninth\n" {
		t.Errorf("stderr: %q", a.stderr.String())
	}
	// The other end learns that the command closed a stream while it runs on.
	b := x.exec("--", "sh", "-c", "exec <&- >&-; while [ -d /proc/$PPID ]; do sleep 0.05; done")
	if text, err := io.ReadAll(b.out); err != nil || len(text) > 0 {
		t.Errorf("read what was closed: %q, %v", text, err)
	}
	for err = nil; err == nil; { // until the pipe is broken
		_, err = b.in.Write(make([]byte, 1<<16))
	}
	b.signal(os.Interrupt)
	b.ends(130)
}

func testExecEnvironment(t *testing.T, x *theatre) {
	show := `echo "$FENCE_TOKEN"; echo "$PGOPTIONS"; echo "$AWS_SESSION_TOKEN"; echo "$AWS_ENDPOINT_URL_S3 $AWS_ENDPOINT_URL $AWS_ACCESS_KEY_ID $AWS_PROFILE"; echo "$OTHER"`
	for _, s3 := range []bool{false, true} {
		args := []string{"--lock", x.lock(""), "--resource", "orders", "--", "sh", "-c", show}
		if s3 {
			args = append([]string{"--s3", "http://127.0.0.1:9100/"}, args...)
		}
		a := x.prepare(args...)
		a.cmd.Env = append(a.cmd.Env, "PGOPTIONS=-c work_mem=1MB -c fence.token=ft1:x:1:::old", "AWS_SESSION_TOKEN=own", "OTHER=a\tb",
			"AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret", "AWS_ENDPOINT_URL=http://store", "AWS_PROFILE=p")
		a.cmd.Env = slices.DeleteFunc(a.cmd.Env, func(v string) bool { return strings.HasPrefix(v, "AWS_ENDPOINT_URL_S3=") })
		if err := a.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		token := a.line()
		got, err := guard.Parse(token)
		if err != nil || got.Resource != "orders" || got.Mode != guard.Exclusive {
			t.Errorf("FENCE_TOKEN %q: %v", token, err)
		}
		a.says("-c work_mem=1MB -c fence.token=" + token)
		if s3 {
			a.says(token)
			a.says("http://127.0.0.1:9100 http://127.0.0.1:9100 key ")
		} else {
			a.says("own")
			a.says(" http://store key p")
		}
		a.says("a\tb")
		a.ends(0)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	token := guard.Token{Resource: "orders", Number: 7, Mode: guard.Exclusive}
	given := []string{"A=1", "AWS_SESSION_TOKEN=own", "FENCE_TOKEN=old", "B=2"}
	got, err := environment(given, token, "")
	want := []string{"A=1", "B=2", "FENCE_TOKEN=" + token.String(), "PGOPTIONS=-c fence.token=" + token.String(), "AWS_SESSION_TOKEN=own"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("environment: %q, %v", got, err)
	}
	// What leads a client to the store itself, or to other keys, goes.
	given = append(given, "AWS_ENDPOINT_URL=http://store", "AWS_ENDPOINT_URL_S3=http://store", "AWS_PROFILE=p", "AWS_DEFAULT_PROFILE=p",
		"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true", "AWS_SECURITY_TOKEN=old", "AWS_CREDENTIAL_EXPIRATION=soon")
	want[4] = "AWS_SESSION_TOKEN=" + token.String()
	want = append(want, "AWS_ENDPOINT_URL_S3=http://proxy", "AWS_ENDPOINT_URL=http://proxy")
	if got, err = environment(given, token, "http://proxy"); err != nil || !slices.Equal(got, want) {
		t.Errorf("environment with S3: %q, %v", got, err)
	}
	if got, err = environment(nil, token, ""); err != nil || slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "AWS") }) {
		t.Errorf("environment of nothing: %q, %v", got, err)
	}
}
