package scene

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
	"github.com/fenceproxy/fenceproxy/test/bench/bed"
	"github.com/fenceproxy/fenceproxy/test/bench/turns"
)

// Database is a server with one database in which the fence is installed.
type Database struct {
	URL, Addr string
	Version   string
	PID       int
}

// StartDatabase starts a server. Without fsync it does not wait for the disk.
func StartDatabase(b *bed.Bed, fsync bool) *Database {
	server := testenv.StartPostgres(b, testenv.PostgresConfig{Fsync: fsync, Settings: map[string]string{
		"autovacuum": "off", "checkpoint_timeout": "1h", "max_wal_size": "8GB", "full_page_writes": "off", "max_connections": "400",
	}})
	d := &Database{URL: server.Database(b), Addr: server.Addr(), PID: pidAt(b, server.Addr())}
	b.Must(migrations.Up(b.Context(), d.URL, migrations.Config{}))
	d.Version = ServerVersion(b, d.URL)
	return d
}

// Door is a way to a database.
type Door struct {
	URL string
	// Token is what sessions have in fence.token.
	Token string
	// PID is the process in between, 0 if there is none.
	PID int
}

// Proxy starts a fenceproxy in front of the database.
func (d *Database) Proxy(b *bed.Bed, untokened, token string) Door {
	p := Serve(b, d.listener(untokened), 1)
	return Door{testenv.URLVia(d.URL, p.Addrs[0]), token, p.PID}
}

func (d *Database) listener(untokened string) string {
	return fmt.Sprintf("postgres:\n  - listen: 127.0.0.1:0\n    untokened: %s\n    upstream: {address: %q}\n", untokened, d.Addr)
}

// PgBouncer starts one in session mode in front of the database.
func (d *Database) PgBouncer(b *bed.Bed) Door {
	through := testenv.PgBouncer(b, d.URL, "session")
	u, err := url.Parse(through)
	b.Must(err)
	return Door{URL: through, PID: pidAt(b, u.Host)}
}

// Processes are whose CPU time counts on the way through a door.
func (d *Database) Processes(doors ...Door) map[string][]int {
	all := map[string][]int{"server": {d.PID}}
	for _, door := range doors {
		if door.PID != 0 {
			all["proxy"] = append(all["proxy"], door.PID)
		}
	}
	return all
}

// errNothingDone is a run that measures nothing.
var errNothingDone = errors.New("pgbench has not come to its first transaction")

// Pgbench runs pgbench through a door. Its time counts from before its logins, so
// on a machine that is very busy it may be up before the first transaction: then
// it gets more.
func Pgbench(ctx context.Context, door Door, turn time.Duration, args ...string) (done turns.Done, err error) {
	for range 3 {
		if done, err = pgbenchOnce(ctx, door, turn, args...); !errors.Is(err, errNothingDone) {
			return done, err
		}
		turn = max(4*time.Second, 2*turn)
		bed.Say("%v: once more, for %v", err, turn)
	}
	return done, err
}

func pgbenchOnce(ctx context.Context, door Door, turn time.Duration, args ...string) (turns.Done, error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return turns.Done{}, err
	}
	defer os.RemoveAll(dir)
	out, client, err := pgbench(ctx, door, append([]string{
		"-n", "-M", "prepared", "-j", "1", "-T", seconds(turn), "-l", "--log-prefix", filepath.Join(dir, "log"),
	}, args...)...)
	if err != nil {
		return turns.Done{}, err
	}
	times, err := pgbenchTimes(dir)
	if err != nil {
		return turns.Done{}, err
	}
	if len(times) == 0 {
		return turns.Done{}, errNothingDone
	}
	done := turns.Done{Operations: len(times), P50: turns.Percentile(times, 50), P99: turns.Percentile(times, 99), Client: client}
	for line := range strings.Lines(out) {
		if text, ok := strings.CutPrefix(line, "tps = "); ok {
			tps, err := strconv.ParseFloat(strings.Fields(text)[0], 64)
			if err != nil || tps == 0 {
				return done, fmt.Errorf("pgbench says: %s", out)
			}
			done.Took = time.Duration(float64(done.Operations) / tps * float64(time.Second))
			return done, nil
		}
	}
	return done, fmt.Errorf("pgbench says: %s", out)
}

// Fill makes pgbench's tables, of 100,000 accounts.
func (d *Database) Fill(ctx context.Context) error {
	_, _, err := pgbench(ctx, Door{URL: d.URL}, "-i", "-s", "1", "-q")
	return err
}

func pgbench(ctx context.Context, door Door, args ...string) (out string, client time.Duration, err error) {
	u, err := url.Parse(door.URL)
	if err != nil {
		return "", 0, err
	}
	password, _ := u.User.Password()
	cmd := exec.CommandContext(ctx, "pgbench", append(args, strings.TrimPrefix(u.Path, "/"))...)
	cmd.Env = append(os.Environ(), "PGHOST="+u.Hostname(), "PGPORT="+u.Port(), "PGUSER="+u.User.Username(), "PGPASSWORD="+password)
	if door.Token != "" {
		cmd.Env = append(cmd.Env, "PGOPTIONS=-c "+carrier.GUC+"="+door.Token)
	}
	text, err := cmd.CombinedOutput()
	if err != nil {
		return "", 0, fmt.Errorf("pgbench: %w\n%s", err, text)
	}
	return string(text), cmd.ProcessState.SystemTime() + cmd.ProcessState.UserTime(), nil
}

// pgbenchTimes reads the logs of a run: the third field is microseconds.
func pgbenchTimes(dir string) ([]time.Duration, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "log*"))
	if err != nil {
		return nil, err
	}
	var times []time.Duration
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			if fields := strings.Fields(lines.Text()); len(fields) > 2 {
				us, err := strconv.Atoi(fields[2])
				if err != nil {
					file.Close()
					return nil, fmt.Errorf("log of pgbench: %w", err)
				}
				times = append(times, time.Duration(us)*time.Microsecond)
			}
		}
		file.Close()
		if err := lines.Err(); err != nil {
			return nil, err
		}
	}
	return times, nil
}

// seconds are what pgbench may take, its logins included: whole ones, and enough
// of them for a machine that does other work too.
func seconds(turn time.Duration) string { return strconv.Itoa(max(2, int(turn.Seconds()))) }
