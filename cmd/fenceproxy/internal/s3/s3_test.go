package s3

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

func TestS3BadUsage(t *testing.T) {
	t.Parallel()
	const bucket = " --bucket bucket"
	for _, c := range []struct{ args, token, says string }{
		{"", "", "choose one of adopt, frame, get, ls, put, rebind, rm"},
		{"put f k" + bucket, "", "no token: run this under 'fenceproxy exec', or give --token; see"},
		{"get k f" + bucket, "", "or --no-token to read without"},
		{"put f k" + bucket, "ft1:x:01:h:i:orders", "FENCE_TOKEN is not a token: fence: malformed token"},
		{"put f k --token nonsense" + bucket, "ft1:x:1:h:i:orders", "--token is not a token"},
		{"ls --token ft1:x:1:h:i:orders --no-token" + bucket, "", "--token and --no-token at once"},
		{"put f k" + bucket, "ft1:x:1:h:i:orders,ft1:x:1:h:i:stock", `FENCE_TOKEN has tokens for "orders", "stock": choose by --resource`},
		{"put f k --resource ships" + bucket, "ft1:x:1:h:i:orders", `FENCE_TOKEN has no token for "ships", but for "orders"`},
		{"put f k", "ft1:x:1:h:i:orders", "no bucket: give --bucket NAME"},
		{"put f k --bucket x", "ft1:x:1:h:i:orders", "s3store: bucket: "},
		{"put f" + bucket, "", "wants two arguments, FILE and KEY, got 1"},
		{"put f s3://bucket/k" + bucket, "", `"s3://bucket/k" is a URL, not a key in the bucket: the bucket goes to --bucket`},
		{"put f k --metadata a" + bucket, "", `--metadata "a" is not NAME=VALUE`},
		{"put f k --metadata a=1 --metadata a=2" + bucket, "", "each name once"},
		{"put f k --if-match x --if-none-match" + bucket, "", "--if-match and --if-none-match at once"},
		{"put f k --if-match=" + bucket, "", "--if-match names no ETag"},
		{"get k" + bucket, "", "wants two arguments, KEY and FILE, got 1"},
		{"get k - --json" + bucket, "", "give a FILE"},
		{"ls a b" + bucket, "", "at most one argument, PREFIX, got 2"},
		{"rm" + bucket, "", "KEY is missing"},
		{"rm s3://bucket/k" + bucket, "", "is a URL"},
		{"rm -r s3://bucket/k/" + bucket, "", "is a URL"},
		{"ls s3://bucket/k" + bucket, "", "is a URL"},
		{"frame s3://bucket/k" + bucket, "", "is a URL"},
		{"rm -r a/ b/" + bucket, "", "--recursive wants one prefix, got 2"},
		{"rm -r orders" + bucket, "", `the prefix does not end in /: "orders" is also that of "orders-other"`},
		{"rm a b --if-match x" + bucket, "", "--if-match is for one object"},
		{"rm a --if-match=" + bucket, "", "--if-match names no ETag"},
		{"frame" + bucket, "", "wants one argument, PREFIX, got 0"},
		{"frame a/ --yes" + bucket, "", "no token"},
		{"frame a/" + bucket, "ft1:x:1:h:i:orders", "give --yes"},
		{"rebind a/" + bucket, "", "wants two arguments, PREFIX and RESOURCE, got 1"},
		{"rebind a/ orders" + bucket, "", "give --from RESOURCE"},
		{"rebind a/ orders --from orders" + bucket, "", `--from is "orders" itself`},
		{"rebind a/ orders --from \x01" + bucket, "", "control character"},
		{"rebind a/ orders --from stock --yes" + bucket, "ft1:x:1:h:i:stock", `FENCE_TOKEN has no token for "orders"`},
		{"adopt" + bucket, "", "wants one argument, RESOURCE"},
		{"adopt orders" + bucket, "", "no issuer: give --issuer NEW"},
		{"adopt orders --issuer a:b" + bucket, "", "--issuer"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{
				"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s3cret", "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "FENCE_TOKEN": c.token,
			}
			o := clitest.Invocation{Args: append([]string{"s3"}, strings.Fields(c.args)...), Env: env}.Run(t.Context())
			o.Want(t, cli.ExitUsage, c.says, "; see 'fenceproxy s3")
			if o.Out != "" || strings.Contains(o.Err, "s3cret") {
				t.Errorf("stdout: %s, stderr: %s", o.Out, o.Err)
			}
		})
	}
}

