package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/internal/lockurl"
	"github.com/fenceproxy/fenceproxy/locks"
)

// examinationLimit is how long a lock service may take to answer everything that a
// doctor asks: of each server, also of those that do not answer.
const examinationLimit = 30 * time.Second

func (p *program) lock() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lock",
		Short: "Look at a lock service: is it there, may it forget, what TTL does it give",
		Long: `Looks at a lock service (etcd, Redis, ZooKeeper): whether it answers and lets this
user read locks, which version each server has, what it makes of a TTL, and what
may make it forget a lock: in Redis the eviction policy, persistence and replicas,
and its clock, which numbers come from; in etcd alarms and members that are not
there. It locks nothing. etcd grants a lease and takes it back, ZooKeeper opens
sessions and closes them, to see what bounds they have for a TTL.

The URL, --lock, reads as that of exec: see 'fenceproxy exec --help'. Without one it
is the environment's ` + connect.LockEnv + `.

LEVEL is ok; note: to know; warning: to mend, depending on what is done here; or
wrong: locks do not work like this. Exits with 78 if something is wrong, 69 if
the service does not answer, 77 if it does not let this user in.

With --json:
  {"target":"redis://h:6379","findings":[{"check":"eviction","of":"","level":"wrong",
   "found":"maxmemory-policy allkeys-lru","advice":"CONFIG SET …"}]}

"of" is the server, where there are several.`,
		Example: `  fenceproxy doctor lock --lock etcd://etcd1:2379,etcd2:2379,etcd3:2379
  export FENCE_LOCK=redis://:password@redis:6379
  fenceproxy doctor lock --ttl 3s --json`,
	}
	connect.LockFlag(cmd)
	ttl := cmd.Flags().Duration("ttl", 15*time.Second, "how long locks are to outlive the last sign of life of their process")
	asJSON := cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return cli.Usage(cmd, "takes no argument, got %d", len(args))
		}
		if *ttl < connect.MinTTL {
			return cli.Usage(cmd, "--ttl %v is below %v", *ttl, connect.MinTTL)
		}
		target, err := connect.LockTarget(cmd, p.Env, args...)
		if err != nil {
			return err
		}
		f, err := examineLock(cmd.Context(), target, *ttl)
		if err != nil {
			return err
		}
		return p.printFindings(f, *asJSON)
	}
	return cmd
}

func examineLock(ctx context.Context, target *lockurl.Target, ttl time.Duration) (*findings, error) {
	logging.Disable() // what is wrong with Redis is in the errors
	f := &findings{Target: target.String()}
	err := connect.WithLockService(ctx, target, func(locker locks.Locker) error {
		knows, ok := locker.(locks.StatusLocker)
		if !ok {
			return cli.Fail(cli.ExitFailure, "the lock service at %s does not tell who holds a lock", target)
		}
		start := time.Now()
		// Of a lock that nobody has: what is asked is whether it may be read.
		_, err := connect.Ask(ctx, target, func(ctx context.Context) (locks.Status, error) {
			return knows.Status(ctx, "doctor-"+rand.Text())
		})
		if err == nil {
			f.add("service", levelOK, "", "answers, and lets this user read locks (%s)", shortly(time.Since(start)))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	d := &lockDoctor{findings: f, target: target, ttl: ttl}
	limited, cancel := context.WithTimeout(ctx, examinationLimit)
	defer cancel()
	switch target.Product() {
	case "etcd":
		err = d.etcd(limited)
	case "redis":
		err = d.redis(limited)
	default:
		err = d.zooKeeper(limited)
	}
	switch {
	case err == nil:
		return f, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case lockurl.Denied(err):
		return nil, cli.Fail(cli.ExitDenied, "the lock service at %s refuses: %w; check user and password in the URL, and what that user may do", target, err)
	}
	return nil, cli.Fail(cli.ExitUnreachable, "the lock service at %s: %w; check the URL, and that the server runs", target, err)
}

type lockDoctor struct {
	*findings
	target *lockurl.Target
	ttl    time.Duration
}

// bounds tells what a service makes of the TTL; 0 is no bound.
func (d *lockDoctor) bounds(low, high time.Duration) {
	text := fmt.Sprintf("at least %v", low)
	if high > 0 {
		text += fmt.Sprintf(", at most %v", high)
	}
	switch {
	case d.ttl < low:
		d.add("ttl", levelWarning, "expect a crashed holder's lock to last that long, or change the server's bounds", "%s: locks of %v last %v", text, d.ttl, low)
	case high > 0 && d.ttl > high:
		d.add("ttl", levelWarning, "ask for less, or change the server's bounds", "%s: locks of %v last %v", text, d.ttl, high)
	default:
		d.add("ttl", levelOK, "", "%s: locks last %v, as asked", text, d.ttl)
	}
}

// shortly rounds what is not known better.
func shortly(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }
