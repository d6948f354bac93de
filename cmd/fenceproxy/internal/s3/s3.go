// Package s3 is the command s3, which works on fenced objects from a shell.
package s3

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// tokenHelp is what all commands that read or write objects say of the token.
const tokenHelp = `The token is --token, or the environment's FENCE_TOKEN, as 'fenceproxy exec' sets
it. It is claimed in the bucket first if nobody has. A token that is no longer
current is refused: exit code 77, and nothing was written.`

// Command is fenceproxy s3.
func Command(p *cli.Program) *cobra.Command { return (&program{p}).s3() }

// program is the run of fenceproxy that the command s3 is part of.
type program struct{ *cli.Program }

func (p *program) s3() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "s3",
		Short: "Read and write fenced objects in S3, frame a bucket, hand keys over",
		Long: `Reads and writes objects of a bucket under fencing tokens. An object that was
written under a token cannot be overwritten or deleted under an older one, however
late that request arrives. 'fenceproxy doctor s3' tells whether a store can do
this.

Fenced objects have a header of 64 bytes in front: other programs see it, these
commands and package stores/s3 do not show it. frame puts it in front of objects
that were there before.

` + tokenHelp,
		Example: `  export AWS_ENDPOINT_URL=https://s3.example FENCE_LOCK=etcd://etcd:2379
  fenceproxy exec --resource reports --claim s3://app -- sh -c '
    ./report | fenceproxy s3 put - reports/today.csv --bucket app'`,
	}, p.adopt(), p.frame(), p.get(), p.ls(), p.put(), p.rebind(), p.rm())
}

// tokenFlags adds to a command what names its token. A command that only reads
// can do without one.
func tokenFlags(cmd *cobra.Command, reads bool) {
	flags := cmd.Flags()
	flags.String("token", "", "fencing token (default: the environment's "+carrier.Env+")")
	flags.String("resource", "", "which of several tokens to use: the one for this resource")
	if reads {
		flags.Bool("no-token", false, "read without a token, whoever the objects belong to")
	}
}

func legacyFlag(cmd *cobra.Command) {
	cmd.Flags().Bool("legacy", false, "allow objects that are not framed, because they were there before")
}

// token reads the flags of tokenFlags and the environment. The token is the
// one for resource, if that is not "". The zero Token is for --no-token.
func (p *program) token(cmd *cobra.Command, resource string) (guard.Token, error) {
	none := guard.Token{}
	text, err := cmd.Flags().GetString("token")
	if err != nil {
		return none, err
	}
	if without, _ := cmd.Flags().GetBool("no-token"); without { // the flag may not be there
		if text != "" {
			return none, cli.Usage(cmd, "--token and --no-token at once")
		}
		return none, nil
	}
	source := "--token"
	if text == "" {
		text, source = p.Env(carrier.Env), carrier.Env
	}
	if text == "" {
		hint := ""
		if cmd.Flags().Lookup("no-token") != nil {
			hint = ", or --no-token to read without"
		}
		return none, cli.Usage(cmd, "no token: run this under 'fenceproxy exec', or give --token%s", hint)
	}
	tokens, err := guard.ParseList(text)
	if err != nil {
		return none, cli.Usage(cmd, "%s is not a token: %v", source, err)
	}
	if resource == "" {
		if resource, err = cmd.Flags().GetString("resource"); err != nil {
			return none, err
		}
	}
	if resource == "" && len(tokens) > 1 {
		return none, cli.Usage(cmd, "%s has tokens for %s: choose by --resource", source, resources(tokens))
	}
	if resource == "" {
		return tokens[0], nil
	}
	token, err := guard.TokenFor(tokens, resource)
	if err != nil {
		return none, cli.Usage(cmd, "%s has no token for %q, but for %s", source, resource, resources(tokens))
	}
	return token, nil
}

func resources(tokens []guard.Token) string {
	names := make([]string, 0, len(tokens))
	for _, token := range tokens {
		names = append(names, fmt.Sprintf("%q", token.Resource))
	}
	return strings.Join(names, ", ")
}

// session is a bucket together with the token to use there.
type session struct {
	*connect.Bucket

	store *s3store.Store
	token guard.Token
}

// openSession reads the flags of connect.BucketFlags, tokenFlags and legacyFlag. Close it.
func (p *program) openSession(cmd *cobra.Command, resource string) (*session, error) {
	token, err := p.token(cmd, resource)
	if err != nil {
		return nil, err
	}
	bucket, err := connect.BucketOf(cmd, p.Env)
	if err != nil {
		return nil, err
	}
	legacy, _ := cmd.Flags().GetBool("legacy") // the flag may not be there
	store, err := s3store.New(bucket.Client, s3store.Config{
		Bucket: bucket.Name, Legacy: legacy, ReadWithoutToken: token == guard.Token{},
	})
	if err != nil {
		bucket.Close()
		return nil, cli.Usage(cmd, "%v", err)
	}
	return &session{bucket, store, token}, nil
}

// explainWrite is explainStore of a write: whoever cannot know whether it
// happened is told so (I2), also where a signal ended it.
func explainWrite(ctx context.Context, b *connect.Bucket, err error) error {
	known := guard.OutcomeOf(err) != guard.Unknown
	var bySignal cli.SignalError
	switch {
	case err == nil:
		return nil
	case errors.As(context.Cause(ctx), &bySignal):
		what := "nothing was written"
		if !known {
			what = "whether it was written is not known: " + err.Error()
		}
		return &cli.FinalError{Code: cli.ExitSignal + int(bySignal.Signal), Err: fmt.Errorf("%w; %s", bySignal, what)}
	case !known:
		return cli.Fail(cli.ExitUnknown, "whether it was written is not known: %w; look at the object, or do it again", err)
	}
	return b.ExplainStore(ctx, err)
}

// timestamp is a time in a listing, as of the aws command but in UTC.
func timestamp(t time.Time) string { return t.UTC().Format(time.DateTime) }
