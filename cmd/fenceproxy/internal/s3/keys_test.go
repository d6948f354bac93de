package s3

import (
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
)

// Keys that the store does not take are told as that, whatever the command was about to
// do; also if the store says 404, as versitygw does of a key that it does not know.
func TestS3WrongKeys(t *testing.T) {
	t.Parallel()
	wrong := map[string]string{"AWS_ACCESS_KEY_ID": "No user exists", "AWS_SECRET_ACCESS_KEY": "The request signature"}
	for variable, says := range wrong {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			b := clitest.NewPail(t).Under(1)
			b.Env[variable] = "unkn0wn"
			for _, args := range []string{
				"ls --no-token", "ls", "get k -", "put - k", "rm k", "rm --recursive p/", "frame p/ --yes", "adopt orders --issuer j --yes",
				"rebind p/ orders --from stock --yes",
			} {
				o := b.Feed("x", strings.Fields(args)...)
				last := o.Err[strings.LastIndex(strings.TrimSpace(o.Err), "\n")+1:] // behind what may have to be confirmed
				want := "fenceproxy: the store at " + b.Env["AWS_ENDPOINT_URL"] + ": " + says
				if o.Code != cli.ExitDenied || !strings.HasPrefix(last, want) || strings.Count(last, "; check the keys, and what their user may do") != 1 {
					t.Errorf("%s: exit code %d, stderr:\n%s", args, o.Code, o.Err)
				}
			}
		})
	}
}
