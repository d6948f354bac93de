package s3

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/marks"
	"github.com/fenceproxy/fenceproxy/guard"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

func (p *program) adopt() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "adopt RESOURCE --issuer NEW",
		Short: "Hand a resource to another issuer, whose numbers start again",
		Long: marks.AdoptRisk + `

In the bucket it is the mark of the resource that changes, at once. A key changes
with the first write of it under a token of the new issuer: until then what an old
holder sends still reaches it. Asks for confirmation, or wants --yes.

` + connect.BucketHelp + `

With --json:
  {"resource":"orders","generation":1,"issuer":"n7","writer":"0","holder":"","reader":"0"}`,
		Example: `  fenceproxy s3 adopt orders --issuer n7 --bucket app
  fenceproxy s3 adopt orders --issuer n7 --bucket app --yes --json`,
		Args: cli.OneArgument("RESOURCE"),
	}
	connect.BucketFlags(cmd)
	issuer := cmd.Flags().String("issuer", "", "issuer that the numbers come from, from now on (required)")
	yes, asJSON := cli.YesFlag(cmd), cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := guard.ValidateResource(args[0]); err != nil {
			return cli.Usage(cmd, "%v", err)
		}
		if !cmd.Flags().Changed("issuer") {
			return cli.Usage(cmd, "no issuer: give --issuer NEW")
		}
		if err := guard.ValidateID(*issuer); err != nil {
			return cli.Usage(cmd, "--issuer: %v", err)
		}
		bucket, err := connect.BucketOf(cmd, p.Env)
		if err != nil {
			return err
		}
		defer bucket.Close()
		return p.runAdopt(cmd, bucket, args[0], *issuer, *yes, *asJSON)
	}
	return cmd
}

func (p *program) runAdopt(cmd *cobra.Command, bucket *connect.Bucket, resource, issuer string, yes, asJSON bool) error {
	ctx := cmd.Context()
	store, err := s3store.New(bucket.Client, s3store.Config{Bucket: bucket.Name})
	if err != nil {
		return cli.Usage(cmd, "%v", err)
	}
	before, err := store.Mark(ctx, resource)
	if err != nil {
		return bucket.ExplainStore(ctx, err)
	}
	// Of a resource that nobody has claimed too: an operator may fix the issuer
	// before the first claim.
	now := fmt.Sprintf("\n%q is about to go to issuer %s; nobody has claimed it so far.", resource, cli.Shown(issuer))
	if before.Touched() {
		now = fmt.Sprintf("\n%q is about to go from issuer %s (writer %d, reader %d) to issuer %s.",
			resource, cli.Shown(before.Issuer), before.Writer, before.Reader, cli.Shown(issuer))
	}
	if err := p.Confirm(ctx, cmd, yes, marks.AdoptRisk+now); err != nil {
		return err
	}
	err = store.Adopt(ctx, resource, issuer)
	if errors.Is(err, s3store.ErrIssuerUsed) {
		return cli.Fail(cli.ExitFailure, "%w; give the lock service a new issuer first: fenceproxy lock rotate-issuer", err)
	}
	if err != nil {
		return explainWrite(ctx, bucket, err)
	}
	after, err := store.Mark(ctx, resource)
	if err != nil {
		return bucket.ExplainStore(ctx, err)
	}
	if asJSON {
		return cli.PrintJSON(p.Out, struct {
			Resource   string `json:"resource"`
			Generation uint32 `json:"generation"`
			Issuer     string `json:"issuer"`
			Writer     int64  `json:"writer,string"`
			Holder     string `json:"holder"`
			Reader     int64  `json:"reader,string"`
		}{resource, after.Generation, after.Issuer, after.Writer, after.Holder, after.Reader})
	}
	_, err = fmt.Fprintf(p.Out, "%q now takes its numbers from issuer %s, generation %d\n", resource, cli.Shown(after.Issuer), after.Generation)
	return err
}
