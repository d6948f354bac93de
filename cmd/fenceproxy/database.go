package main

import (
	"context"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
)

const (
	postgresEnv = "DATABASE_URL"
	// connectLimit bounds a connection attempt, unless the URL has its own
	// connect_timeout.
	connectLimit = 10 * time.Second
)

// databaseFlag adds --postgres to a command.
func databaseFlag(cmd *cobra.Command, what string) {
	cmd.Flags().String("postgres", "", what+" (default: the environment's "+postgresEnv+")")
}

// databaseURL returns the URL that the command line or the environment gives,
// "" for none.
func databaseURL(cmd *cobra.Command, env func(string) string) (string, error) {
	text, err := cmd.Flags().GetString("postgres")
	if err != nil {
		return "", err
	}
	source := "--postgres"
	if text == "" {
		if text, source = env(postgresEnv), postgresEnv; text == "" {
			return "", nil
		}
	}
	if _, err := pgx.ParseConfig(text); err != nil {
		// Not its own text: what can't be parsed can't be redacted for certain.
		return "", usage(cmd, "%s is not the URL of a Postgres database: it must read postgres://user:password@host:port/database, special characters percent-encoded", source)
	}
	return text, nil
}

// mustDatabaseURL is databaseURL of a command that does nothing without one.
func mustDatabaseURL(cmd *cobra.Command, env func(string) string) (string, error) {
	text, err := databaseURL(cmd, env)
	if err == nil && text == "" {
		err = usage(cmd, "no database: give --postgres URL, or set %s", postgresEnv)
	}
	return text, err
}

// neededVersion is the first version of the schema fence that has all that the
// commands but migrate call. Later ones only add to it.
const neededVersion = 4

// connect opens the database and makes sure that fence is installed there, in
// a version that has what this program calls.
func connect(ctx context.Context, cmd *cobra.Command, env func(string) string) (*pgx.Conn, error) {
	text, err := mustDatabaseURL(cmd, env)
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, err
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectLimit
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := installed(ctx, conn); err != nil {
		conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

func installed(ctx context.Context, conn *pgx.Conn) error {
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT to_regprocedure('fence.version()') IS NOT NULL").Scan(&exists); err != nil {
		return err
	}
	if !exists {
		return fail(exitSchema, "the schema fence is not installed in this database; run 'fenceproxy migrate up'")
	}
	var version int
	if err := conn.QueryRow(ctx, "SELECT fence.version()").Scan(&version); err != nil {
		return err
	}
	return checkVersion(version, neededVersion)
}

func checkVersion(version, needed int) error {
	switch {
	case version == 0:
		return fail(exitSchema, "the schema fence is not installed in this database; run 'fenceproxy migrate up'")
	case version < needed:
		return fail(exitSchema, "the schema fence has version %d and this program needs %d; run 'fenceproxy migrate up'", version, needed)
	}
	return nil
}

var passwords = regexp.MustCompile(`(?i)(://[^:@/\s]*):\S*@|\b((?:ssl)?password\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^\s&]+)`)

// redact takes passwords out of whatever looks like a URL or a connection
// string: the last line of defence, since nothing here puts one into a message.
func redact(text string) string {
	return passwords.ReplaceAllStringFunc(text, func(match string) string {
		part := passwords.FindStringSubmatch(match)
		if part[1] != "" || part[2] == "" {
			return part[1] + ":xxxxx@"
		}
		return part[2] + "xxxxx"
	})
}
