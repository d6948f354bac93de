// Package connect gets a command to the database, the bucket or the lock service
// that its flags or the environment name.
package connect

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
)

const (
	// DatabaseEnv has the URL where there is no --postgres.
	DatabaseEnv = "DATABASE_URL"
	// DatabaseLimit bounds a connection attempt, unless the URL has its own
	// connect_timeout.
	DatabaseLimit = 10 * time.Second
)

// DatabaseFlag adds --postgres to a command.
func DatabaseFlag(cmd *cobra.Command, what string) {
	cmd.Flags().String("postgres", "", what+" (default: the environment's "+DatabaseEnv+")")
}

// DatabaseURL returns the URL that the command line or the environment gives,
// "" for none.
func DatabaseURL(cmd *cobra.Command, env func(string) string) (string, error) {
	text, err := cmd.Flags().GetString("postgres")
	if err != nil {
		return "", err
	}
	source := "--postgres"
	if text == "" {
		if text, source = env(DatabaseEnv), DatabaseEnv; text == "" {
			return "", nil
		}
	}
	if _, err := pgx.ParseConfig(text); err != nil {
		// Not its own text: what can't be parsed can't be redacted for certain.
		return "", cli.Usage(cmd, "%s is not the URL of a Postgres database: it must read postgres://user:password@host:port/database, special characters percent-encoded", source)
	}
	return text, nil
}

// RequiredDatabaseURL is DatabaseURL of a command that does nothing without one.
func RequiredDatabaseURL(cmd *cobra.Command, env func(string) string) (string, error) {
	text, err := DatabaseURL(cmd, env)
	if err == nil && text == "" {
		err = cli.Usage(cmd, "no database: give --postgres URL, or set %s", DatabaseEnv)
	}
	return text, err
}

// NeededVersion is the first version of the schema fence that has all that the
// commands but migrate call. Later ones only add to it.
const NeededVersion = 4

// Database opens the database and makes sure that fence is installed there, in
// a version that has what this program calls.
func Database(ctx context.Context, cmd *cobra.Command, env func(string) string) (*pgx.Conn, error) {
	text, err := RequiredDatabaseURL(cmd, env)
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, err
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = DatabaseLimit
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := Installed(ctx, conn); err != nil {
		conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// installedSQL tells whether there is a fence, and to a superuser whose it is
// unless it is one that nobody can have laid out as a trap.
const installedSQL = `SELECT pg_catalog.to_regprocedure('fence.version()') IS NOT NULL, coalesce((
	SELECT pg_catalog.pg_get_userbyid(n.nspowner) FROM pg_catalog.pg_namespace n, pg_catalog.pg_roles o, pg_catalog.pg_roles me
	 WHERE n.nspname OPERATOR(pg_catalog.=) 'fence' AND o.oid OPERATOR(pg_catalog.=) n.nspowner
	   AND me.rolname OPERATOR(pg_catalog.=) current_user AND me.rolsuper
	   AND NOT (o.rolsuper OR o.rolname OPERATOR(pg_catalog.=) 'fence_owner')), '')`

// Installed makes sure that fence is installed in a database, in a version that
// has what this program calls.
func Installed(ctx context.Context, conn *pgx.Conn) error {
	var exists bool
	var stranger string
	if err := conn.QueryRow(ctx, installedSQL).Scan(&exists, &stranger); err != nil {
		return err
	}
	if stranger != "" {
		return cli.Fail(cli.ExitSchema, "the schema fence belongs to %s, whose functions would run with the rights of a superuser; connect as %[1]s or as a role that may claim", stranger)
	}
	if !exists {
		return cli.Fail(cli.ExitSchema, "the schema fence is not installed in this database; run 'fenceproxy migrate up'")
	}
	var version int
	if err := conn.QueryRow(ctx, "SELECT fence.version()").Scan(&version); err != nil {
		return err
	}
	return CheckVersion(version, NeededVersion)
}

// CheckVersion makes sure that fence is there, version 0 being none, and not older
// than needed.
func CheckVersion(version, needed int) error {
	switch {
	case version == 0:
		return cli.Fail(cli.ExitSchema, "the schema fence is not installed in this database; run 'fenceproxy migrate up'")
	case version < needed:
		return cli.Fail(cli.ExitSchema, "the schema fence has version %d and this program needs %d; run 'fenceproxy migrate up'", version, needed)
	}
	return nil
}
