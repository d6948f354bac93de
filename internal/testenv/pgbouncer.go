package testenv

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv/folder"
)

// PgBouncer starts a PgBouncer in front of the database, for this test alone,
// and returns the database's URL through it. Mode is "session" or
// "transaction". Other roles of the server may use it too, if the user of
// databaseURL is a superuser.
func PgBouncer(tb testing.TB, databaseURL, mode string) string {
	tb.Helper()
	bin, err := findPgBouncer()
	need(tb, err)
	who, err := localserver.ServerAccount()
	need(tb, err)
	dir, remove, err := folder.New(who)
	need(tb, err)
	tb.Cleanup(remove)
	var through string
	err = localserver.OnFreePorts(1, func(ports []int) error {
		through = URLVia(databaseURL, localserver.Loopback(ports[0]))
		config, err := writePgBouncer(dir, who, databaseURL, mode, ports[0])
		if err != nil {
			return err
		}
		process, err := localserver.StartLogged(who.Run(exec.Command(bin, config), dir), filepath.Join(dir, "log"), syscall.SIGKILL)
		if err != nil {
			return err
		}
		tb.Cleanup(func() { process.End(grace, syscall.SIGTERM) })
		return process.AwaitReady(context.Background(), time.Minute, func(context.Context) error {
			return withConn(through, func(ctx context.Context, c *pgx.Conn) error { return c.Ping(ctx) })
		})
	})
	if err != nil {
		tb.Fatalf("testenv: start PgBouncer: %v", err)
	}
	return through
}

func findPgBouncer() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} { // sbin is rarely in PATH
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("PgBouncer: %w", errMissing)
}

// writePgBouncer writes the configuration into dir and returns its path.
func writePgBouncer(dir string, who *localserver.Account, databaseURL, mode string, port int) (string, error) {
	u := parseURL(databaseURL)
	host, serverPort, err := net.SplitHostPort(u.Host)
	if err != nil {
		return "", err
	}
	password, _ := u.User.Password()
	users := filepath.Join(dir, "users.txt")
	config := filepath.Join(dir, "pgbouncer.ini")
	for path, text := range map[string]string{
		users: strconv.Quote(u.User.Username()) + " " + strconv.Quote(password) + "\n",
		config: fmt.Sprintf(`[databases]
* = host=%s port=%s auth_user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = %s
max_client_conn = 300
default_pool_size = 50
server_login_retry = 1
ignore_startup_parameters = extra_float_digits
`, host, serverPort, u.User.Username(), port, users, mode),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", err
		}
		if err := who.Own(path); err != nil {
			return "", err
		}
	}
	return config, nil
}
