package lock

import (
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
)

func TestLockBadUsage(t *testing.T) {
	t.Parallel()
	const lock = "etcd://u:s3cret@h"
	for _, c := range []struct{ args, says string }{
		{"", "choose one of rotate-issuer, status"},
		{"status", "wants one argument, NAME, got 0"},
		{"status orders", "no lock service: give --lock URL, or set FENCE_LOCK"},
		{"status --lock " + lock, "wants one argument, NAME, got 0"},
		{"status --lock " + lock + " " + lock + " orders", "two lock services"},
		{"status --lock s3cret orders", "--lock is not the URL of a lock service: it does not begin"},
		{"status " + lock, "NAME is missing: which resource?"},
		{"status " + lock + " orders more", "wants one argument, NAME, got 3"},
		{"status s3cret orders", "URL is not the URL of a lock service: it does not begin"},
		{"status consul://u:s3cret@h orders", "its scheme is none of"},
		{"status " + lock + "?x=s3cret orders", `parameter "x" is unknown`},
		{"status " + lock + " \x01", "control character"},
		{"status " + lock + " orders --frobnicate", "unknown flag: --frobnicate"},
		{"rotate-issuer", "no lock service: give --lock URL, or set FENCE_LOCK"},
		{"rotate-issuer " + lock + " orders", "takes no argument, got 2"},
		{"rotate-issuer --lock " + lock + " " + lock, "two lock services"},
		{"rotate-issuer u:s3cret@h", "URL is not the URL of a lock service"},
		{"rotate-issuer redis://u:s3cret@h --yes", "give everyone another issuer= in the URL"},
		{"rotate-issuer --lock redis+cluster://u:s3cret@h --yes", "its numbers rise by its clock"},
		{"rotate-issuer redis+sentinel://u:s3cret@h?master=m --yes", "is a name of your choice"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			o := clitest.Run(t, append([]string{"lock"}, strings.Fields(c.args)...)...).Want(t, cli.ExitUsage, c.says, "; see 'fenceproxy lock")
			if o.Out != "" {
				t.Errorf("stdout: %s", o.Out)
			}
			if strings.Contains(o.Err, "cret") {
				t.Errorf("stderr has the password: %s", o.Err)
			}
		})
	}
	i := clitest.Invocation{Args: []string{"lock", "status", "orders"}, Env: map[string]string{connect.LockEnv: "s3cret"}}
	i.Run(t.Context()).Want(t, cli.ExitUsage, "FENCE_LOCK is not the URL of a lock service")
}

func TestLockUnreachable(t *testing.T) {
	t.Parallel()
	// All at once: it takes each some seconds to give up.
	outcomes := map[string]<-chan clitest.Outcome{}
	// The URL is an argument too, as it was before there was --lock everywhere.
	for i, url := range []string{
		"etcd://127.0.0.1:1/x", "etcd://u:s3cret@127.0.0.1:1", "zk://u:s3cret@127.0.0.1:1",
		"redis://u:s3cret@127.0.0.1:1", "redis+cluster://u:s3cret@127.0.0.1:1",
		"redis+sentinel://u:s3cret@127.0.0.1:1?master=m&sentinel-password=s3cret", "rediss://h?cacert=/no/such/file",
	} {
		at := []string{"--lock", url}[i%2:]
		commands := [][]string{append(append([]string{"lock", "status"}, at...), "orders")}
		if !strings.HasPrefix(url, "redis") {
			commands = append(commands, append([]string{"lock", "rotate-issuer", "--yes"}, at...))
		}
		for _, args := range commands {
			ended := make(chan clitest.Outcome, 1)
			outcomes[strings.Join(args, " ")] = ended
			go func() { ended <- clitest.Run(t, args...) }()
		}
	}
	for command, ended := range outcomes {
		o := <-ended
		t.Run(command, func(t *testing.T) {
			o.Want(t, cli.ExitUnreachable, "check the URL, and that the server runs")
			if o.Out != "" {
				t.Errorf("stdout: %s", o.Out)
			}
			if strings.Contains(o.Err, "cret") {
				t.Errorf("stderr has the password: %s", o.Err)
			}
		})
	}
}
