package clients_test

import (
	"path/filepath"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// debian is a program of Debian's PostgreSQL 15, not its wrapper that chooses one.
func debian(t *testing.T, name string) string {
	t.Helper()
	return testenv.Program(t, "/usr/lib/postgresql/15/bin/"+name, name)
}

func psql(args ...string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		return append([]string{debian(t, "psql"), "-X", "-a"}, args...)
	}
}

func python(library, script string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		testenv.Program(t, "/usr/lib/python3/dist-packages/"+library)
		return []string{testenv.Program(t, "/usr/bin/python3"), "testdata/" + script}
	}
}

func node(script string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		modules := testenv.Program(t, "npm/node_modules")
		return []string{
			testenv.Program(t, "node"), "testdata/" + script, modules,
		}
	}
}

func java(args ...string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		testenv.Program(t, "javac")
		driver := testenv.Program(t, "/usr/share/java/postgresql.jar")
		return append([]string{
			testenv.Program(t, "java"), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m",
			"-cp", driver, filepath.Join("testdata", "Jdbc.java"),
		}, args...)
	}
}

// programs are the clients whose scripts say the marker.
func programs() []client {
	return []client{
		{name: "psql", argv: psql("-f", "testdata/psql.sql")},
		{name: "psql -1", argv: psql("-1", "-f", "testdata/psql_one.sql")},
		{name: "psql -1, failing", argv: psql("-1", "-f", "testdata/psql_two.sql"), fails: true, variant: true},
		{name: "psycopg2", argv: python("psycopg2", "psycopg2_client.py")},
		{name: "psycopg 3", argv: python("psycopg", "psycopg3_client.py")},
		{name: "node-pg", argv: node("node_pg.cjs"), env: []string{"NODE_NO_WARNINGS=1"}},
		{name: "postgres.js", argv: node("postgres_js.cjs")},
		{name: "pgjdbc", argv: java()},
		{name: "pgjdbc, simple protocol", argv: java("preferQueryMode=simple"), variant: true},
		{name: "pgjdbc, autosave", argv: java("autosave=always", "prepareThreshold=1"), variant: true},
	}
}
