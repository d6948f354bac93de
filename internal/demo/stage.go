package demo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/migrations"
)

// stage is where the story is played: the servers, and what is ours in them.
type stage struct {
	postgres string // URL of the database that it is played in
	etcd     string
	prefix   string // of the keys in etcd
	resource string
	ledger   ledger

	servers []*localserver.Server
}

// etcdLimit bounds how long etcd may take to answer for the first time: its
// client would wait for ever.
const etcdLimit = 10 * time.Second

// setUp finds or starts the servers and prepares them. The caller ends what it
// left in s.stage and s.cleaner, whether or not it returned an error.
func (s *story) setUp(ctx context.Context) error {
	s.stage = stage{prefix: namePrefix + s.id, resource: "ledger", ledger: ledger{strings.ReplaceAll(namePrefix+s.id, "-", "_")}}
	if err := s.findPostgres(ctx); err != nil {
		return err
	}
	if err := s.findEtcd(ctx); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, s.stage.postgres)
	if err != nil {
		return fmt.Errorf("connect to Postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return s.stage.ledger.create(ctx, conn)
}

func (s *story) findPostgres(ctx context.Context) error {
	if s.config.Postgres != "" {
		return s.visitPostgres(ctx)
	}
	program, err := localserver.FindPostgres(ctx, s.config.Programs...)
	if err != nil {
		return fmt.Errorf("%w: install it (apt-get install postgresql, or make servers), or name a server with --postgres", err)
	}
	dir, err := s.scratch("postgres")
	if err != nil {
		return err
	}
	s.timeline.say(director, 0, plain, "starts a PostgreSQL %d of its own (%s)", program.Major, program.Bin)
	server, err := program.Start(ctx, dir)
	if err != nil {
		return err
	}
	s.stage.servers = append(s.stage.servers, server)
	s.stage.postgres = server.Address
	s.timeline.say(director, 0, plain, "PostgreSQL listens on 127.0.0.1:%d", server.Port)
	return s.installFence(ctx)
}

func (s *story) findEtcd(ctx context.Context) error {
	if s.config.Etcd != "" {
		s.timeline.say(director, 0, plain, "uses the etcd at %s, keys %s*", s.config.Etcd, s.stage.prefix)
		s.stage.etcd = s.config.Etcd
		if err := reachEtcd(ctx, s.config.Etcd); err != nil {
			return err
		}
		return s.cleaner.add(func(t *traces) { t.Etcd, t.Prefix = s.config.Etcd, s.stage.prefix })
	}
	path, err := localserver.FindEtcd(s.config.Programs...)
	if err != nil {
		return fmt.Errorf("%w: build it (make servers) or install it (apt-get install etcd-server), or name a server with --etcd", err)
	}
	dir, err := s.scratch("etcd")
	if err != nil {
		return err
	}
	s.timeline.say(director, 0, plain, "starts an etcd of its own (%s)", path)
	server, err := localserver.StartEtcd(ctx, path, dir)
	if err != nil {
		return err
	}
	s.stage.servers = append(s.stage.servers, server)
	s.stage.etcd = server.Address
	s.timeline.say(director, 0, plain, "etcd listens on %s", server.Address)
	return nil
}

// scratch makes a folder for a server below the demo's temporary one.
func (s *story) scratch(name string) (string, error) {
	root := filepath.Join(os.TempDir(), namePrefix+s.id)
	if err := s.cleaner.add(func(t *traces) { t.Dir = root }); err != nil {
		return "", err
	}
	dir := filepath.Join(root, name)
	// Another user runs Postgres if this is root: it must get through to its own.
	if err := os.MkdirAll(root, 0o711); err != nil { //nolint:gosec // its parts are 0700
		return "", fmt.Errorf("make a temporary folder: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a temporary folder: %w", err)
	}
	return dir, nil
}

// visitPostgres plays in a server of somebody else: in a database of its own,
// which leaves nothing behind, or, if the role may not create one, in a schema
// of its own in the given database.
func (s *story) visitPostgres(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.config.Postgres)
	if err != nil {
		return fmt.Errorf("connect to Postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	c := conn.Config()
	at := fmt.Sprintf("uses the Postgres at %s:%d", c.Host, c.Port)

	var owner bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'fence_owner')").Scan(&owner); err != nil {
		return fmt.Errorf("look for role fence_owner: %w", err)
	}
	database := s.stage.ledger.schema
	own, err := inDatabase(s.config.Postgres, database)
	if err != nil {
		return err
	}
	err = s.cleaner.add(func(t *traces) { t.Postgres, t.Database, t.Own, t.Owner = s.config.Postgres, database, own, !owner })
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{database}.Sanitize()+" TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'")
	if err == nil {
		s.timeline.say(director, 0, plain, "%s, in a database of its own, %s", at, database)
		s.stage.postgres = own
		return s.installFence(ctx)
	}
	if pgErr := (*pgconn.PgError)(nil); !errors.As(err, &pgErr) || pgErr.Code != "42501" {
		return fmt.Errorf("create a database for the demo: %w", err)
	}
	s.timeline.say(director, 0, plain, "%s, in a schema of its own, %s: user %s may not create a database", at, database, c.User)
	s.stage.postgres = s.config.Postgres
	s.stage.resource = namePrefix + s.id // there may be marks of others
	if err := s.cleaner.add(func(t *traces) { t.Database, t.Schema = "", database }); err != nil {
		return err
	}
	state, err := migrations.Status(ctx, s.stage.postgres)
	if err != nil {
		return err
	}
	if state.Installed > 0 {
		s.timeline.say(director, 0, plain, "the schema fence is there already and stays; so will the mark of %q", s.stage.resource)
		return nil
	}
	if err := s.cleaner.add(func(t *traces) { t.Fence = true }); err != nil {
		return err
	}
	return s.installFence(ctx)
}

func (s *story) installFence(ctx context.Context) error {
	if err := migrations.Up(ctx, s.stage.postgres, migrations.Config{}); err != nil {
		return err
	}
	s.timeline.say(director, 0, plain, "installs the schema fence")
	return nil
}

// inDatabase returns the connection string for another database of the same
// server as the same user.
func inDatabase(connString, database string) (string, error) {
	changed := connString + " dbname=" + database
	if u, err := url.Parse(connString); err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql") {
		u.Path = "/" + database
		query := u.Query()
		query.Del("dbname")
		query.Del("database")
		u.RawQuery = query.Encode()
		changed = u.String()
	}
	c, err := pgx.ParseConfig(changed)
	if err != nil || c.Database != database {
		return "", errors.New("cannot name another database in the URL of Postgres; give it as postgres://user:password@host:port/database")
	}
	return changed, nil
}

func etcdClient(endpoint string) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd at %s: %w", endpoint, err)
	}
	return client, nil
}

// UnreachableError says that a server did not answer in time.
type UnreachableError struct {
	Server string // with its address
	Err    error
}

// Error names the server.
func (e *UnreachableError) Error() string { return e.Server + " does not answer: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// reachEtcd asks etcd whether it is there.
func reachEtcd(ctx context.Context, endpoint string) error {
	client, err := etcdClient(endpoint)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, etcdLimit)
	defer cancel()
	if _, err := client.Get(ctx, namePrefix); err != nil {
		return &UnreachableError{Server: "etcd at " + endpoint, Err: err}
	}
	return nil
}
