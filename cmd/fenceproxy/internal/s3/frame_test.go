package s3

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// rewritten is the documented JSON of s3 frame and s3 rebind.
type rewritten struct {
	Changed int   `json:"changed"`
	Skipped int   `json:"skipped"`
	Failed  int   `json:"failed"`
	Bytes   int64 `json:"bytes"`
}

func TestS3Frame(t *testing.T) {
	t.Parallel()
	b := clitest.NewPail(t).Under(7)
	before := map[string]string{"a/empty": "", "a/small": "1234", "a/60": strings.Repeat("x", 60), "a/large": strings.Repeat("x", 5000), "b/other": "x"}
	for key, value := range before {
		b.PutBare(key, value)
	}
	b.Put("a/framed", "x")
	b.Put("a/gone", "x")
	b.Run("rm", "a/gone").Want(t, cli.ExitOK)

	var got rewritten
	want := rewritten{Changed: 4, Skipped: 2, Bytes: 5064}
	if clitest.Decode(t, b.With("").Run("frame", "a/", "--dry-run", "--json").Want(t, cli.ExitOK).Out, &got); got != want {
		t.Errorf("--dry-run: %+v", got)
	}
	o := b.Run("frame", "a/", "--dry-run").Want(t, cli.ExitOK)
	if o.Out != "keys would be framed: 4 (4.9 KiB), skipped: 2, failed: 0\n" || b.Stored("a/small") != "1234" {
		t.Errorf("--dry-run: %q", o.Out)
	}
	o = b.Run("frame", "a/", "--yes", "--json").Want(t, cli.ExitOK, "a header of 64 bytes", `"a/" in bucket "`+b.Bucket+`" is about to be framed, under the token of "orders"`)
	if clitest.Decode(t, o.Out, &got); got != want {
		t.Errorf("frame: %+v", got)
	}
	for key, value := range before {
		framed := strings.HasPrefix(key, "a/")
		if raw := b.Stored(key); !strings.HasSuffix(raw, value) || (len(raw) == layout.HeaderSize+len(value)) != framed {
			t.Errorf("%s has %d bytes", key, len(raw))
		}
	}
	b.Holds("a/small", "1234")
	var info objectDocument
	clitest.Decode(t, b.Run("get", "a/small", t.TempDir()+"/f", "--json").Want(t, cli.ExitOK).Out, &info)
	if info.ContentType != "text/plain" || info.Metadata["Origin"] != "before" {
		t.Errorf("what is stored with it: %+v", info)
	}
	// Somebody at the terminal is asked.
	i := clitest.Invocation{Args: []string{"s3", "frame", "", "--bucket", b.Bucket}, Env: b.Env, In: "no\n", Terminal: true}
	if o := i.Run(t.Context()); o.Code != cli.ExitFailure || b.Stored("b/other") != "x" {
		t.Errorf("exit code %d, stderr: %s", o.Code, o.Err)
	}
	if o := b.Run("frame", "", "--yes").Want(t, cli.ExitOK); o.Out != "keys framed: 1 (1 B), skipped: 6, failed: 0\n" {
		t.Errorf("frame again: %q", o.Out)
	}
}

