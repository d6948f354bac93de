package execute

import (
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
)

func TestExecBadUsage(t *testing.T) {
	t.Parallel()
	const lock = "--lock redis://u:s3cret@h --resource orders "
	for _, c := range []struct{ args, says string }{
		{"--resource orders true", "no lock service: give --lock URL, or set FENCE_LOCK"},
		{"--lock redis://u:s3cret@h true", "no resource: give --resource NAME"},
		{lock, "no command to run: give it behind --"},
		{lock + "--", "no command to run"},
		{lock + "--print true", `--print runs no command, got "true"`},
		{lock + "--ttl 999ms true", "--ttl 999ms is below 1s"},
		{lock + "--ttl soon true", `: --ttl: "soon" is not a duration with a unit, as in 500ms, 10s or 5m; see`},
		{lock + "--wait 1 true", `: --wait: "1" is not a duration with a unit, as in 500ms, 10s or 5m; see`},
		{lock + "--claim-wait= true", `: --claim-wait: "" is not a duration with a unit`},
		{lock + "--wait -1s true", "--wait is below 0"},
		{lock + "--claim-wait 1s true", "--claim-wait and --evict are for a --claim in a database"},
		{lock + "--evict true", "--claim-wait and --evict are for a --claim in a database"},
		{lock + "--claim " + clitest.Nowhere + " --claim-wait 0s true", "--claim-wait is not above 0"},
		{lock + "--claim consul://s3cret true", "other resources cannot be claimed"},
		{lock + "--claim s3://u:s3cret@bucket true", "it has a user: keys come from the environment"},
		{lock + "--claim s3://bucket/s3cret true", "it has a path: a token is claimed for all of a bucket"},
		{lock + "--claim s3://bucket?endpoint=http://h#s3cret true", "it has a fragment"},
		{lock + "--claim s3://bucket?x=s3cret true", `parameter "x" is unknown; there are endpoint, region`},
		{lock + "--claim s3://bucket?region=a&region=s3cret true", `parameter "region" is given twice`},
		{lock + "--claim s3://bucket?endpoint=s3cret true", "its endpoint is not the URL of a store"},
		{lock + "--claim s3://bucket?virtual-host=s3cret true", "virtual-host is true or false"},
		{lock + "--claim s3://buck%zzet true", "special characters percent-encoded"},
		{lock + "--claim s3://bucket true", "fenceproxy: --claim: no keys: set AWS_ACCESS_KEY_ID"},
		{lock + "--claim s3:// true", "--claim is not the URL of a bucket: Bucket name"},
		{lock + "--claim postgres://u:s3%zzcret@h/d true", "special characters percent-encoded"},
		{"--lock redis://u:s3cret@h --resource \x01 true", "--resource: "},
		{"--lock s3cret --resource orders true", "--lock is not the URL of a lock service: it does not begin"},
		{"--lock consul://u:s3cret@h --resource orders true", "its scheme is none of"},
		{"--lock etcd://u:s3cret@h?x=s3cret --resource orders true", `parameter "x" is unknown`},
		{lock + "--s3 true", "no command to run"},
		{lock + "--s3 127.0.0.1:9100 true", "--s3 is not the URL of a proxy: it must read http://host:port"},
		{lock + "--s3 http://u:s3cret@h true", "--s3 is not the URL"},
		{lock + "--s3 http://h/s3cret true", "--s3 is not the URL"},
		{lock + "--s3 http:// true", "--s3 is not the URL"},
		{lock + "--s3= true", "--s3 is not the URL"},
		{lock + "--s3 http://h --print", "--s3 is for a command, and --print runs none"},
		{lock + "--s3 http://h true", "--s3: no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to those that the proxy has for this client"},
		{lock + "--frobnicate true", "unknown flag: --frobnicate"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			o := clitest.Run(t, append([]string{"exec"}, strings.Fields(c.args)...)...).Want(t, cli.ExitUsage, c.says, "; see 'fenceproxy exec --help'")
			if strings.Contains(o.Err, "cret") {
				t.Errorf("stderr has the password: %s", o.Err)
			}
		})
	}
	// What follows the command's name is the command's.
	clitest.Run(t, "exec", "--lock", "redis://h", "--resource", "orders", "no-such-command", "--help", "--frobnicate").Want(t, cli.ExitNoCommand, "command not found")
	i := clitest.Invocation{Args: []string{"exec", "--resource", "orders", "true"}, Env: map[string]string{connect.LockEnv: "nonsense"}}
	i.Run(t.Context()).Want(t, cli.ExitUsage, "FENCE_LOCK is not the URL")
	clitest.Run(t, WardenName).Want(t, cli.ExitFailure, "not by hand")
	clitest.Run(t, WardenName, "9999", "1s", "/bin/true", "true").Want(t, cli.ExitFailure)
}
