// Package migrate is the command migrate, which installs the fence in a database.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/migrations"
)

// Command is fenceproxy migrate.
func Command(p *cli.Program) *cobra.Command { return (&program{p}).migrate() }

// program is the run of fenceproxy that the command migrate is part of.
type program struct{ *cli.Program }

func (p *program) migrate() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "migrate",
		Short: "Install the fence in a database, upgrade it, remove it",
		Long: `The fence is the schema "fence" of a PostgreSQL 14-18 database: what each
resource remembers, the functions that claim and check, the triggers of
protected tables. Applications get by with what migrate up --grant gives them.`,
	}, p.up(), p.status(), p.down())
}

func (p *program) up() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Install the schema fence, or bring it to this program's version",
		Long: `Installs the schema fence, or brings it to this program's version. To do so
again changes nothing.

The role needs CREATE on the database; it need not be a superuser. With
CREATEROLE it makes the role fence_owner, to which everything then belongs;
without, an administrator makes that role first, or everything belongs to the
role itself. Eviction, and nothing else, needs a grant by an administrator,
which is printed if it is missing.

Not everybody may claim, since one claim of the highest number locks all others
out of a resource: name the applications' roles with --grant. They may claim,
evict, and read the marks; they own nothing.

With --json the steps are one document:
  {"applied":[{"version":1,"name":"0001_marks","milliseconds":12.3,"notices":[]}],
   "installed":5,"wanted":5,"evictable":true,"eviction_needs":"","granted":["app"]}`,
		Example: `  fenceproxy migrate up --postgres postgres://admin@db.example/app --grant app --grant jobs`,
		Args:    cli.NoArguments,
	}
	connect.DatabaseFlag(cmd, "URL of the database to install into")
	roles := cmd.Flags().StringArray("grant", nil, "role that may claim, evict and read the marks; can be given more than once")
	asJSON := cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		url, err := connect.RequiredDatabaseURL(cmd, p.Env)
		if err != nil {
			return err
		}
		return p.runUp(cmd.Context(), url, *roles, *asJSON)
	}
	return cmd
}

// stepJSON is a migration in the JSON output.
type stepJSON struct {
	Version      int      `json:"version"`
	Name         string   `json:"name"`
	Milliseconds float64  `json:"milliseconds"`
	Notices      []string `json:"notices"`
}

func (p *program) runUp(ctx context.Context, url string, roles []string, asJSON bool) error {
	applied := []stepJSON{}
	err := migrations.Up(ctx, url, migrations.Config{Grant: roles, Progress: func(s migrations.Step) {
		applied = append(applied, step(s))
		if !asJSON {
			p.printStep("applied", s)
		}
	}})
	if err != nil {
		return explainMigration(ctx, url, err)
	}
	state, err := migrations.Status(ctx, url)
	if err != nil {
		return err
	}
	if asJSON {
		err = cli.PrintJSON(p.Out, struct {
			Applied       []stepJSON `json:"applied"`
			Installed     int        `json:"installed"`
			Wanted        int        `json:"wanted"`
			Evictable     bool       `json:"evictable"`
			EvictionNeeds string     `json:"eviction_needs"`
			Granted       []string   `json:"granted"`
		}{applied, state.Installed, state.Wanted, state.Evictable, EvictionNeeds(state), append([]string{}, roles...)})
		return errors.Join(err, checkSelfTest(state))
	}
	if len(applied) == 0 {
		fmt.Fprintf(p.Out, "nothing to do: schema fence has version %d\n", state.Installed)
	}
	for _, role := range roles {
		fmt.Fprintf(p.Out, "granted to %s: claim, evict, and reading the marks\n", role)
	}
	if need := EvictionNeeds(state); need != "" {
		fmt.Fprintf(p.Out, "\nEviction is not possible yet: a new holder waits for what an old one left open, and fails at its\n"+
			"limit. To let it end the old one's sessions, an administrator runs, once:\n\n    %s;\n", need)
	}
	return checkSelfTest(state)
}

func step(s migrations.Step) stepJSON {
	return stepJSON{s.Version, s.Name, float64(s.Took.Microseconds()) / 1000, append([]string{}, s.Notices...)}
}

func (p *program) printStep(what string, s migrations.Step) {
	fmt.Fprintf(p.Out, "%s %s (%v)\n", what, s.Name, s.Took.Round(100*time.Microsecond))
	for _, notice := range s.Notices {
		if !strings.Contains(notice, "eviction is not possible") { // said at the end, whoever's turn it was
			fmt.Fprintf(p.Out, "  %s\n", notice)
		}
	}
}

// EvictionNeeds is what an administrator must run before eviction is possible;
// "" if it is, or if there is nothing to evict from.
func EvictionNeeds(s migrations.State) string {
	if s.Evictable || s.Installed == 0 {
		return ""
	}
	return "GRANT pg_signal_backend, pg_read_all_stats TO " + QuoteName(s.Owner)
}