func TestS3Unreachable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	clitest.Must(t, os.WriteFile(file, []byte("x"), 0o600))
	for _, args := range []string{
		"put " + file + " k", "get k -", "ls", "rm k", "rm -r k/", "frame k/ --dry-run", "adopt orders --issuer n --yes",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			b := clitest.NewPail(t).Under(1)
			b.Env["AWS_ENDPOINT_URL"] = "http://127.0.0.1:1"
			b.Run(strings.Fields(args)...).Want(t, cli.ExitUnreachable, "the store at http://127.0.0.1:1: connection refused; check the endpoint")
			b = clitest.NewPail(t).Under(1)
			b.Bucket = "no-such"
			b.Run(strings.Fields(args)...).Want(t, cli.ExitNotFound, `there is no bucket "no-such" at http://`)
			b = clitest.NewPail(t).Under(1)
			b.Env["AWS_SECRET_ACCESS_KEY"] = "s3cret"
			if o := b.Run(strings.Fields(args)...).Want(t, cli.ExitDenied, "check the keys"); strings.Contains(o.Err, "s3cret") {
				t.Errorf("stderr has the secret: %s", o.Err)
			}
		})
	}
}

func TestS3PutGet(t *testing.T) {
	t.Parallel()
	b := clitest.NewPail(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "new.html")
	clitest.Must(t, os.WriteFile(path, []byte("<p>"), 0o600))

	first := strings.TrimSpace(b.Under(33).Run("put", path, "a b/ü", "--metadata", "origin=nightly=1").Want(t, cli.ExitOK).Out)
	if raw := b.Stored("a b/ü"); len(raw) != layout.HeaderSize+3 || !strings.HasSuffix(raw, "<p>") {
		t.Errorf("the server has %q", raw)
	}
	var got objectDocument
	clitest.Decode(t, b.Under(33).Run("get", "a b/ü", filepath.Join(dir, "copy"), "--json").Want(t, cli.ExitOK).Out, &got)
	if got.Key != "a b/ü" || got.ETag != first || got.Size != 3 || !strings.HasPrefix(got.ContentType, "text/html") || got.Metadata["Origin"] != "nightly=1" || got.Modified.IsZero() {
		t.Errorf("JSON: %+v", got)
	}
	if clitest.Text(t, filepath.Join(dir, "copy")) != "<p>" {
		t.Error("the file differs")
	}

	// Read, modify, write: what came in between is not overwritten (I9).
	if o := b.Under(33).Run("get", "a b/ü", filepath.Join(dir, "copy")).Want(t, cli.ExitOK); o.Out != first+"\n" {
		t.Errorf("get prints %q, put %q", o.Out, first)
	}
	var written struct {
		Key, ETag string
		Size      int64
	}
	clitest.Decode(t, b.Under(33).Feed("two", "put", "-", "a b/ü", "--if-match", first, "--json").Want(t, cli.ExitOK).Out, &written)
	if written.Key != "a b/ü" || written.ETag == first || written.Size != 3 {
		t.Errorf("JSON: %+v", written)
	}
	b.Under(33).Feed("lost", "put", "-", "a b/ü", "--if-match", first).Want(t, cli.ExitHeld, "precondition failed", "read the object again")
	b.Under(33).Feed("lost", "put", "-", "a b/ü", "--if-none-match").Want(t, cli.ExitHeld, "precondition failed")
	b.Under(33).Feed("one", "put", "-", "other", "--if-none-match").Want(t, cli.ExitOK)
	b.Holds("a b/ü", "two")

	// Somebody else has the lock: I1.
	b.Under(34).Put("a b/ü", "newer")
	b.Under(33).Feed("stale", "put", "-", "a b/ü").Want(t, cli.ExitDenied, `stale token: x 33 for "orders" (mark: writer 34`, "acquire it again")
	b.With("ft1:x:34:other:i:orders").Feed("twice", "put", "-", "a b/ü").Want(t, cli.ExitDenied, "duplicate token", "acquire it again")
	b.With("ft1:x:35:h:elsewhere:orders").Feed("x", "put", "-", "a b/ü").Want(t, cli.ExitDenied, "foreign issuer",
		"fenceproxy s3 adopt 'orders' --issuer elsewhere --bucket "+b.Bucket)
	b.With("ft1:s:35:h:i:orders").Feed("x", "put", "-", "a b/ü").Want(t, cli.ExitDenied, "shared token", "acquire the lock exclusively")
	b.With("ft1:x:1:h:i:stock").Feed("x", "put", "-", "a b/ü").Want(t, cli.ExitDenied, "belongs to another resource", "fenceproxy s3 rebind")
	b.Under(34).Feed("x", "put", "-", ".fence/marks/x").Want(t, cli.ExitDenied, "the fence's own")
	b.Holds("a b/ü", "newer")
	if o := b.With("ft1:s:35:h:i:orders").Run("get", "a b/ü", "-").Want(t, cli.ExitOK); o.Out != "newer" {
		t.Errorf("a reader gets %q", o.Out)
	}
	b.With("ft1:x:1:h:i:stock,ft1:x:36:h:i:orders").Feed("last", "put", "-", "a b/ü", "--resource", "orders").Want(t, cli.ExitOK)
	b.Under(36).Run("get", "no such", "-").Want(t, cli.ExitDenied) // h36 is another holder
	b.With("ft1:x:36:h:i:orders").Run("get", "no such", "-").Want(t, cli.ExitNotFound, `get "no such": no such object in bucket`)
	b.With("ft1:x:36:h:i:orders").Run("put", filepath.Join(dir, "none"), "k").Want(t, cli.ExitNotFound, "no such file")
	b.With("ft1:x:36:h:i:orders").Run("put", dir, "k").Want(t, cli.ExitFailure, "is a folder")
}

