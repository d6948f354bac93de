// Package marks is the command marks, which shows what resources remember, and
// hands one to another issuer.
package marks

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/guard"
)

// Command is fenceproxy marks.
func Command(p *cli.Program) *cobra.Command { return (&program{p}).marks() }

// program is the run of fenceproxy that the command marks is part of.
type program struct{ *cli.Program }

func (p *program) marks() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "marks",
		Short: "Show what resources remember, hand one to another issuer",
		Long: `A mark is what a resource remembers: the highest token of a writer that it has
seen with its holder, the highest of a reader, and the issuer that the numbers
come from. Lower tokens, and tokens of other issuers, are refused.`,
	}, p.list(), p.show(), p.adopt())
}

// mark is a row of fence.marks. The numbers are strings in JSON: they may be
// above 2^53, where many a JSON reader starts to round.
type mark struct {
	Resource   string    `json:"resource"`
	Generation int32     `json:"generation"`
	Issuer     string    `json:"issuer"`
	Writer     int64     `json:"writer,string"`
	Holder     string    `json:"holder"`
	Reader     int64     `json:"reader,string"`
	Since      time.Time `json:"since"`
}

const markColumns = "resource, generation, issuer, writer, holder, reader, since"

func scanMark(row pgx.CollectableRow) (mark, error) {
	var m mark
	err := row.Scan(&m.Resource, &m.Generation, &m.Issuer, &m.Writer, &m.Holder, &m.Reader, &m.Since)
	return m, err
}

func (p *program) list() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the marks of all resources",
		Long: `Lists the marks of all resources by name. GENERATION counts the adoptions,
SINCE is when the mark was raised last: no older write can be applied from then
on.

With --json (numbers of tokens are strings, since they may be above 2^53):
  {"marks":[{"resource":"orders","generation":0,"issuer":"k3v9","writer":"34",
   "holder":"9f8c","reader":"31","since":"2026-01-02T03:04:05.678901Z"}]}`,
		Example: `  fenceproxy marks list --postgres postgres://admin@db.example/app
  fenceproxy marks list --json | jq -r '.marks[].resource'`,
		Args: cli.NoArguments,
	}
	connect.DatabaseFlag(cmd, "URL of the database to look at")
	asJSON := cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		conn, err := connect.Database(cmd.Context(), cmd, p.Env)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(cmd.Context()))
		marks, err := listMarks(cmd.Context(), conn)
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(p.Out, map[string][]mark{"marks": marks})
		}
		rows := [][]string{{"RESOURCE", "GENERATION", "ISSUER", "WRITER", "HOLDER", "READER", "SINCE"}}
		for _, m := range marks {
			rows = append(rows, []string{
				m.Resource, strconv.Itoa(int(m.Generation)), cli.Shown(m.Issuer),
				strconv.FormatInt(m.Writer, 10), cli.Shown(m.Holder), strconv.FormatInt(m.Reader, 10), when(m.Since),
			})
		}
		return cli.PrintTable(p.Out, rows)
	}
	return cmd
}

func listMarks(ctx context.Context, conn *pgx.Conn) ([]mark, error) {
	rows, err := conn.Query(ctx, "SELECT "+markColumns+" FROM fence.marks ORDER BY resource")
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	marks, err := pgx.CollectRows(rows, scanMark)
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	return append([]mark{}, marks...), nil
}

func when(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// resources completes the name of a resource on a command line.
func (p *program) resources(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	conn, err := connect.Database(ctx, cmd, p.Env)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer conn.Close(ctx)
	marks, _ := listMarks(ctx, conn)
	var names []string
	for _, m := range marks {
		names = append(names, m.Resource)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// blocker is a row of fence.blockers(): somebody for whom a claim would wait.
type blocker struct {
	PID       *int32     `json:"pid"`
	GID       *string    `json:"gid"`
	User      *string    `json:"user"`
	State     *string    `json:"state"`
	Since     *time.Time `json:"since"`
	Evictable bool       `json:"evictable"`
}

// adoption is a row of fence.adoptions.
type adoption struct {
	Generation   int32     `json:"generation"`
	Issuer       string    `json:"issuer"`
	IssuerBefore string    `json:"issuer_before"`
	Writer       int64     `json:"writer,string"`
	Holder       string    `json:"holder"`
	Reader       int64     `json:"reader,string"`
	By           string    `json:"by"`
	At           time.Time `json:"at"`
}

// resource is all that is known about one.
type resource struct {
	Mark      mark       `json:"mark"`
	Blockers  []blocker  `json:"blockers"`
	Adoptions []adoption `json:"adoptions"`
}

func (p *program) show() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show RESOURCE",
		Short: "Show a resource's mark, who blocks a claim, and its adoptions",
		Long: `Shows the mark of a resource, the open transactions that a new holder's claim
would have to wait for, and every adoption. Exits with 66 if nobody has ever
claimed the resource.

With --json:
  {"mark":{…as marks list…},
   "blockers":[{"pid":4711,"gid":null,"user":"app","state":"idle in transaction",
    "since":"…","evictable":true}],
   "adoptions":[{"generation":1,"issuer":"n7","issuer_before":"k3v9","writer":"34",
    "holder":"9f8c","reader":"31","by":"admin","at":"…"}]}`,
		Example:           `  fenceproxy marks show orders --postgres postgres://admin@db.example/app`,
		Args:              cli.OneArgument("RESOURCE"),
		ValidArgsFunction: p.resources,
	}
	connect.DatabaseFlag(cmd, "URL of the database to look at")
	asJSON := cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := guard.ValidateResource(args[0]); err != nil {
			return cli.Usage(cmd, "%v", err)
		}
		conn, err := connect.Database(cmd.Context(), cmd, p.Env)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(cmd.Context()))
		r, err := showMark(cmd.Context(), conn, args[0])
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(p.Out, r)
		}
		return p.printResource(r)
	}
	return cmd
}

