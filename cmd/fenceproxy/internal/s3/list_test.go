package s3

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
)

func TestS3Ls(t *testing.T) {
	t.Parallel()
	b := clitest.NewPail(t).Under(7)
	if o := b.Run("ls").Want(t, cli.ExitOK); o.Out != "" {
		t.Errorf("an empty bucket lists %q", o.Out)
	}
	b.Run("ls", "reports/").Want(t, cli.ExitNotFound, `nothing in bucket "`+b.Bucket+`" begins with "reports/"`)
	for key, value := range map[string]string{
		"reports/2025/a": "1", "reports/2026/b": "22", "reports/c d": "", "reports/e\nf": "x", "top": strings.Repeat("x", 300),
	} {
		b.Put(key, value)
	}
	b.Put("reports/gone", "x")
	b.Run("rm", "reports/gone").Want(t, cli.ExitOK)

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
		o := b.Run(append([]string{"ls"}, c.args...)...).Want(t, cli.ExitOK)
		if !regexp.MustCompile(`^` + c.want + `$`).MatchString(o.Out) {
			t.Errorf("ls %v:\n%s", c.args, o.Out)
		}
	}
	if o := b.With("").Run("ls", "top", "--no-token").Want(t, cli.ExitOK); !strings.Contains(o.Out, "top") {
		t.Errorf("without a token: %s", o.Out)
	}
	b.Under(6).Run("ls").Want(t, cli.ExitDenied, "stale token", "acquire it again")

	o := b.Run("ls", "reports/", "--json").Want(t, cli.ExitOK)
	lines := strings.Split(strings.TrimSuffix(o.Out, "\n"), "\n")
	if len(lines) != 4 || lines[2] != `{"prefix":"reports/2025/"}` {
		t.Fatalf("JSON:\n%s", o.Out)
	}
	var got objectDocument
	clitest.Must(t, json.Unmarshal([]byte(lines[0]), &got))
	if got.Key != "reports/c d" || got.Size != 0 || len(got.ETag) < 16 || got.Modified.IsZero() {
		t.Errorf("JSON: %+v", got)
	}
	// An ETag of a listing is good for a condition.
	b.Feed("new", "put", "-", "reports/c d", "--if-match", got.ETag).Want(t, cli.ExitOK)
}

func TestS3Legacy(t *testing.T) {
	t.Parallel()
	b := clitest.NewPail(t).Under(7)
	b.PutBare("small", "before")
	b.PutBare("large", strings.Repeat("x", 100))
	b.Put("framed", "value")
	o := b.Run("ls").Want(t, cli.ExitDenied, "objects left out since they are not framed: 1; ", "fenceproxy s3 frame", "--legacy")
	if strings.Contains(o.Out, "small") || !strings.Contains(o.Out, "framed") {
		t.Errorf("ls:\n%s", o.Out)
	}
	o = b.Run("ls", "--legacy").Want(t, cli.ExitOK)
	if !strings.Contains(o.Out, "          5 framed\n") || !strings.Contains(o.Out, "        100 large\n") || !strings.Contains(o.Out, "          6 small\n") {
		t.Errorf("ls --legacy:\n%s", o.Out)
	}
	for _, args := range [][]string{{"get", "small", "-"}, {"put", "-", "small"}, {"rm", "small"}} {
		b.Run(args...).Want(t, cli.ExitDenied, "object is not framed", "'fenceproxy s3 frame'", "--legacy")
	}
	if o := b.Run("get", "small", "-", "--legacy").Want(t, cli.ExitOK); o.Out != "before" {
		t.Errorf("get --legacy: %q", o.Out)
	}
	b.Feed("after", "put", "-", "small", "--legacy").Want(t, cli.ExitOK)
	b.Holds("small", "after")
	b.Run("rm", "large", "--legacy").Want(t, cli.ExitOK)
	b.Run("get", "large", "-").Want(t, cli.ExitNotFound)
}

func TestS3Rm(t *testing.T) {
	t.Parallel()
	b := clitest.NewPail(t).Under(7)
	for n := range 5 {
		b.Put(fmt.Sprintf("a/%d", n), "x")
	}
	b.Put("a-other", "x")
	b.Put("b\nc", "x")

	if o := b.Run("rm", "b\nc", "never").Want(t, cli.ExitOK); !strings.Contains(o.Out, "delete: \"b\\nc\"\n") || !strings.Contains(o.Out, "delete: never\n") {
		t.Errorf("rm prints %q", o.Out)
	}
	b.Run("rm", "a/0", "--if-match", "0123").Want(t, cli.ExitHeld, "precondition failed")
	b.Run("rm", "never", "--if-match", "*").Want(t, cli.ExitHeld, "precondition failed")
	o := b.Run("rm", "-r", "a/", "--dry-run").Want(t, cli.ExitOK)
	if strings.Count(o.Out, "(dry run) delete: a/") != 5 || strings.Contains(o.Out, "other") {
		t.Errorf("--dry-run prints:\n%s", o.Out)
	}
	o = b.Run("rm", "--recursive", "a/").Want(t, cli.ExitOK)
	if strings.Count(o.Out, "delete: a/") != 5 || strings.Count(o.Out, "\n") != 5 {
		t.Errorf("--recursive prints:\n%s", o.Out)
	}
	if o := b.Run("ls", "-r").Want(t, cli.ExitOK); strings.Count(o.Out, "\n") != 1 || !strings.HasSuffix(o.Out, " a-other\n") {
		t.Errorf("left:\n%s", o.Out)
	}
	// What was deleted is not created again by an older holder (I1).
	b.Under(6).Feed("late", "put", "-", "a/1").Want(t, cli.ExitDenied, "stale token")
	b.Run("rm", "-r", "").Want(t, cli.ExitOK)
	if o := b.Run("ls", "-r").Want(t, cli.ExitOK); o.Out != "" {
		t.Errorf("left:\n%s", o.Out)
	}
}

// One that cannot be deleted does not hold up the others; a lost lock does.
func TestS3RmSome(t *testing.T) {
	t.Parallel()
	b := clitest.NewPail(t)
	b.Under(7).Put("d/1", "x")
	b.With("ft1:x:1:h:i:stock").Put("d/2", "x")
	b.With("ft1:x:1:h:i:stock").Put("d/3", "x")
	b.Under(7).Put("d/4", "x")
	o := b.Under(7).Run("rm", "-r", "d/")
	if o.Code != cli.ExitDenied || strings.Count(o.Err, "\n") != 2 || strings.Count(o.Out, "\n") != 2 {
		t.Errorf("exit code %d\nstdout: %s\nstderr: %s", o.Code, o.Out, o.Err)
	}
	if !strings.Contains(o.Err, "deleted: 2, not deleted: 2; ") || strings.Count(o.Err, "belongs to another resource") != 2 {
		t.Errorf("stderr: %s", o.Err)
	}

	keys := []string{"rm"}
	for n := range 20 {
		keys = append(keys, fmt.Sprintf("e/%d", n))
		b.Under(8).Put(keys[n+1], "newer")
	}
	if o := b.Under(7).Run(keys...).Want(t, cli.ExitDenied, "stale token", "acquire it again"); o.Out != "" {
		t.Errorf("deleted: %s", o.Out)
	}
	b.Holds("e/3", "newer")
}
