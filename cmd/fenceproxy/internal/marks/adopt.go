package marks

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/guard"
)

// AdoptRisk is what is at risk when a resource adopts an issuer, wherever its mark is.
const AdoptRisk = `Adoption makes the numbers of a resource start again under another issuer.
 - Tokens of the issuer before, current ones too, are refused from then on.
 - It is right when the lock service lost its counter, was restored from a
   backup, or is replaced by another one.
 - While two lock services hand out locks for this resource, it is wrong: only
   one of them fences. Stop the old one first.
 - It cannot be undone. An issuer that the resource has had before cannot come
   back: give the lock service a new one first (lock rotate-issuer).`

func (p *program) adopt() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "adopt RESOURCE --issuer NEW",
		Short: "Hand a resource to another issuer, whose numbers start again",
		Long: AdoptRisk + `

Waits, as a claim does, for transactions that have passed their check. Who did
it and when is kept in the database: see marks show. Asks for confirmation, or
wants --yes.

With --json it prints what marks show prints.`,
		Example: `  fenceproxy marks adopt orders --issuer n7 --postgres postgres://admin@db.example/app
  fenceproxy marks adopt orders --issuer n7 --evict --yes`,
		Args:              cli.OneArgument("RESOURCE"),
		ValidArgsFunction: p.resources,
	}
	connect.DatabaseFlag(cmd, "URL of the database with the mark")
	issuer := cmd.Flags().String("issuer", "", "issuer that the numbers come from, from now on (required)")
	wait := cmd.Flags().Duration("claim-wait", 10*time.Second, "how long to wait, as a claim does, for open transactions")
	cmd.Flags().DurationVar(wait, "wait", *wait, "--claim-wait, by its former name")
	_ = cmd.Flags().MarkHidden("wait") // it is there
	evict := cmd.Flags().Bool("evict", false, "end the sessions of transactions that are still open then")
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
		if *wait < 0 {
			return cli.Usage(cmd, "--claim-wait is below 0")
		}
		return p.runAdopt(cmd, adoptOrder{args[0], *issuer, *wait, *evict, *yes, *asJSON})
	}
	return cmd
}

type adoptOrder struct {
	resource, issuer   string
	wait               time.Duration
	evict, yes, asJSON bool
}

func (p *program) runAdopt(cmd *cobra.Command, o adoptOrder) error {
	ctx := cmd.Context()
	conn, err := connect.Database(ctx, cmd, p.Env)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	// Of a resource that nobody has claimed too: an operator may fix the issuer
	// before the first claim.
	now := fmt.Sprintf("\n%q is about to go to issuer %s; nobody has claimed it so far.", o.resource, cli.Shown(o.issuer))
	if r, err := showMark(ctx, conn, o.resource); err == nil {
		now = fmt.Sprintf("\n%q is about to go from issuer %s (writer %d, reader %d) to issuer %s.",
			o.resource, cli.Shown(r.Mark.Issuer), r.Mark.Writer, r.Mark.Reader, cli.Shown(o.issuer))
	} else if code, _ := cli.Explain(ctx, err); code != cli.ExitNotFound {
		return err
	}
	if err := p.Confirm(ctx, cmd, o.yes, AdoptRisk+now); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "SELECT fence.adopt($1, $2, $3::interval, $4)", o.resource, o.issuer, o.wait, o.evict)
	if err != nil {
		return fmt.Errorf("adopt %q: %w", o.resource, err)
	}
	r, err := showMark(ctx, conn, o.resource)
	if err != nil {
		return err
	}
	if o.asJSON {
		return cli.PrintJSON(p.Out, r)
	}
	fmt.Fprintf(p.Out, "%q now takes its numbers from issuer %s, generation %d\n", o.resource, cli.Shown(r.Mark.Issuer), r.Mark.Generation)
	return nil
}
