package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

func TestS3Ls(t *testing.T) {
	t.Parallel()
	b := newPail(t).under(7)
	if o := b.run("ls").want(t, exitOK); o.out != "" {
		t.Errorf("an empty bucket lists %q", o.out)
	}
	b.run("ls", "reports/").want(t, exitNotFound, `nothing in bucket "`+b.bucket+`" begins with "reports/"`)
	for key, value := range map[string]string{
		"reports/2025/a": "1", "reports/2026/b": "22", "reports/c d": "", "reports/e\nf": "x", "top": strings.Repeat("x", 300),
	} {
		b.put(key, value)
	}
	b.put("reports/gone", "x")
	b.run("rm", "reports/gone").want(t, exitOK)

	const at, pre = `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`, "                           PRE "
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, at + "        300 top\n" + pre + "reports/\n"},
		{[]string{"reports/"}, at + "          0 c d\n" + at + `          1 "e\\nf"` + "\n" + pre + "2025/\n" + pre + "2026/\n"},
		{[]string{"reports/20"}, pre + "2025/\n" + pre + "2026/\n"},
		{[]string{"reports/2", "-r"}, at + "          1 reports/2025/a\n" + at + "          2 reports/2026/b\n"},
	} {
		o := b.run(append([]string{"ls"}, c.args...)...).want(t, exitOK)
		if !regexp.MustCompile(`^` + c.want + `$`).MatchString(o.out) {
			t.Errorf("ls %v:\n%s", c.args, o.out)
		}
	}
	if o := b.with("").run("ls", "top", "--no-token").want(t, exitOK); !strings.Contains(o.out, "top") {
		t.Errorf("without a token: %s", o.out)
	}
	b.under(6).run("ls").want(t, exitDenied, "stale token", "acquire it again")

	o := b.run("ls", "reports/", "--json").want(t, exitOK)
	lines := strings.Split(strings.TrimSuffix(o.out, "\n"), "\n")
	if len(lines) != 4 || lines[2] != `{"prefix":"reports/2025/"}` {
		t.Fatalf("JSON:\n%s", o.out)
	}
	var got objectDocument
	must(t, json.Unmarshal([]byte(lines[0]), &got))
	if got.Key != "reports/c d" || got.Size != 0 || len(got.ETag) < 16 || got.Modified.IsZero() {
		t.Errorf("JSON: %+v", got)
	}
	// An ETag of a listing is good for a condition.
	b.feed("new", "put", "-", "reports/c d", "--if-match", got.ETag).want(t, exitOK)
}

func TestS3Legacy(t *testing.T) {
	t.Parallel()
	b := newPail(t).under(7)
	b.putBare("small", "before")
	b.putBare("large", strings.Repeat("x", 100))
	b.put("framed", "value")
	o := b.run("ls").want(t, exitDenied, "objects left out since they are not framed: 1; ", "fenceproxy s3 frame", "--legacy")
	if strings.Contains(o.out, "small") || !strings.Contains(o.out, "framed") {
		t.Errorf("ls:\n%s", o.out)
	}
	o = b.run("ls", "--legacy").want(t, exitOK)
	if !strings.Contains(o.out, "          5 framed\n") || !strings.Contains(o.out, "        100 large\n") || !strings.Contains(o.out, "          6 small\n") {
		t.Errorf("ls --legacy:\n%s", o.out)
	}
	for _, args := range [][]string{{"get", "small", "-"}, {"put", "-", "small"}, {"rm", "small"}} {
		b.run(args...).want(t, exitDenied, "object is not framed", "'fenceproxy s3 frame'", "--legacy")
	}
	if o := b.run("get", "small", "-", "--legacy").want(t, exitOK); o.out != "before" {
		t.Errorf("get --legacy: %q", o.out)
	}
	b.feed("after", "put", "-", "small", "--legacy").want(t, exitOK)
	b.holds("small", "after")
	b.run("rm", "large", "--legacy").want(t, exitOK)
	b.run("get", "large", "-").want(t, exitNotFound)
}

func TestS3Rm(t *testing.T) {
	t.Parallel()
	b := newPail(t).under(7)
	for n := range 5 {
		b.put(fmt.Sprintf("a/%d", n), "x")
	}
	b.put("a-other", "x")
	b.put("b\nc", "x")

	if o := b.run("rm", "b\nc", "never").want(t, exitOK); !strings.Contains(o.out, "delete: \"b\\nc\"\n") || !strings.Contains(o.out, "delete: never\n") {
		t.Errorf("rm prints %q", o.out)
	}
	b.run("rm", "a/0", "--if-match", "0123").want(t, exitHeld, "precondition failed")
	b.run("rm", "never", "--if-match", "*").want(t, exitHeld, "precondition failed")
	o := b.run("rm", "-r", "a/", "--dry-run").want(t, exitOK)
	if strings.Count(o.out, "(dry run) delete: a/") != 5 || strings.Contains(o.out, "other") {
		t.Errorf("--dry-run prints:\n%s", o.out)
	}
	o = b.run("rm", "--recursive", "a/").want(t, exitOK)
	if strings.Count(o.out, "delete: a/") != 5 || strings.Count(o.out, "\n") != 5 {
		t.Errorf("--recursive prints:\n%s", o.out)
	}
	if o := b.run("ls", "-r").want(t, exitOK); strings.Count(o.out, "\n") != 1 || !strings.HasSuffix(o.out, " a-other\n") {
		t.Errorf("left:\n%s", o.out)
	}
	// What was deleted is not created again by an older holder (I1).
	b.under(6).feed("late", "put", "-", "a/1").want(t, exitDenied, "stale token")
	b.run("rm", "-r", "").want(t, exitOK)
	if o := b.run("ls", "-r").want(t, exitOK); o.out != "" {
		t.Errorf("left:\n%s", o.out)
	}
}

// One that cannot be deleted does not hold up the others; a lost lock does.
func TestS3RmSome(t *testing.T) {
	t.Parallel()
	b := newPail(t)
	b.under(7).put("d/1", "x")
	b.with("ft1:x:1:h:i:stock").put("d/2", "x")
	b.with("ft1:x:1:h:i:stock").put("d/3", "x")
	b.under(7).put("d/4", "x")
	o := b.under(7).run("rm", "-r", "d/")
	if o.code != exitDenied || strings.Count(o.err, "\n") != 2 || strings.Count(o.out, "\n") != 2 {
		t.Errorf("exit code %d\nstdout: %s\nstderr: %s", o.code, o.out, o.err)
	}
	if !strings.Contains(o.err, "deleted: 2, not deleted: 2; ") || strings.Count(o.err, "belongs to another resource") != 2 {
		t.Errorf("stderr: %s", o.err)
	}

	keys := []string{"rm"}
	for n := range 20 {
		keys = append(keys, fmt.Sprintf("e/%d", n))
		b.under(8).put(keys[n+1], "newer")
	}
	if o := b.under(7).run(keys...).want(t, exitDenied, "stale token", "acquire it again"); o.out != "" {
		t.Errorf("deleted: %s", o.out)
	}
	b.holds("e/3", "newer")
}
