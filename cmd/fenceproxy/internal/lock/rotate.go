package lock

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/internal/lockurl"
	"github.com/fenceproxy/fenceproxy/locks"
)

const rotateRisk = `A lock service gets another issuer: the name of the counter that numbers come
from.
 - Resources refuse what is acquired from then on, as foreign, until each of
   them has adopted the new issuer (marks adopt, s3 adopt).
 - Who holds a lock keeps its token, whose issuer is the one before, and is
   refused from the adoption on. Stop the holders first, or let them end.
 - It is right when the lock service was restored from a backup or an older copy
   of its data, so that it hands out numbers twice, or built anew. Otherwise
   there is no need for it.
 - All locks below the path of the URL are concerned.
 - It cannot be undone. An issuer that a resource has had before cannot come back.`

func (p *program) rotate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rotate-issuer",
		Short: "Give a restored or rebuilt lock service another issuer",
		Long: rotateRisk + `

For etcd and ZooKeeper, which keep their issuer themselves; where there is none
yet, one is made. It is safe while others acquire and release: each grant is of
one issuer, the one before or, from then on, the new one. Asks for confirmation,
or wants --yes, and then says what to run next.

Not for Redis: its issuer is a name of your choice, issuer= in the URL, and its
numbers rise by its clock, also when its data is lost or set back. To change the
issuer all the same, give everyone another name and have the resources adopt it.

With --json ("before" is "" if there was none):
  {"service":"etcd://h:2379","before":"K3V9","issuer":"7QZ4"}`,
		Example: `  fenceproxy lock rotate-issuer --lock etcd://etcd1:2379,etcd2:2379,etcd3:2379
  fenceproxy lock rotate-issuer --lock zk://zk1:2181,zk2:2181,zk3:2181 --yes --json`,
	}
	connect.LockFlag(cmd)
	yes, asJSON := cli.YesFlag(cmd), cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return cli.Usage(cmd, "takes no argument, got %d", len(args))
		}
		target, err := connect.LockTarget(cmd, p.Env, args...)
		if err != nil {
			return err
		}
		return connect.WithLockService(cmd.Context(), target, func(locker locks.Locker) error {
			keeps, ok := locker.(locks.IssuerLocker)
			if !ok {
				return cli.Usage(cmd, "the issuer of a Redis is a name of your choice: to change it, "+
					"give everyone another issuer= in the URL and have resources adopt that; "+
					"its numbers rise by its clock and survive restore and failover without")
			}
			return p.runRotate(cmd, target, keeps, *yes, *asJSON)
		})
	}
	return cmd
}

func (p *program) runRotate(cmd *cobra.Command, target *lockurl.Target, locker locks.IssuerLocker, yes, asJSON bool) error {
	ctx := cmd.Context()
	before, err := connect.Ask(ctx, target, locker.Issuer)
	if err != nil {
		return err
	}
	now := fmt.Sprintf("\nThe issuer of %s is about to be replaced; it is %s.", target, shownID(before))
	if before == "" {
		now = fmt.Sprintf("\n%s is about to get an issuer; it has none so far.", target)
	}
	if err := p.Confirm(ctx, cmd, yes, rotateRisk+now); err != nil {
		return err
	}
	issuer, err := connect.Ask(ctx, target, func(ctx context.Context) (string, error) { return locker.RotateIssuer(ctx, before) })
	if err != nil {
		return err
	}
	if asJSON {
		return cli.PrintJSON(p.Out, map[string]string{"service": target.String(), "before": before, "issuer": issuer})
	}
	fmt.Fprintf(p.Out, "%s now has the issuer %s", target, issuer)
	if before != "" {
		fmt.Fprintf(p.Out, ", before that %s", shownID(before))
	}
	fmt.Fprintf(p.Out, `

Next, in each database, for each RESOURCE in the list that is locked there:
  fenceproxy marks list --postgres URL
  fenceproxy marks adopt RESOURCE --issuer %[1]s --postgres URL
and in each bucket, for each RESOURCE that is locked there:
  fenceproxy s3 adopt RESOURCE --issuer %[1]s --bucket NAME
`, issuer)
	return nil
}