func TestS3PutLarge(t *testing.T) {
	t.Parallel()
	b := clitest.NewPail(t).Under(1)
	value := strings.Repeat("0123456789abcdef", 20<<20/16) // more than a part
	b.Feed(value, "put", "-", "large").Want(t, cli.ExitOK)
	if !slices.ContainsFunc(b.Link.Requests(), about(s3link.CompleteMultipartUpload)) {
		t.Error("not uploaded in parts")
	}
	path := filepath.Join(t.TempDir(), "large")
	b.Run("get", "large", path).Want(t, cli.ExitOK)
	if clitest.Text(t, path) != value {
		t.Error("the file differs")
	}
}

// about matches requests called op, but for those by which each process sees first
// that the store honours conditions.
func about(op string) func(s3link.Request) bool {
	return func(r s3link.Request) bool { return r.Op == op && r.Key != ".fence/selftest" }
}

// What is not read to its end leaves no trace.
func TestS3GetFile(t *testing.T) {
	t.Parallel()
	b := clitest.NewPail(t).Under(1)
	b.Put("k", "value")
	dir := t.TempDir()
	path, alias := filepath.Join(dir, "file"), filepath.Join(dir, "alias")
	clitest.Must(t, os.WriteFile(path, []byte("old"), 0o640))
	clitest.Must(t, os.Symlink("file", alias))
	b.Run("get", "none", path).Want(t, cli.ExitNotFound)
	broken := errors.New("broken")
	if err := replaceFile(path, io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("broken off: %v", err)
	}
	if clitest.Text(t, path) != "old" {
		t.Errorf("the file has %q", clitest.Text(t, path))
	}
	b.Run("get", "k", alias).Want(t, cli.ExitOK)
	info, err := os.Lstat(path)
	if err != nil || clitest.Text(t, path) != "value" || info.Mode() != 0o640 {
		t.Errorf("the file has %q, %v, %v", clitest.Text(t, path), info.Mode(), err)
	}
	b.Run("get", "k", os.DevNull).Want(t, cli.ExitOK)
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Fatalf("%s is %v, %v", os.DevNull, info.Mode(), err)
	}
	b.Run("get", "k", dir).Want(t, cli.ExitFailure, dir, "is a directory")
	b.Run("get", "k", filepath.Join(dir, "none", "file")).Want(t, cli.ExitFailure, "no such file or directory")
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Errorf("in the folder: %v, %v", files, err)
	}
}

// A reply is lost and the store says no more: nobody knows (I2).
func TestS3PutUnknown(t *testing.T) {
	t.Parallel()
	b := clitest.NewPail(t).Under(1)
	b.Put("k", "old")
	b.Link.DropReply(about(s3link.PutObject), 1)
	for n := 3; n < 10; n++ { // the mark, the key, and then what became of it
		b.Link.Answer(s3link.Op(s3link.GetObject), n, 503, "SlowDown")
	}
	b.Feed("new", "put", "-", "k").Want(t, cli.ExitUnknown, "whether it was written is not known", "do it again")
	b = clitest.NewPail(t).Under(1)
	b.Put("k", "old")
	b.Link.DropReply(about(s3link.PutObject), 1)
	b.Feed("new", "put", "-", "k").Want(t, cli.ExitOK) // here it can be found out
	b.Holds("k", "new")
}

// Ctrl-C says what became of the write, too.
func TestS3PutStopped(t *testing.T) {
	t.Parallel()
	b := clitest.NewPail(t).Under(1)
	b.Put("k", "old")
	for _, c := range []struct{ op, says string }{
		{s3link.GetObject, "stopped by SIGINT; nothing was written"},
		{s3link.PutObject, "stopped by SIGINT; whether it was written is not known: "},
	} {
		held := b.Link.Hold(about(c.op), 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-held.Taken()
			cancel(cli.SignalError{Signal: syscall.SIGINT})
		}()
		i := clitest.Invocation{Args: []string{"s3", "put", "-", "k", "--bucket", b.Bucket}, Env: b.Env, In: "new"}
		i.Run(ctx).Want(t, cli.ExitSignal+2, c.says)
	}
}
