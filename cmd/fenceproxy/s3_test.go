package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// pail is a bucket, and what a shell that works on it has in its environment.
type pail struct {
	t      *testing.T
	server *testenv.S3Server
	bucket string
	link   *testenv.S3Link
	env    map[string]string
}

func newPail(t *testing.T) *pail {
	t.Helper()
	s := testenv.S3(t)
	b := &pail{t: t, server: s, bucket: s.Bucket(t), link: s.Link(t)}
	b.env = map[string]string{
		"AWS_ACCESS_KEY_ID": s.AccessKey, "AWS_SECRET_ACCESS_KEY": s.SecretKey, "AWS_REGION": s.Region,
		"AWS_ENDPOINT_URL": "http://" + b.link.Endpoint(),
	}
	return b
}

// under is the same with a token for orders in the environment.
func (b *pail) under(number int) *pail {
	return b.with(fmt.Sprintf("ft1:x:%d:h%d:i:orders", number, number))
}

// with is the same with a token in the environment; none if it is "".
func (b *pail) with(token string) *pail {
	c := *b
	c.env = maps.Clone(b.env)
	c.env["FENCE_TOKEN"] = token
	return &c
}

func (b *pail) run(args ...string) outcome { return b.feed("", args...) }

// feed is run with standard input.
func (b *pail) feed(in string, args ...string) outcome {
	b.t.Helper()
	return invocation{args: append([]string{"s3"}, append(args, "--bucket", b.bucket)...), env: b.env, in: in}.run(b.t.Context())
}

func (b *pail) put(key, value string) {
	b.t.Helper()
	b.feed(value, "put", "-", key).want(b.t, exitOK)
}

// putBare writes an object past the fence.
func (b *pail) putBare(key, value string) {
	b.t.Helper()
	opts := minio.PutObjectOptions{ContentType: "text/plain", UserMetadata: map[string]string{"Origin": "before"}}
	_, err := b.server.Client(b.t).PutObject(b.t.Context(), b.bucket, key, strings.NewReader(value), int64(len(value)), opts)
	must(b.t, err)
}

// stored is what the server has.
func (b *pail) stored(key string) string {
	b.t.Helper()
	object, err := b.server.Client(b.t).GetObject(b.t.Context(), b.bucket, key, minio.GetObjectOptions{})
	must(b.t, err)
	defer object.Close()
	var data bytes.Buffer
	_, err = data.ReadFrom(object)
	must(b.t, err)
	return data.String()
}

func (b *pail) holds(key, want string) {
	b.t.Helper()
	if o := b.run("get", key, "-", "--no-token").want(b.t, exitOK); o.out != want {
		b.t.Errorf("%s holds %q, want %q", key, o.out, want)
	}
}

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
			o := invocation{args: append([]string{"s3"}, strings.Fields(c.args)...), env: env}.run(t.Context())
			o.want(t, exitUsage, c.says, "; see 'fenceproxy s3")
			if o.out != "" || strings.Contains(o.err, "s3cret") {
				t.Errorf("stdout: %s, stderr: %s", o.out, o.err)
			}
		})
	}
}

func TestS3Unreachable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, []byte("x"), 0o600))
	for _, args := range []string{
		"put " + file + " k", "get k -", "ls", "rm k", "rm -r k/", "frame k/ --dry-run", "adopt orders --issuer n --yes",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			b := newPail(t).under(1)
			b.env["AWS_ENDPOINT_URL"] = "http://127.0.0.1:1"
			b.run(strings.Fields(args)...).want(t, exitUnreachable, "the store at http://127.0.0.1:1: connection refused; check the endpoint")
			b = newPail(t).under(1)
			b.bucket = "no-such"
			b.run(strings.Fields(args)...).want(t, exitNotFound, `there is no bucket "no-such" at http://`)
			b = newPail(t).under(1)
			b.env["AWS_SECRET_ACCESS_KEY"] = "s3cret"
			if o := b.run(strings.Fields(args)...).want(t, exitDenied, "check the keys"); strings.Contains(o.err, "s3cret") {
				t.Errorf("stderr has the secret: %s", o.err)
			}
		})
	}
}

