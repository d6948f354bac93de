package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/migrate"
	"github.com/fenceproxy/fenceproxy/migrations"
)

const (
	oldestPostgres = 14
	newestPostgres = 18
)

func (p *program) postgres() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "postgres",
		Short: "Look at a database: schema, roles, settings, and what is in between",
		Long: `Looks at a database as the user of the URL sees it: the server's version, the
schema fence and whether it works here, who owns it and may claim, what the
default isolation level means for claims, whether all of a protected table is
protected, and whether a pooler like PgBouncer is in between, in which mode, and
whether tokens reach the server through it. It changes nothing.

LEVEL is ok; note: to know; warning: to mend, depending on what is done here; or
wrong: nothing can be fenced like this. Exits with 78 if something is wrong.

With --json:
  {"target":"db.example:5432/app","findings":[{"check":"schema","of":"","level":
   "warning","found":"version 4, and this program has 5","advice":"fenceproxy migrate
   up"}]}`,
		Example: `  fenceproxy doctor postgres --postgres postgres://app@db.example/app
  fenceproxy doctor postgres --json | jq -r '.findings[]|select(.level!="ok").found'`,
		Args: cli.NoArguments,
	}
	connect.DatabaseFlag(cmd, "URL of the database to look at")
	asJSON := cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		url, err := connect.RequiredDatabaseURL(cmd, p.Env)
		if err != nil {
			return err
		}
		f, err := examinePostgres(cmd.Context(), url)
		if err != nil {
			return err
		}
		return p.printFindings(f, *asJSON)
	}
	return cmd
}

func examinePostgres(ctx context.Context, url string) (*findings, error) {
	conn, options, err := connectDoctor(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	c := conn.Config()
	f := &findings{Target: fmt.Sprintf("%s:%d/%s", c.Host, c.Port, c.Database)}
	d := &postgresDoctor{findings: f, conn: conn, url: url}
	for _, look := range []func(context.Context) error{d.server, d.schema, d.roles, d.settings, d.tables} {
		if err := look(ctx); err != nil {
			return nil, err
		}
	}
	return f, d.between(ctx, options)
}

type postgresDoctor struct {
	*findings
	conn      *pgx.Conn
	url       string
	installed int // version of the schema
}

// probeSetting is one that a client sets as it connects, as PGOPTIONS sets a
// token.
const probeSetting = "fence.doctor"

// connectDoctor connects, and tells whether the server, or what is in between,
// takes settings then.
func connectDoctor(ctx context.Context, url string) (conn *pgx.Conn, options bool, err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, false, err
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connect.DatabaseLimit
	}
	// A pooler may not know of statements that are prepared.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	own := config.RuntimeParams["options"]
	config.RuntimeParams["options"] = strings.TrimSpace(own + " -c " + probeSetting + "=here")
	conn, err = pgx.ConnectConfig(ctx, config)
	var pgErr *pgconn.PgError
	if err == nil {
		return conn, true, nil
	}
	if !errors.As(err, &pgErr) || pgErr.Code != "08P01" { // protocol violation, says PgBouncer
		return nil, false, err
	}
	delete(config.RuntimeParams, "options")
	if own != "" {
		config.RuntimeParams["options"] = own
	}
	conn, err = pgx.ConnectConfig(ctx, config)
	return conn, false, err
}

// one reads one row, in a transaction in which names mean what PostgreSQL means
// by them and not what somebody has put in the search_path.
func (d *postgresDoctor) one(ctx context.Context, what, sql string, into ...any) error {
	err := pgx.BeginFunc(ctx, d.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)"); err != nil {
			return err
		}
		return tx.QueryRow(ctx, sql).Scan(into...)
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	return nil
}

func (d *postgresDoctor) server(ctx context.Context) error {
	var version string
	var number int
	var standby bool
	err := d.one(ctx, "version", `SELECT current_setting('server_version'), current_setting('server_version_num')::int, pg_is_in_recovery()`,
		&version, &number, &standby)
	if err != nil {
		return err
	}
	switch major := number / 10000; {
	case major < oldestPostgres:
		d.add("server", levelWrong, "use a newer one", "PostgreSQL %s, and the fence takes %d or later", version, oldestPostgres)
	case major > newestPostgres:
		d.add("server", levelWarning, "", "PostgreSQL %s, which the fence has not been tested on", version)
	default:
		d.add("server", levelOK, "", "PostgreSQL %s", version)
	}
	if standby {
		d.add("standby", levelWrong, "use the URL of the primary", "it replays what another server writes: nothing can be claimed here")
	}
	return nil
}