// Stopped in the middle it can be started again, and a lost lock ends it.
func TestS3FrameAgain(t *testing.T) {
	t.Parallel()
	b := clitest.NewPail(t)
	for n := range 6 {
		b.PutBare(fmt.Sprintf("a/%d", n), "12345")
	}
	frame := clitest.Invocation{Args: []string{"s3", "frame", "a/", "--yes", "--bucket", b.Bucket}, Env: b.Under(7).Env}
	held := b.Link.Hold(about(s3link.PutObject), 3) // the mark, a/0, a/1
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-held.Taken()
		cancel(cli.SignalError{Signal: syscall.SIGTERM})
	}()
	o := frame.Run(ctx)
	if o.Code != cli.ExitSignal+15 || !strings.Contains(last(o.Err), "stopped by SIGTERM; so far keys framed: 1 (5 B), ") || !strings.Contains(last(o.Err), "start it again") {
		t.Errorf("exit code %d, stderr: %s", o.Code, o.Err)
	}
	again := b.Link.Hold(about(s3link.PutObject), 3)
	ended := make(chan clitest.Outcome, 1)
	go func() { ended <- frame.Run(t.Context()) }()
	<-again.Taken()
	b.Under(8).Put("elsewhere", "x")
	b.With("ft1:x:1:h:i:stock").Feed("x", "put", "-", "a/5", "--legacy").Want(t, cli.ExitOK)
	again.Abandon()
	if o = <-ended; o.Code != cli.ExitOK || o.Out != "keys framed: 4 (20 B), skipped: 2, failed: 0\n" {
		t.Errorf("exit code %d\nstdout: %s\nstderr: %s", o.Code, o.Out, o.Err)
	}

	b.PutBare("b/1", "x")
	b.PutBare("b/2", "x")
	frame = clitest.Invocation{Args: []string{"s3", "frame", "b/", "--yes", "--bucket", b.Bucket}, Env: b.Under(7).Env}
	o = frame.Run(t.Context())
	if o.Code != cli.ExitDenied || !strings.Contains(last(o.Err), "stale token") || !strings.Contains(last(o.Err), "so far keys framed: 0 (0 B), skipped: 0, failed: 0") {
		t.Errorf("exit code %d, stderr: %s", o.Code, o.Err)
	}
	frame.Env = b.Under(9).Env // overtaken in the middle
	held = b.Link.Hold(func(r s3link.Request) bool { return r.Op == s3link.PutObject && r.Key == "b/1" }, 1)
	go func() { ended <- frame.Run(t.Context()) }()
	<-held.Taken()
	b.Under(10).Feed("x", "put", "-", "b/1", "--legacy").Want(t, cli.ExitOK)
	held.Abandon()
	o = <-ended
	if o.Code != cli.ExitDenied || strings.Count(o.Err, "\nframe b/") != 1 || !strings.Contains(last(o.Err), "stale token") || !strings.Contains(last(o.Err), "so far keys framed: 0 (0 B), skipped: 0, failed: 1") {
		t.Errorf("exit code %d, stderr: %s", o.Code, o.Err)
	}
}

// last is the last line of a text.
func last(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return lines[len(lines)-1]
}

func TestS3Rebind(t *testing.T) {
	t.Parallel()
	b := clitest.NewPail(t)
	stock := b.With("ft1:x:3:h:i:stock")
	for _, key := range []string{"a/1", "a/2", "a/gone", "b/1"} {
		b.Under(7).Put(key, "of "+key)
	}
	b.Under(7).Run("rm", "a/gone").Want(t, cli.ExitOK)
	stock.Put("a/3", "x")
	rebind := func(b *clitest.Pail, args ...string) clitest.Outcome {
		return b.Run(append([]string{"rebind", "a/", "stock", "--from", "orders"}, args...)...)
	}

	var got rewritten
	want := rewritten{Changed: 3, Skipped: 1, Bytes: 12}
	if clitest.Decode(t, rebind(b.With(""), "--dry-run", "--json").Want(t, cli.ExitOK).Out, &got); got != want {
		t.Errorf("--dry-run: %+v", got)
	}
	stock.Feed("x", "put", "-", "a/1").Want(t, cli.ExitDenied, "belongs to another resource")
	o := rebind(stock, "--yes", "--json").Want(t, cli.ExitOK, "Hold both locks", `What begins with "a/" and belongs to resource "orders"`)
	if clitest.Decode(t, o.Out, &got); got != want {
		t.Errorf("rebind: %+v", got)
	}
	if o := rebind(stock, "--yes").Want(t, cli.ExitOK); o.Out != "keys rebound: 0 (0 B), skipped: 4, failed: 0\n" {
		t.Errorf("rebind again: %q", o.Out)
	}
	for _, key := range []string{"a/1", "a/gone"} {
		b.Under(7).Feed("x", "put", "-", key).Want(t, cli.ExitDenied, "belongs to another resource")
		stock.Put(key, "of stock")
	}
	b.Holds("a/2", "of a/2")
	b.Under(7).Put("b/1", "still of orders")
}