// QuoteName quotes a role's name where SQL needs it.
func QuoteName(name string) string {
	if name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") == "" {
		return name
	}
	return pgx.Identifier{name}.Sanitize()
}

func checkSelfTest(s migrations.State) error {
	if s.SelfTest != "" && s.SelfTest != "ok" {
		return cli.Fail(cli.ExitSchema, "nothing can be fenced on this server: %s", s.SelfTest)
	}
	return nil
}

// explainMigration finds out whether a migration failed because the database
// is newer than this program.
func explainMigration(ctx context.Context, url string, err error) error {
	if state, statusErr := migrations.Status(ctx, url); statusErr == nil && state.Installed > state.Wanted {
		return cli.Fail(cli.ExitSchema, "the schema fence has version %d and this program knows only %d; use a newer fenceproxy", state.Installed, state.Wanted)
	}
	return err
}

func (p *program) status() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which version is installed, and whether it works here",
		Long: `Shows the installed and the wanted version of the schema fence, the migrations
that migrate up would apply, whether a new holder can evict an old one, and
whether the server passes the self test of the check. Changes nothing.

Exits with 78 if the schema is missing, older than wanted, or does not work.

With --json:
  {"installed":5,"wanted":5,"pending":[],"owner":"fence_owner","evictable":true,
   "eviction_needs":"","self_test":"ok"}`,
		Example: `  fenceproxy migrate status --postgres postgres://admin@db.example/app`,
		Args:    cli.NoArguments,
	}
	connect.DatabaseFlag(cmd, "URL of the database to look at")
	asJSON := cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		url, err := connect.RequiredDatabaseURL(cmd, p.Env)
		if err != nil {
			return err
		}
		state, err := migrations.Status(cmd.Context(), url)
		if err != nil {
			return err
		}
		if err := p.printState(state, *asJSON); err != nil {
			return err
		}
		return errors.Join(connect.CheckVersion(state.Installed, migrations.Version), checkSelfTest(state))
	}
	return cmd
}

func (p *program) printState(s migrations.State, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(p.Out, struct {
			migrations.State
			EvictionNeeds string `json:"eviction_needs"`
		}{s, EvictionNeeds(s)})
	}
	rows := [][]string{
		{"installed", "no"},
		{"wanted", fmt.Sprintf("version %d", s.Wanted)},
		{"pending", "none"},
	}
	if s.Installed > 0 {
		rows[0][1] = fmt.Sprintf("version %d", s.Installed)
	}
	if len(s.Pending) > 0 {
		rows[2][1] = strings.Join(s.Pending, ", ")
	}
	if s.Installed > 0 {
		eviction := "possible"
		if need := EvictionNeeds(s); need != "" {
			eviction = "not possible until an administrator runs: " + need
		}
		selfTest := s.SelfTest
		if selfTest == "" {
			selfTest = "not in this version"
		}
		rows = append(rows, []string{"owner", s.Owner}, []string{"eviction", eviction}, []string{"self test", selfTest})
	}
	return cli.PrintTable(p.Out, rows)
}

const downRisk = `This removes the schema fence from the database, with all its marks and triggers.
 - Nothing stops a stale holder from then on: protected tables take every write.
 - Programs that claim or check get errors until the schema is there again.
 - The marks are gone for good: after a new migrate up, tokens of holders that
   were paused in the meantime count as new.`

func (p *program) down() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Remove the schema fence and all its marks",
		Long:  downRisk + "\n\nAsks for confirmation, or wants --yes.\n\nWith --json:\n  {\"undone\":[{\"version\":5,\"name\":\"0005_proxy\",\"milliseconds\":3.1,\"notices\":[]}]}",
		Example: `  fenceproxy migrate down --postgres postgres://admin@db.example/app
  fenceproxy migrate down --yes`,
		Args: cli.NoArguments,
	}
	connect.DatabaseFlag(cmd, "URL of the database to remove the fence from")
	yes, asJSON := cli.YesFlag(cmd), cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		url, err := connect.RequiredDatabaseURL(cmd, p.Env)
		if err != nil {
			return err
		}
		state, err := migrations.Status(cmd.Context(), url)
		if err != nil {
			return err
		}
		if state.Installed == 0 {
			return connect.CheckVersion(0, migrations.Version)
		}
		if err := p.Confirm(cmd.Context(), cmd, *yes, downRisk); err != nil {
			return err
		}
		return p.runDown(cmd.Context(), url, *asJSON)
	}
	return cmd
}

func (p *program) runDown(ctx context.Context, url string, asJSON bool) error {
	undone := []stepJSON{}
	err := migrations.Down(ctx, url, migrations.Config{Progress: func(s migrations.Step) {
		undone = append(undone, step(s))
		if !asJSON {
			p.printStep("undone", s)
		}
	}})
	if err != nil {
		return err
	}
	if asJSON {
		return cli.PrintJSON(p.Out, map[string][]stepJSON{"undone": undone})
	}
	return nil
}
