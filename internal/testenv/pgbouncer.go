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
)

// PgBouncer starts a PgBouncer in front of the database, for this test alone,
// and returns the database's URL through it. Mode is "session" or
// "transaction". Other roles of the server may use it too, if the user of
// databaseURL is a superuser.
func PgBouncer(tb testing.TB, databaseURL, mode string) string {
	tb.Helper()
	bin, err := findPgBouncer()
	need(tb, err)
	who, err := serverAccount()
	need(tb, err)
	dir, remove, err := scratch(who)
	need(tb, err)
	tb.Cleanup(remove)
	for attempt := 1; ; attempt++ {
		through, proc, err := startPgBouncer(bin, dir, who, databaseURL, mode)
		if err == nil {
			tb.Cleanup(func() { proc.end(syscall.SIGTERM) })
			return through
		}
		if !portTaken(err) || attempt == startAttempts {
			tb.Fatalf("testenv: start PgBouncer: %v", err)
		}
	}
}

func findPgBouncer() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} { // sbin is rarely in PATH
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("PgBouncer: %w", errMissing)
}

func startPgBouncer(bin, dir string, who *account, databaseURL, mode string) (string, *process, error) {
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	u := parseURL(databaseURL)
	host, serverPort, err := net.SplitHostPort(u.Host)
	if err != nil {
		return "", nil, err
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
ignore_startup_parameters = extra_float_digits
`, host, serverPort, u.User.Username(), port, users, mode),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", nil, err
		}
		if err := who.own(path); err != nil {
			return "", nil, err
		}
	}
	proc, err := command{path: bin, args: []string{config}, logPath: filepath.Join(dir, "log"), account: who, onDeath: syscall.SIGKILL}.start()
	if err != nil {
		return "", nil, err
	}
	through := URLVia(databaseURL, loopback(port))
	err = proc.until(time.Minute, func() error {
		return withConn(through, func(ctx context.Context, c *pgx.Conn) error { return c.Ping(ctx) })
	})
	if err != nil {
		proc.end()
		return "", nil, err
	}
	return through, proc, nil
}