func TestS3Adopt(t *testing.T) {
	t.Parallel()
	b := clitest.NewPail(t)
	o := b.Run("adopt", "ships", "--issuer", "n0", "--yes").Want(t, cli.ExitOK, "nobody has claimed it so far")
	if o.Out != `"ships" now takes its numbers from issuer n0, generation 1`+"\n" {
		t.Errorf("adopt prints %q", o.Out)
	}
	b.Under(7).Put("k", "before")
	b.Run("adopt", "orders", "--issuer", "n7").Want(t, cli.ExitUsage, "give --yes")
	var got struct {
		Resource   string `json:"resource"`
		Generation int    `json:"generation"`
		Issuer     string `json:"issuer"`
		Writer     string `json:"writer"`
		Holder     string `json:"holder"`
		Reader     string `json:"reader"`
	}
	o = b.Run("adopt", "orders", "--issuer", "n7", "--yes", "--json").Want(t, cli.ExitOK, `"orders" is about to go from issuer i (writer 7, reader 0) to issuer n7`)
	if clitest.Decode(t, o.Out, &got); got.Issuer != "n7" || got.Generation != 1 || got.Writer != "0" || got.Resource != "orders" {
		t.Errorf("JSON: %+v", got)
	}
	b.Under(8).Feed("x", "put", "-", "k").Want(t, cli.ExitDenied, "foreign issuer")
	b.With("ft1:x:1:h:n7:orders").Put("k", "after")
	b.Holds("k", "after")
	o = b.Run("adopt", "orders", "--issuer", "i", "--yes")
	if o.Code != cli.ExitFailure || !strings.Contains(last(o.Err), "issuer was used before: \"i\"; give the lock service a new issuer first: fenceproxy lock rotate-issuer") {
		t.Errorf("exit code %d, stderr: %s", o.Code, o.Err)
	}
}

func TestS3Meter(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	m := newMeter(&out, "framed")
	m.show(s3store.Progress{Key: "soon"})
	if out.Len() > 0 {
		t.Errorf("at once: %q", out.String())
	}
	m.every = 0
	m.show(s3store.Progress{Key: "a\nb", Changed: 3, Skipped: 2, Failed: 1, Bytes: 3 << 30})
	if m.clear(); out.String() != "framed: 3 (3.0 GiB), skipped: 2, failed: 1, at \"a\\nb\"\n" {
		t.Errorf("a line: %q", out.String())
	}
	out.Reset()
	m.live = true
	m.show(s3store.Progress{Key: strings.Repeat("ü", 100), Changed: 1, Bytes: 1023})
	m.clear()
	m.clear()
	line := "framed: 1 (1023 B), skipped: 0, failed: 0, at "
	if want := clearLine + line + strings.Repeat("ü", 78-len(line)) + "…" + clearLine; out.String() != want {
		t.Errorf("live: %q, want %q", out.String(), want)
	}
}

// An object whose Expires is no date, as many on the web are, is framed like any other.
func TestS3FrameExpires(t *testing.T) {
	t.Parallel()
	b := clitest.NewPail(t).Under(7)
	core := minio.Core{Client: b.Server.Client(t)}
	o := minio.PutObjectOptions{UserMetadata: map[string]string{"Expires": "0"}}
	_, err := core.PutObject(t.Context(), b.Bucket, "k", strings.NewReader("abc"), 3, "", "", o)
	clitest.Must(t, err)
	if o := b.Run("frame", "k", "--dry-run").Want(t, cli.ExitOK); o.Out != "keys would be framed: 1 (3 B), skipped: 0, failed: 0\n" {
		t.Errorf("--dry-run: %q", o.Out)
	}
	if o := b.Run("frame", "k", "--yes").Want(t, cli.ExitOK); o.Out != "keys framed: 1 (3 B), skipped: 0, failed: 0\n" {
		t.Errorf("frame: %q", o.Out)
	}
	b.Holds("k", "abc")
}