func showMark(ctx context.Context, conn *pgx.Conn, name string) (resource, error) {
	r := resource{Blockers: []blocker{}, Adoptions: []adoption{}}
	rows, err := conn.Query(ctx, "SELECT "+markColumns+" FROM fence.marks WHERE resource OPERATOR(pg_catalog.=) $1", name)
	if err == nil {
		r.Mark, err = pgx.CollectExactlyOneRow(rows, scanMark)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return r, cli.Fail(cli.ExitNotFound, "nobody has ever claimed %q here; 'fenceproxy marks list' shows what there is", name)
	}
	if err != nil {
		return r, fmt.Errorf("read mark of %q: %w", name, err)
	}
	rows, err = conn.Query(ctx, "SELECT pid, gid, usename, state, xact_start, evictable FROM fence.blockers($1) ORDER BY xact_start", name)
	if err == nil {
		r.Blockers, err = pgx.AppendRows(r.Blockers, rows, pgx.RowToStructByPos[blocker])
	}
	if err != nil {
		return r, fmt.Errorf("read blockers of %q: %w", name, err)
	}
	rows, err = conn.Query(ctx, `SELECT generation, issuer, issuer_before, writer, holder, reader, adopted_by, adopted_at
		FROM fence.adoptions WHERE resource OPERATOR(pg_catalog.=) $1 ORDER BY generation`, name)
	if err == nil {
		r.Adoptions, err = pgx.AppendRows(r.Adoptions, rows, pgx.RowToStructByPos[adoption])
	}
	if err != nil {
		return r, fmt.Errorf("read adoptions of %q: %w", name, err)
	}
	return r, nil
}

func (p *program) printResource(r resource) error {
	err := cli.PrintTable(p.Out, [][]string{
		{"resource", r.Mark.Resource},
		{"issuer", fmt.Sprintf("%s (generation %d)", cli.Shown(r.Mark.Issuer), r.Mark.Generation)},
		{"writer", fmt.Sprintf("%d, holder %s", r.Mark.Writer, cli.Shown(r.Mark.Holder))},
		{"reader", strconv.FormatInt(r.Mark.Reader, 10)},
		{"since", when(r.Mark.Since)},
	})
	if err != nil {
		return err
	}
	if len(r.Blockers) > 0 {
		fmt.Fprintln(p.Out, "\nA claim would have to wait for:")
		rows := [][]string{{"  PID", "USER", "STATE", "SINCE", "EVICTABLE"}}
		for _, b := range r.Blockers {
			rows = append(rows, b.row())
		}
		if err := cli.PrintTable(p.Out, rows); err != nil {
			return err
		}
	}
	if len(r.Adoptions) == 0 {
		return nil
	}
	fmt.Fprintln(p.Out, "\nAdoptions, each with the mark that it ended:")
	rows := [][]string{{"  GENERATION", "ISSUER", "BEFORE", "WRITER", "HOLDER", "READER", "BY", "AT"}}
	for _, a := range r.Adoptions {
		rows = append(rows, []string{
			"  " + strconv.Itoa(int(a.Generation)), cli.Shown(a.Issuer), cli.Shown(a.IssuerBefore), strconv.FormatInt(a.Writer, 10),
			cli.Shown(a.Holder), strconv.FormatInt(a.Reader, 10), a.By, when(a.At),
		})
	}
	return cli.PrintTable(p.Out, rows)
}

func (b blocker) row() []string {
	row := []string{"  -", "-", "-", "-", "no"}
	switch {
	case b.PID != nil:
		row[0] = fmt.Sprintf("  %d", *b.PID)
	case b.GID != nil: // a prepared transaction has no process
		row[0] = fmt.Sprintf("  prepared %q", *b.GID)
	}
	if b.User != nil {
		row[1] = *b.User
	}
	if b.State != nil {
		row[2] = *b.State
	}
	if b.Since != nil {
		row[3] = when(*b.Since)
	}
	if b.Evictable {
		row[4] = "yes"
	}
	return row
}
