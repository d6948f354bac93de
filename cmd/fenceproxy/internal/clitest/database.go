package clitest

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
)

// ZooKeeperURL is that of a lock service in ZooKeeper, with locks of this test only.
func ZooKeeperURL(t *testing.T) string {
	return fmt.Sprintf("zk://u:s3cret@%s/test-%s", testenv.ZooKeeper(t).Addr(), locks.NewID())
}

// Execute runs statements in a session of their own.
func Execute(t *testing.T, url string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// Install installs the fence in a database of its own and returns its URL.
func Install(t *testing.T, s *testenv.PostgresServer) string {
	t.Helper()
	url := s.Database(t)
	Run(t, "migrate", "up", "--postgres", url).Want(t, cli.ExitOK)
	return url
}

// DatabaseOf is the name of the database in a URL.
func DatabaseOf(t *testing.T, url string) string {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return config.Database
}

// LayTraps puts functions and operators in front of those of PostgreSQL, for
// every later session of a database: they raise if they are called.
func LayTraps(t *testing.T, url string) {
	t.Helper()
	Execute(t, url, "CREATE SCHEMA trap", `DO $do$
	DECLARE
		f record;
	BEGIN
		FOR f IN SELECT proname, pg_get_function_identity_arguments(oid) AS args, prorettype::regtype AS result FROM pg_proc
			WHERE pronamespace = 'pg_catalog'::regnamespace AND proname IN ('to_regprocedure', 'pg_has_role', 'has_function_privilege',
				'current_setting', 'pg_backend_pid', 'inet_server_port', 'nameeq', 'texteq', 'oideq', 'pg_is_in_recovery')
		LOOP
			EXECUTE format('CREATE FUNCTION trap.%I(%s) RETURNS %s LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION ''trap: %%'', %L; END $$', f.proname, f.args, f.result, f.proname);
		END LOOP;
		CREATE OPERATOR trap.= (FUNCTION = trap.nameeq, LEFTARG = name, RIGHTARG = name);
		CREATE OPERATOR trap.= (FUNCTION = trap.texteq, LEFTARG = text, RIGHTARG = text);
		CREATE OPERATOR trap.= (FUNCTION = trap.oideq, LEFTARG = oid, RIGHTARG = oid);
		EXECUTE format('ALTER DATABASE %I SET search_path = trap, pg_catalog', current_database());
	END $do$`)
}
