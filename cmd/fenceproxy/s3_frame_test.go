package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

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
	b := newPail(t).under(7)
	before := map[string]string{"a/empty": "", "a/small": "1234", "a/60": strings.Repeat("x", 60), "a/large": strings.Repeat("x", 5000), "b/other": "x"}
	for key, value := range before {
		b.putBare(key, value)
	}
	b.put("a/framed", "x")
	b.put("a/gone", "x")
	b.run("rm", "a/gone").want(t, exitOK)

	var got rewritten
	want := rewritten{Changed: 4, Skipped: 2, Bytes: 5064}
	if decode(t, b.with("").run("frame", "a/", "--dry-run", "--json").want(t, exitOK).out, &got); got != want {
		t.Errorf("--dry-run: %+v", got)
	}
	o := b.run("frame", "a/", "--dry-run").want(t, exitOK)
	if o.out != "keys would be framed: 4 (4.9 KiB), skipped: 2, failed: 0\n" || b.stored("a/small") != "1234" {
		t.Errorf("--dry-run: %q", o.out)
	}
	o = b.run("frame", "a/", "--yes", "--json").want(t, exitOK, "a header of 64 bytes", `"a/" in bucket "`+b.bucket+`" is about to be framed, under the token of "orders"`)
	if decode(t, o.out, &got); got != want {
		t.Errorf("frame: %+v", got)
	}
	for key, value := range before {
		framed := strings.HasPrefix(key, "a/")
		if raw := b.stored(key); !strings.HasSuffix(raw, value) || (len(raw) == layout.HeaderSize+len(value)) != framed {
			t.Errorf("%s has %d bytes", key, len(raw))
		}
	}
	b.holds("a/small", "1234")
	var info objectDocument
	decode(t, b.run("get", "a/small", t.TempDir()+"/f", "--json").want(t, exitOK).out, &info)
	if info.ContentType != "text/plain" || info.Metadata["Origin"] != "before" {
		t.Errorf("what is stored with it: %+v", info)
	}
	// Somebody at the terminal is asked.
	i := invocation{args: []string{"s3", "frame", "", "--bucket", b.bucket}, env: b.env, in: "no\n", terminal: true}
	if o := i.run(t.Context()); o.code != exitFailure || b.stored("b/other") != "x" {
		t.Errorf("exit code %d, stderr: %s", o.code, o.err)
	}
	if o := b.run("frame", "", "--yes").want(t, exitOK); o.out != "keys framed: 1 (1 B), skipped: 6, failed: 0\n" {
		t.Errorf("frame again: %q", o.out)
	}
}

// Stopped in the middle it can be started again, and a lost lock ends it.
func TestS3FrameAgain(t *testing.T) {
	t.Parallel()
	b := newPail(t)
	for n := range 6 {
		b.putBare(fmt.Sprintf("a/%d", n), "12345")
	}
	frame := invocation{args: []string{"s3", "frame", "a/", "--yes", "--bucket", b.bucket}, env: b.under(7).env}
	held := b.link.Hold(about(s3link.PutObject), 3) // the mark, a/0, a/1
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-held.Taken()
		cancel(signalError{signal: syscall.SIGTERM})
	}()
	o := frame.run(ctx)
	if o.code != exitSignal+15 || !strings.Contains(last(o.err), "stopped by SIGTERM; so far keys framed: 1 (5 B), ") || !strings.Contains(last(o.err), "start it again") {
		t.Errorf("exit code %d, stderr: %s", o.code, o.err)
	}
	again := b.link.Hold(about(s3link.PutObject), 3)
	ended := make(chan outcome, 1)
	go func() { ended <- frame.run(t.Context()) }()
	<-again.Taken()
	b.under(8).put("elsewhere", "x")
	b.with("ft1:x:1:h:i:stock").feed("x", "put", "-", "a/5", "--legacy").want(t, exitOK)
	again.Abandon()
	if o = <-ended; o.code != exitOK || o.out != "keys framed: 4 (20 B), skipped: 2, failed: 0\n" {
		t.Errorf("exit code %d\nstdout: %s\nstderr: %s", o.code, o.out, o.err)
	}

	b.putBare("b/1", "x")
	b.putBare("b/2", "x")
	frame = invocation{args: []string{"s3", "frame", "b/", "--yes", "--bucket", b.bucket}, env: b.under(7).env}
	o = frame.run(t.Context())
	if o.code != exitDenied || !strings.Contains(last(o.err), "stale token") || !strings.Contains(last(o.err), "so far keys framed: 0 (0 B), skipped: 0, failed: 0") {
		t.Errorf("exit code %d, stderr: %s", o.code, o.err)
	}
	frame.env = b.under(9).env // overtaken in the middle
	held = b.link.Hold(func(r s3link.Request) bool { return r.Op == s3link.PutObject && r.Key == "b/1" }, 1)
	go func() { ended <- frame.run(t.Context()) }()
	<-held.Taken()
	b.under(10).feed("x", "put", "-", "b/1", "--legacy").want(t, exitOK)
	held.Abandon()
	o = <-ended
	if o.code != exitDenied || strings.Count(o.err, "\nframe b/") != 1 || !strings.Contains(last(o.err), "stale token") || !strings.Contains(last(o.err), "so far keys framed: 0 (0 B), skipped: 0, failed: 1") {
		t.Errorf("exit code %d, stderr: %s", o.code, o.err)
	}
}