func TestS3PutGet(t *testing.T) {
	t.Parallel()
	b := newPail(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "new.html")
	must(t, os.WriteFile(path, []byte("<p>"), 0o600))

	first := strings.TrimSpace(b.under(33).run("put", path, "a b/ü", "--metadata", "origin=nightly=1").want(t, exitOK).out)
	if raw := b.stored("a b/ü"); len(raw) != layout.HeaderSize+3 || !strings.HasSuffix(raw, "<p>") {
		t.Errorf("the server has %q", raw)
	}
	var got objectDocument
	decode(t, b.under(33).run("get", "a b/ü", filepath.Join(dir, "copy"), "--json").want(t, exitOK).out, &got)
	if got.Key != "a b/ü" || got.ETag != first || got.Size != 3 || !strings.HasPrefix(got.ContentType, "text/html") || got.Metadata["Origin"] != "nightly=1" || got.Modified.IsZero() {
		t.Errorf("JSON: %+v", got)
	}
	if text(t, filepath.Join(dir, "copy")) != "<p>" {
		t.Error("the file differs")
	}

	// Read, modify, write: what came in between is not overwritten (I9).
	if o := b.under(33).run("get", "a b/ü", filepath.Join(dir, "copy")).want(t, exitOK); o.out != first+"\n" {
		t.Errorf("get prints %q, put %q", o.out, first)
	}
	var written struct {
		Key, ETag string
		Size      int64
	}
	decode(t, b.under(33).feed("two", "put", "-", "a b/ü", "--if-match", first, "--json").want(t, exitOK).out, &written)
	if written.Key != "a b/ü" || written.ETag == first || written.Size != 3 {
		t.Errorf("JSON: %+v", written)
	}
	b.under(33).feed("lost", "put", "-", "a b/ü", "--if-match", first).want(t, exitHeld, "precondition failed", "read the object again")
	b.under(33).feed("lost", "put", "-", "a b/ü", "--if-none-match").want(t, exitHeld, "precondition failed")
	b.under(33).feed("one", "put", "-", "other", "--if-none-match").want(t, exitOK)
	b.holds("a b/ü", "two")

	// Somebody else has the lock: I1.
	b.under(34).put("a b/ü", "newer")
	b.under(33).feed("stale", "put", "-", "a b/ü").want(t, exitDenied, `stale token: x 33 for "orders" (mark: writer 34`, "acquire it again")
	b.with("ft1:x:34:other:i:orders").feed("twice", "put", "-", "a b/ü").want(t, exitDenied, "duplicate token", "acquire it again")
	b.with("ft1:x:35:h:elsewhere:orders").feed("x", "put", "-", "a b/ü").want(t, exitDenied, "foreign issuer",
		"fenceproxy s3 adopt 'orders' --issuer elsewhere --bucket "+b.bucket)
	b.with("ft1:s:35:h:i:orders").feed("x", "put", "-", "a b/ü").want(t, exitDenied, "shared token", "acquire the lock exclusively")
	b.with("ft1:x:1:h:i:stock").feed("x", "put", "-", "a b/ü").want(t, exitDenied, "belongs to another resource", "fenceproxy s3 rebind")
	b.under(34).feed("x", "put", "-", ".fence/marks/x").want(t, exitDenied, "the fence's own")
	b.holds("a b/ü", "newer")
	if o := b.with("ft1:s:35:h:i:orders").run("get", "a b/ü", "-").want(t, exitOK); o.out != "newer" {
		t.Errorf("a reader gets %q", o.out)
	}
	b.with("ft1:x:1:h:i:stock,ft1:x:36:h:i:orders").feed("last", "put", "-", "a b/ü", "--resource", "orders").want(t, exitOK)
	b.under(36).run("get", "no such", "-").want(t, exitDenied) // h36 is another holder
	b.with("ft1:x:36:h:i:orders").run("get", "no such", "-").want(t, exitNotFound, `get "no such": no such object in bucket`)
	b.with("ft1:x:36:h:i:orders").run("put", filepath.Join(dir, "none"), "k").want(t, exitNotFound, "no such file")
	b.with("ft1:x:36:h:i:orders").run("put", dir, "k").want(t, exitFailure, "is a folder")
}

