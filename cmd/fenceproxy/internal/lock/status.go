package lock

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/lockurl"
	"github.com/fenceproxy/fenceproxy/locks"
)

func (p *program) status() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status NAME",
		Short: "Show who holds a lock and who waits for it",
		Long: `Shows the holders of the lock of resource NAME and those who wait for it, first
come first. It only reads: nothing is created, and what is over is left to the
next request for the lock. It takes the permission to read the lock's keys or
nodes, in Redis by a script (+@read +@scripting +time).

NUMBER is that of the token; in Redis waiters get it with the lock. LEFT is how
long the place is kept if its process gives no further sign of life; in etcd and
ZooKeeper all places of a SESSION end with it, and ZooKeeper does not say when.
"expired" is what is over and not removed yet. TOKEN is the holder's, "-" where
it is not known: the issuer has changed since the holder came, who may have the
one before. In Redis the issuer is that of the URL ("redis" by default), also of
holders who were given another one.

With --json (numbers are strings, since they may be above 2^53; left_seconds,
number and token are null where they are not known):
  {"resource":"orders","service":"etcd://h:2379","issuer":"K3V9","holders":[
   {"mode":"exclusive","holder":"7QZ4","number":"42","session":"694d","left_seconds":
   12,"expired":false,"token":"ft1:x:42:7QZ4:K3V9:orders"}],"waiters":[…the same…]}`,
		Example: `  fenceproxy lock status orders --lock etcd://etcd1:2379,etcd2:2379,etcd3:2379
  export FENCE_LOCK=redis://:password@redis:6379
  fenceproxy lock status orders
  fenceproxy lock status orders --json | jq -r '.holders[].token'`,
	}
	connect.LockFlag(cmd)
	asJSON := cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 && len(args) != 2 {
			return cli.Usage(cmd, "wants one argument, NAME, got %d", len(args))
		}
		name := args[len(args)-1]
		if len(args) == 1 && isLockURL(name) {
			return cli.Usage(cmd, "NAME is missing: which resource?")
		}
		target, err := connect.LockTarget(cmd, p.Env, args[:len(args)-1]...)
		if err != nil {
			return err
		}
		if err := guard.ValidateResource(name); err != nil {
			return cli.Usage(cmd, "%v", err)
		}
		return p.runStatus(cmd.Context(), target, name, *asJSON)
	}
	return cmd
}

func (p *program) runStatus(ctx context.Context, target *lockurl.Target, name string, asJSON bool) error {
	return connect.WithLockService(ctx, target, func(locker locks.Locker) error {
		knows, ok := locker.(locks.StatusLocker)
		if !ok {
			return cli.Fail(cli.ExitFailure, "the lock service at %s does not tell who holds a lock", target)
		}
		status, err := connect.Ask(ctx, target, func(ctx context.Context) (locks.Status, error) { return knows.Status(ctx, name) })
		if err != nil {
			return err
		}
		if asJSON {
			return cli.PrintJSON(p.Out, lockDocument(target, status))
		}
		return p.printStatus(target, status)
	})
}

// placeDocument is a place at a lock, as JSON.
type placeDocument struct {
	Mode    string   `json:"mode"`
	Holder  string   `json:"holder"`
	Number  *string  `json:"number"`
	Session string   `json:"session"`
	Left    *float64 `json:"left_seconds"`
	Expired bool     `json:"expired"`
	Token   *string  `json:"token"`
}

// statusDocument is a lock, as JSON.
type statusDocument struct {
	Resource string          `json:"resource"`
	Service  string          `json:"service"`
	Issuer   string          `json:"issuer"`
	Holders  []placeDocument `json:"holders"`
	Waiters  []placeDocument `json:"waiters"`
}

func lockDocument(target *lockurl.Target, s locks.Status) statusDocument {
	document := func(places []locks.Place) []placeDocument {
		list := []placeDocument{}
		for _, p := range places {
			d := placeDocument{Mode: modeName(p.Mode), Holder: p.Holder, Session: p.Session, Expired: p.Expired()}
			if p.Number > 0 {
				number := strconv.FormatInt(p.Number, 10)
				d.Number = &number
			}
			if p.Timed {
				left := max(p.Left, 0).Seconds()
				d.Left = &left
			}
			if token, ok := p.Token(s.Resource); ok {
				text := token.String()
				d.Token = &text
			}
			list = append(list, d)
		}
		return list
	}
	return statusDocument{s.Resource, target.String(), s.Issuer, document(s.Holders), document(s.Waiters)}
}

func (p *program) printStatus(target *lockurl.Target, s locks.Status) error {
	issuer := shownID(s.Issuer)
	if s.Issuer == "" {
		issuer = "none yet: the next grant makes one"
	}
	held := "held by nobody"
	if len(s.Holders) > 0 {
		held = "held by:"
	}
	err := cli.PrintTable(p.Out, [][]string{{"resource", s.Resource}, {"service", target.String()}, {"issuer", issuer}})
	if err != nil {
		return err
	}
	fmt.Fprintln(p.Out, "\n"+held)
	if len(s.Holders) > 0 {
		rows := [][]string{{"  MODE", "NUMBER", "LEFT", "HOLDER", "SESSION", "TOKEN"}}
		for _, place := range s.Holders {
			text := "-"
			if token, ok := place.Token(s.Resource); ok {
				text = token.String()
			}
			rows = append(rows, append(placeRow(place), text))
		}
		if err := cli.PrintTable(p.Out, rows); err != nil {
			return err
		}
	}
	if len(s.Waiters) == 0 {
		return nil
	}
	fmt.Fprintln(p.Out, "\nwaiting, first come first:")
	rows := [][]string{{"  MODE", "NUMBER", "LEFT", "HOLDER", "SESSION"}}
	for _, place := range s.Waiters {
		rows = append(rows, placeRow(place))
	}
	return cli.PrintTable(p.Out, rows)
}

func placeRow(p locks.Place) []string {
	row := []string{"  " + modeName(p.Mode), "-", "-", shownID(p.Holder), "-"}
	if p.Number > 0 {
		row[1] = strconv.FormatInt(p.Number, 10)
	}
	switch {
	case p.Expired():
		row[2] = "expired"
	case p.Timed && p.Left < 10*time.Second:
		row[2] = p.Left.Round(100 * time.Millisecond).String()
	case p.Timed:
		row[2] = p.Left.Round(time.Second).String()
	case p.Session != "":
		row[2] = "by session"
	}
	if p.Session != "" {
		row[4] = p.Session
	}
	return row
}