// last is the last line of a text.
func last(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return lines[len(lines)-1]
}

func TestS3Rebind(t *testing.T) {
	t.Parallel()
	b := newPail(t)
	stock := b.with("ft1:x:3:h:i:stock")
	for _, key := range []string{"a/1", "a/2", "a/gone", "b/1"} {
		b.under(7).put(key, "of "+key)
	}
	b.under(7).run("rm", "a/gone").want(t, exitOK)
	stock.put("a/3", "x")
	rebind := func(b *pail, args ...string) outcome {
		return b.run(append([]string{"rebind", "a/", "stock", "--from", "orders"}, args...)...)
	}

	var got rewritten
	want := rewritten{Changed: 3, Skipped: 1, Bytes: 12}
	if decode(t, rebind(b.with(""), "--dry-run", "--json").want(t, exitOK).out, &got); got != want {
		t.Errorf("--dry-run: %+v", got)
	}
	stock.feed("x", "put", "-", "a/1").want(t, exitDenied, "belongs to another resource")
	o := rebind(stock, "--yes", "--json").want(t, exitOK, "Hold both locks", `What begins with "a/" and belongs to resource "orders"`)
	if decode(t, o.out, &got); got != want {
		t.Errorf("rebind: %+v", got)
	}
	if o := rebind(stock, "--yes").want(t, exitOK); o.out != "keys rebound: 0 (0 B), skipped: 4, failed: 0\n" {
		t.Errorf("rebind again: %q", o.out)
	}
	for _, key := range []string{"a/1", "a/gone"} {
		b.under(7).feed("x", "put", "-", key).want(t, exitDenied, "belongs to another resource")
		stock.put(key, "of stock")
	}
	b.holds("a/2", "of a/2")
	b.under(7).put("b/1", "still of orders")
}

func TestS3Adopt(t *testing.T) {
	t.Parallel()
	b := newPail(t)
	o := b.run("adopt", "ships", "--issuer", "n0", "--yes").want(t, exitOK, "nobody has claimed it so far")
	if o.out != `"ships" now takes its numbers from issuer n0, generation 1`+"\n" {
		t.Errorf("adopt prints %q", o.out)
	}
	b.under(7).put("k", "before")
	b.run("adopt", "orders", "--issuer", "n7").want(t, exitUsage, "give --yes")
	var got struct {
		Resource   string `json:"resource"`
		Generation int    `json:"generation"`
		Issuer     string `json:"issuer"`
		Writer     string `json:"writer"`
		Holder     string `json:"holder"`
		Reader     string `json:"reader"`
	}
	o = b.run("adopt", "orders", "--issuer", "n7", "--yes", "--json").want(t, exitOK, `"orders" is about to go from issuer i (writer 7, reader 0) to issuer n7`)
	if decode(t, o.out, &got); got.Issuer != "n7" || got.Generation != 1 || got.Writer != "0" || got.Resource != "orders" {
		t.Errorf("JSON: %+v", got)
	}
	b.under(8).feed("x", "put", "-", "k").want(t, exitDenied, "foreign issuer")
	b.with("ft1:x:1:h:n7:orders").put("k", "after")
	b.holds("k", "after")
	o = b.run("adopt", "orders", "--issuer", "i", "--yes")
	if o.code != exitFailure || !strings.Contains(last(o.err), "issuer was used before: \"i\"; give the lock service a new issuer first: fenceproxy lock rotate-issuer") {
		t.Errorf("exit code %d, stderr: %s", o.code, o.err)
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