func (d *postgresDoctor) schema(ctx context.Context) error {
	state, err := migrations.Status(ctx, d.url)
	if err != nil {
		return fmt.Errorf("look at the schema: %w", err)
	}
	d.installed = state.Installed
	const up = "fenceproxy migrate up"
	switch {
	case state.Installed == 0:
		d.add("schema", levelWrong, up, "not installed")
		return nil
	case state.Installed < connect.NeededVersion:
		d.add("schema", levelWrong, up, "version %d, and this program needs %d", state.Installed, connect.NeededVersion)
	case state.Installed < state.Wanted:
		d.add("schema", levelWarning, up, "version %d, and this program has %d", state.Installed, state.Wanted)
	case state.Installed > state.Wanted:
		d.add("schema", levelOK, "", "version %d, newer than this program's %d", state.Installed, state.Wanted)
	default:
		d.add("schema", levelOK, "", "version %d", state.Installed)
	}
	if state.SelfTest == "ok" || state.SelfTest == "" {
		d.add("self test", levelOK, "", "a check holds up claims, as it must")
	} else {
		d.add("self test", levelWrong, "", "%s", state.SelfTest)
	}
	if need := migrate.EvictionNeeds(state); need == "" {
		d.add("eviction", levelOK, "", "a new holder can end what an old one left open")
	} else {
		d.add("eviction", levelWarning, "an administrator runs: "+need, "not possible: a new holder waits for what an old one left open, and fails at its limit")
	}
	return nil
}

func (d *postgresDoctor) roles(ctx context.Context) error {
	var user string
	var super bool
	if err := d.one(ctx, "user", `SELECT current_user, rolsuper FROM pg_roles WHERE rolname = current_user`, &user, &super); err != nil {
		return err
	}
	if super {
		d.add("user", levelNote, "do not let applications be one", "%s is a superuser, who can switch triggers off", user)
	}
	if d.installed == 0 {
		return nil
	}
	var owner string
	var login, ownerSuper, may, everybody bool
	err := d.one(ctx, "privileges", `SELECT r.rolname, r.rolcanlogin, r.rolsuper,
		(SELECT bool_and(has_function_privilege(p.oid, 'EXECUTE')) FROM pg_proc p WHERE p.pronamespace = n.oid AND p.proname = 'claim'),
		(SELECT bool_or(has_function_privilege('public', p.oid, 'EXECUTE')) FROM pg_proc p WHERE p.pronamespace = n.oid AND p.proname = 'claim')
		FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner WHERE n.nspname = 'fence'`, &owner, &login, &ownerSuper, &may, &everybody)
	if err != nil {
		return err
	}
	switch {
	case ownerSuper:
		d.add("owner", levelWarning, "make a role fence_owner NOLOGIN, and let migrate down and up give it everything", "%s, a superuser: functions run with its rights", owner)
	case login:
		d.add("owner", levelWarning, "ALTER ROLE "+migrate.QuoteName(owner)+" NOLOGIN, or a role fence_owner of its own", "%s, who can log in and change marks", owner)
	default:
		d.add("owner", levelOK, "", "%s, who cannot log in", owner)
	}
	switch {
	case everybody:
		d.add("claims", levelWarning, "REVOKE EXECUTE ON FUNCTION fence.claim FROM PUBLIC, and migrate up --grant ROLE", "everybody may claim: one claim of the highest number locks all others out")
	case may:
		d.add("claims", levelOK, "", "%s may claim and check", user)
	default:
		d.add("claims", levelNote, "fenceproxy migrate up --grant "+migrate.QuoteName(user)+", if it acquires locks", "%s may check, and not claim", user)
	}
	return nil
}

func (d *postgresDoctor) settings(ctx context.Context) error {
	var isolation, readOnly string
	var prepared int
	err := d.one(ctx, "settings", `SELECT current_setting('default_transaction_isolation'), current_setting('default_transaction_read_only'),
		(SELECT count(*)::int FROM pg_prepared_xacts WHERE database = current_database())`, &isolation, &readOnly, &prepared)
	if err != nil {
		return err
	}
	if isolation == "read committed" || isolation == "read uncommitted" {
		d.add("isolation", levelOK, "", "%s by default", isolation)
	} else {
		d.add("isolation", levelNote, "by hand: BEGIN ISOLATION LEVEL READ COMMITTED; SELECT fence.claim(…); COMMIT",
			"%s by default: checks work, fence.claim needs read committed; pgstore, exec and the proxy ask for it themselves", isolation)
	}
	if readOnly == "on" {
		d.add("read only", levelNote, "", "transactions are read-only by default here: a claim needs READ WRITE")
	}
	if prepared > 0 {
		d.add("prepared transactions", levelWarning, "COMMIT PREPARED or ROLLBACK PREPARED what is forgotten", "%d: a claim that has to wait for one cannot evict it", prepared)
	}
	return nil
}

func (d *postgresDoctor) tables(ctx context.Context) error {
	if d.installed < connect.NeededVersion {
		return nil
	}
	var protected int
	var open *string
	err := d.one(ctx, "protected tables", `SELECT count(DISTINCT relation) FILTER (WHERE protected)::int,
		string_agg(DISTINCT relation::text, ', ') FILTER (WHERE NOT protected) FROM fence.status`, &protected, &open)
	if err != nil {
		return err
	}
	switch {
	case open != nil:
		d.add("tables", levelWarning, "SELECT fence.protect(…) again, of the table at the top", "not protected, though what they belong to is: %s", *open)
	case protected == 0:
		d.add("tables", levelOK, "", "none is protected by triggers")
	default:
		d.add("tables", levelOK, "", "%d protected by triggers, partitions included", protected)
	}
	return nil
}
