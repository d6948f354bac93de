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