func TestS3PutLarge(t *testing.T) {
	t.Parallel()
	b := newPail(t).under(1)
	value := strings.Repeat("0123456789abcdef", 20<<20/16) // more than a part
	b.feed(value, "put", "-", "large").want(t, exitOK)
	if !slices.ContainsFunc(b.link.Requests(), about(s3link.CompleteMultipartUpload)) {
		t.Error("not uploaded in parts")
	}
	path := filepath.Join(t.TempDir(), "large")
	b.run("get", "large", path).want(t, exitOK)
	if text(t, path) != value {
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
	b := newPail(t).under(1)
	b.put("k", "value")
	dir := t.TempDir()
	path, alias := filepath.Join(dir, "file"), filepath.Join(dir, "alias")
	must(t, os.WriteFile(path, []byte("old"), 0o640))
	must(t, os.Symlink("file", alias))
	b.run("get", "none", path).want(t, exitNotFound)
	broken := errors.New("broken")
	if err := replaceFile(path, io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("broken off: %v", err)
	}
	if text(t, path) != "old" {
		t.Errorf("the file has %q", text(t, path))
	}
	b.run("get", "k", alias).want(t, exitOK)
	info, err := os.Lstat(path)
	if err != nil || text(t, path) != "value" || info.Mode() != 0o640 {
		t.Errorf("the file has %q, %v, %v", text(t, path), info.Mode(), err)
	}
	b.run("get", "k", os.DevNull).want(t, exitOK)
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Fatalf("%s is %v, %v", os.DevNull, info.Mode(), err)
	}
	b.run("get", "k", dir).want(t, exitFailure, dir, "is a directory")
	b.run("get", "k", filepath.Join(dir, "none", "file")).want(t, exitFailure, "no such file or directory")
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Errorf("in the folder: %v, %v", files, err)
	}
}

// A reply is lost and the store says no more: nobody knows (I2).
func TestS3PutUnknown(t *testing.T) {
	t.Parallel()
	b := newPail(t).under(1)
	b.put("k", "old")
	b.link.DropReply(about(s3link.PutObject), 1)
	for n := 3; n < 10; n++ { // the mark, the key, and then what became of it
		b.link.Answer(s3link.Op(s3link.GetObject), n, 503, "SlowDown")
	}
	b.feed("new", "put", "-", "k").want(t, exitUnknown, "whether it was written is not known", "do it again")
	b = newPail(t).under(1)
	b.put("k", "old")
	b.link.DropReply(about(s3link.PutObject), 1)
	b.feed("new", "put", "-", "k").want(t, exitOK) // here it can be found out
	b.holds("k", "new")
}

// Ctrl-C says what became of the write, too.
func TestS3PutStopped(t *testing.T) {
	t.Parallel()
	b := newPail(t).under(1)
	b.put("k", "old")
	for _, c := range []struct{ op, says string }{
		{s3link.GetObject, "stopped by SIGINT; nothing was written"},
		{s3link.PutObject, "stopped by SIGINT; whether it was written is not known: "},
	} {
		held := b.link.Hold(about(c.op), 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-held.Taken()
			cancel(signalError{signal: syscall.SIGINT})
		}()
		i := invocation{args: []string{"s3", "put", "-", "k", "--bucket", b.bucket}, env: b.env, in: "new"}
		i.run(ctx).want(t, exitSignal+2, c.says)
	}
}
