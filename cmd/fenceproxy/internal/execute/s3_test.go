package execute

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
)

// TestExecS3 runs the built program: a shell that works on a bucket under a lock.
func TestExecS3(t *testing.T) {
	t.Parallel()
	program := clitest.Built(t)
	for name, f := range map[string]func(*testing.T, *theatre){
		"claim":       testExecS3Claim,
		"claim fails": testExecS3ClaimFails,
		"claim heals": testExecS3Heals,
		"proxy":       testExecS3Proxy,
		"README":      testReadmeS3,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd := testenv.Etcd(t)
			f(t, &theatre{t: t, program: program, etcd: etcd, prefix: "test/" + locks.NewID() + "/"})
		})
	}
}

// urlOf is the bucket's, with what else there is to say in the environment.
func urlOf(b *clitest.Pail) string {
	return "s3://" + b.Bucket + "?endpoint=" + b.Env["AWS_ENDPOINT_URL"]
}

// at starts exec with the environment of a bucket.
func (x *theatre) at(b *clitest.Pail, args ...string) *act {
	x.t.Helper()
	a := x.prepare(args...)
	for name, value := range b.Env {
		a.cmd.Env = append(a.cmd.Env, name+"="+value)
	}
	a.cmd.Env = append(a.cmd.Env, "BUCKET="+b.Bucket, "FENCEPROXY="+x.program)
	clitest.Must(x.t, a.cmd.Start())
	a.watch()
	return a
}

func (x *theatre) claiming(b *clitest.Pail, claim string, script string) *act {
	x.t.Helper()
	return x.at(b, "--lock", x.lock(""), "--resource", "orders", "--claim", claim, "--", "sh", "-c", script)
}

func testExecS3Claim(t *testing.T, x *theatre) {
	b := clitest.NewPail(t)
	a := x.claiming(b, urlOf(b), `echo "$FENCE_TOKEN"; echo one | "$FENCEPROXY" s3 put - k --bucket "$BUCKET"`)
	token := a.line()
	a.line() // the ETag
	a.ends(cli.ExitOK)
	b.Holds("k", "one\n")
	// The claim alone closes the resource to older tokens, before the program does
	// anything.
	x.claiming(b, urlOf(b), "true").ends(cli.ExitOK)
	b.With(token).Feed("late", "put", "-", "k").Want(t, cli.ExitDenied, "stale token")
	b.With(token).Feed("late", "put", "-", "new").Want(t, cli.ExitDenied, "stale token")

	// With a database too.
	url := protected(t)
	a = x.at(b, "--lock", x.lock(""), "--resource", "orders", "--claim", url, "--claim", urlOf(b), "--claim-wait", "5s", "--",
		"sh", "-c", `echo two | "$FENCEPROXY" s3 put - k --bucket "$BUCKET" >/dev/null && `+shellWords(psql(t, url, fmt.Sprintf(insert, "both"))))
	a.ends(cli.ExitOK)
	b.Holds("k", "two\n")
	if got := notes(t, url); got != "both" {
		t.Errorf("entries: %q", got)
	}
}

func testExecS3ClaimFails(t *testing.T, x *theatre) {
	b := clitest.NewPail(t)
	ends := func(b *clitest.Pail, claim string, code int, words ...string) {
		t.Helper()
		if out := x.claiming(b, claim, "echo started").ends(code, words...); out != "" {
			t.Errorf("the command has run: %q", out)
		}
	}
	ends(b, "s3://no-such?endpoint="+b.Env["AWS_ENDPOINT_URL"], cli.ExitNotFound, `there is no bucket "no-such"`)
	ends(b, "s3://bucket?endpoint=http://127.0.0.1:1", cli.ExitUnreachable, "the store at http://127.0.0.1:1", "check the endpoint")
	wrong := b.With("")
	wrong.Env["AWS_SECRET_ACCESS_KEY"] = "s3cret"
	ends(wrong, urlOf(b), cli.ExitDenied, "check the keys")
	unknown := b.With("")
	unknown.Env["AWS_ACCESS_KEY_ID"] = "unknown"
	ends(unknown, urlOf(b), cli.ExitDenied, "the store at "+b.Env["AWS_ENDPOINT_URL"]+": No user exists", "; check the keys, and what their user may do")

	b.With("ft1:x:5:h:somebody:orders").Put("k", "x")
	ends(b, urlOf(b), cli.ExitDenied, "foreign issuer", "fenceproxy s3 adopt 'orders' --issuer ", " --bucket "+b.Bucket)
	issuer := strings.TrimSpace(x.claiming(b, "s3://"+clitest.NewPail(t).Bucket, `echo "$FENCE_TOKEN" | cut -d: -f5`).ends(cli.ExitOK))
	b.Run("adopt", "orders", "--issuer", issuer, "--yes").Want(t, cli.ExitOK)
	x.claiming(b, urlOf(b), "true").ends(cli.ExitOK)
	// A lock service whose numbers went back, and that takes no floor.
	b.With(fmt.Sprintf("ft1:x:%d:h:%s:orders", int64(1)<<40, issuer)).Put("k", "x")
	x.claiming(b, urlOf(b), "true").ends(cli.ExitDenied, "stale token", "the lock service hands out numbers", "fenceproxy s3 adopt 'orders' --issuer NEW")
}

