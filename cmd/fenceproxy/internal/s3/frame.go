package s3

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/guard"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

const frameRisk = `Framing writes each object again, behind a header of 64 bytes.
 - Programs that read the bucket past the fence see the header too, and every
   ETag changes. Have them use the fence first, or skip 64 bytes.
 - From now on nobody may write there past the fence. What is written past it
   meanwhile is either framed, or told as a conflict and left as it is.
 - Bytes, metadata, content headers and tags stay.
 - It cannot be undone by this program.`

const rebindRisk = `Rebinding writes each key that belongs to one resource again, under a token of
another. Tokens of the one before are refused there from then on.
 - Its holders must be gone: what they still write is refused, and what they read
   they must not use. Hold both locks meanwhile.
 - ETags change. Deleted keys change hands too.`

func (p *program) frame() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "frame PREFIX",
		Short: "Frame objects that were in the bucket before, so that they are fenced",
		Long: frameRisk + `

Frames the objects whose keys begin with PREFIX ('' for all of the bucket) under the
token, to whose resource they belong from then on. Asks for confirmation, or wants
--yes.` + rewriteHelp("framed"),
		Example: `  fenceproxy s3 frame reports/ --bucket app --dry-run
  fenceproxy exec --lock etcd://etcd:2379 --resource reports --claim s3://app -- \
    fenceproxy s3 frame reports/ --bucket app --yes`,
		Args: cli.OneArgument("PREFIX"),
	}
	r := p.rewriteFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.does, r.done, r.risk = "frame", "framed", frameRisk
		r.about = fmt.Sprintf("What begins with %q", args[0])
		r.wanted = func(state layout.State) bool { return state.Bare() }
		r.run = func(ctx context.Context, session *session, report func(s3store.Progress)) error {
			return session.store.Frame(ctx, session.token, args[0], report)
		}
		return r.start(cmd, args[0], "")
	}
	return cmd
}

func (p *program) rebind() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rebind PREFIX RESOURCE --from RESOURCE",
		Short: "Hand keys over from one resource to another",
		Long: rebindRisk + `

Hands over the keys that begin with PREFIX ('' for all of the bucket) and belong to
the resource of --from. The token must be one for RESOURCE. Asks for confirmation,
or wants --yes.` + rewriteHelp("rebound"),
		Example: `  fenceproxy s3 rebind reports/2026/ reports-2026 --from reports --bucket app --dry-run
  export FENCE_LOCK=etcd://etcd:2379
  fenceproxy exec --resource reports --claim s3://app -- \
    fenceproxy exec --resource reports-2026 --claim s3://app -- \
      fenceproxy s3 rebind reports/2026/ reports-2026 --from reports --bucket app --yes`,
	}
	r := p.rewriteFlags(cmd)
	from := cmd.Flags().String("from", "", "resource that the keys belong to so far (required)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 {
			return cli.Usage(cmd, "wants two arguments, PREFIX and RESOURCE, got %d", len(args))
		}
		if !cmd.Flags().Changed("from") {
			return cli.Usage(cmd, "no resource to take the keys from: give --from RESOURCE")
		}
		for _, name := range []string{args[1], *from} {
			if err := guard.ValidateResource(name); err != nil {
				return cli.Usage(cmd, "%v", err)
			}
		}
		if *from == args[1] {
			return cli.Usage(cmd, "--from is %q itself", args[1])
		}
		r.does, r.done, r.risk = "rebind", "rebound", rebindRisk
		r.about = fmt.Sprintf("What begins with %q and belongs to resource %q", args[0], *from)
		owner := layout.DigestOf(*from)
		r.wanted = func(state layout.State) bool {
			return state.Header != layout.Header{} && state.Header.Resource == owner
		}
		r.run = func(ctx context.Context, session *session, report func(s3store.Progress)) error {
			return session.store.Rebind(ctx, session.token, args[0], *from, report)
		}
		return r.start(cmd, args[0], args[1])
	}
	return cmd
}