// Redis has lost its numbers, and its clock is behind: exec acquires above the
// mark of the bucket.
func testExecS3Heals(t *testing.T, x *theatre) {
	b := clitest.NewPail(t)
	ahead := time.Now().Add(time.Hour).UnixMicro()
	b.With(fmt.Sprintf("ft1:x:%d:h:redis:orders", ahead)).Put("k", "before")
	lock := fmt.Sprintf("redis://%s?prefix=%s:", testenv.Redis(t).Addr(), locks.NewID())
	a := x.at(b, "--lock", lock, "--resource", "orders", "--claim", urlOf(b), "--", "sh", "-c", `echo $FENCE_TOKEN; echo healed | "$FENCEPROXY" s3 put - k --bucket "$BUCKET" >/dev/null`)
	token, err := guard.Parse(a.line())
	if err != nil || token.Number != ahead+1 {
		t.Errorf("token %+v, %v, want the number %d", token, err, ahead+1)
	}
	a.ends(cli.ExitOK)
	b.Holds("k", "healed\n")
}

// A client that knows nothing of tokens writes through the proxy, and no more
// when somebody else has the lock.
func testExecS3Proxy(t *testing.T, x *theatre) {
	s := clitest.NewShop(t, x.program)
	p := s.Serve(clitest.OneShop)
	addr := p.Addr("127.0.0.1:0")
	aws := testenv.Program(t, "aws", "/usr/bin/aws")
	// Versions before 2.13 do not read the endpoint.
	put := func(value string) string {
		return "echo " + value + ` | "$AWS" --endpoint-url "$AWS_ENDPOINT_URL_S3" s3 cp - s3://` + s.Bucket + "/k"
	}
	env := []string{
		"AWS=" + aws, "AWS_ACCESS_KEY_ID=app", "AWS_SECRET_ACCESS_KEY=s3cret-of-the-app", "AWS_REGION=" + s.Server.Region,
		"AWS_ENDPOINT_URL=http://" + s.Server.Endpoint(), "AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null",
	}
	under := func(value string) (token string) {
		t.Helper()
		a := x.prepare("--lock", x.lock(""), "--resource", "orders", "--s3", "http://"+addr, "--", "sh", "-c", `echo "$AWS_SESSION_TOKEN"; `+put(value))
		a.cmd.Env = append(a.cmd.Env, env...)
		clitest.Must(t, a.cmd.Start())
		a.watch()
		token = a.line()
		a.ends(cli.ExitOK)
		s.Holds(addr, value+"\n")
		return token
	}
	old := under("one")
	under("two")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", put("late"))
	cmd.Env = append(append(os.Environ(), env...), "AWS_SESSION_TOKEN="+old, "AWS_ENDPOINT_URL_S3=http://"+addr)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "FenceTokenStale") {
		t.Errorf("the old holder: %v: %s", err, out)
	}
	s.Holds(addr, "two\n")
	// What works on the store itself says what is wrong.
	a := x.prepare("--lock", x.lock(""), "--resource", "orders", "--s3", "http://"+addr, "--", x.program, "s3", "ls", "--no-token", "--bucket", s.Bucket)
	a.cmd.Env = append(a.cmd.Env, env...)
	clitest.Must(t, a.cmd.Start())
	a.watch()
	a.ends(cli.ExitUsage, "the environment is that of exec --s3, for clients of the proxy at http://"+addr)
}

// What README.md shows of a shell does what it says.
func testReadmeS3(t *testing.T, x *theatre) {
	_, section, found := strings.Cut(clitest.Text(t, "../../../../README.md"), "\n## Objects in S3\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var script []string
	for line := range strings.SplitSeq(section, "\n") {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			script = append(script, code)
		}
	}
	if !found || len(script) < 5 {
		t.Fatalf("README.md shows %q", script)
	}
	b := clitest.NewPail(t)
	b.Env["AWS_ENDPOINT_URL"] = "http://" + b.Server.Endpoint()
	b.PutBare("reports/old.csv", "old")
	all := strings.NewReplacer(
		"https://s3.example", b.Env["AWS_ENDPOINT_URL"], "etcd://etcd1:2379,etcd2:2379,etcd3:2379", x.lock(""),
		"--bucket app", "--bucket "+b.Bucket, "s3://app", "s3://"+b.Bucket,
	).Replace(strings.Join(script, "\n"))
	dir := t.TempDir()
	clitest.Must(t, os.WriteFile(dir+"/report", []byte("#!/bin/sh\necho report\n"), 0o700))
	clitest.Must(t, os.Symlink(x.program, dir+"/fenceproxy"))
	a := x.at(b, "--lock", x.lock(""), "--resource", "unused", "--", "bash", "-ec", "unset FENCE_TOKEN; cd '"+dir+"'; PATH=.:$PATH\n"+all)
	out := a.ends(cli.ExitOK)
	for _, want := range []string{"can hold fenced objects", " today.csv\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not print %q:\n%s\nstderr: %s", want, out, a.stderr.String())
		}
	}
	b.Holds("reports/today.csv", "report\n")
	b.Holds("reports/old.csv", "old")
}
