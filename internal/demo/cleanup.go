package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/migrations"
)

// namePrefix begins the name of whatever the demo makes in the servers of
// somebody else and in the file system.
const namePrefix = "fenceproxy-demo-"

// cleanUpLimit bounds how long the traces of the story may take to vanish.
const cleanUpLimit = 30 * time.Second

// traces are what the story leaves: each field that is set is undone.
type traces struct {
	// Dir is a temporary folder.
	Dir string `json:"dir,omitempty"`
	// Postgres is a database of somebody else, through which Database, a
	// database of ours, can be dropped. Own is the URL of that.
	Postgres string `json:"postgres,omitempty"`
	Database string `json:"database,omitempty"`
	Own      string `json:"own,omitempty"`
	// Owner says that the role fence_owner came with our database.
	Owner bool `json:"owner,omitempty"`
	// Schema is a schema of ours in the database Postgres itself.
	Schema string `json:"schema,omitempty"`
	// Fence says that the schema fence was installed there for the story.
	Fence bool `json:"fence,omitempty"`
	// Etcd is an etcd of somebody else, in which the keys with Prefix are ours.
	Etcd   string `json:"etcd,omitempty"`
	Prefix string `json:"prefix,omitempty"`
}

// CleanUp is the process that outlives the story: it reads from in what the
// story leaves, until in ends, because the story has ended or because its
// process is gone, and removes it then.
func CleanUp(ctx context.Context, in io.Reader) error {
	var t traces
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		t = traces{}
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return fmt.Errorf("read traces: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, cleanUpLimit)
	defer cancel()
	return errors.Join(lines.Err(), t.removePostgres(ctx), t.removeEtcd(ctx), t.removeDir(ctx))
}

func (t traces) removePostgres(ctx context.Context) error {
	if t.Postgres == "" {
		return nil
	}
	conn, err := pgx.Connect(ctx, t.Postgres)
	if err != nil {
		return fmt.Errorf("remove the demo from Postgres: %w", err)
	}
	defer conn.Close(ctx)
	if t.Database != "" {
		return t.removeDatabase(ctx, conn)
	}
	if t.Schema != "" {
		if _, err := conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{t.Schema}.Sanitize()+" CASCADE"); err != nil {
			return fmt.Errorf("drop schema of the demo: %w", err)
		}
	}
	if t.Fence {
		return migrations.Down(ctx, t.Postgres, migrations.Config{})
	}
	return nil
}

func (t traces) removeDatabase(ctx context.Context, conn *pgx.Conn) error {
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", t.Database).Scan(&exists); err != nil {
		return fmt.Errorf("look for database of the demo: %w", err)
	}
	if !exists {
		return nil
	}
	var err error
	if t.Owner { // the role goes with the schema, unless another database uses it by now
		err = migrations.Down(ctx, t.Own, migrations.Config{})
	}
	if _, dropped := conn.Exec(ctx, "DROP DATABASE "+pgx.Identifier{t.Database}.Sanitize()+" WITH (FORCE)"); dropped != nil {
		err = errors.Join(err, fmt.Errorf("drop database of the demo: %w", dropped))
	}
	return err
}

func (t traces) removeEtcd(ctx context.Context) error {
	if t.Etcd == "" {
		return nil
	}
	client, err := etcdClient(t.Etcd)
	if err != nil {
		return err
	}
	defer client.Close()
	keys, err := client.Get(ctx, t.Prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return fmt.Errorf("remove the demo from etcd: %w", err)
	}
	for _, kv := range keys.Kvs {
		if kv.Lease != 0 {
			_, _ = client.Revoke(ctx, clientv3.LeaseID(kv.Lease)) // or it ends by its time
		}
	}
	if _, err := client.Delete(ctx, t.Prefix, clientv3.WithPrefix()); err != nil {
		return fmt.Errorf("remove the demo from etcd: %w", err)
	}
	return nil
}

// removeDir retries, since servers that were not stopped but killed together
// with the story may still write.
func (t traces) removeDir(ctx context.Context) error {
	if t.Dir == "" {
		return nil
	}
	if !strings.HasPrefix(filepath.Base(t.Dir), namePrefix) {
		return fmt.Errorf("%s is not a folder of the demo", t.Dir)
	}
	for {
		err := os.RemoveAll(t.Dir)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove the demo's folder: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// cleaner is the process that runs CleanUp, as the story sees it.
type cleaner struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stderr bytes.Buffer
	traces traces
}

// startCleaner starts it in a session of its own: whatever ends the story,
// Ctrl-C or a closed terminal too, does not end it.
func startCleaner(ctx context.Context, executable string, args []string) (*cleaner, error) {
	in, stdin, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open pipe to the cleaner: %w", err)
	}
	defer in.Close()
	c := &cleaner{cmd: exec.CommandContext(context.WithoutCancel(ctx), executable, args...), stdin: stdin}
	c.cmd.Stdin, c.cmd.Stderr = in, &c.stderr
	c.cmd.Dir = os.TempDir()
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.cmd.Start(); err != nil {
		stdin.Close()
		return nil, fmt.Errorf("start the cleaner: %w", err)
	}
	return c, nil
}

// add tells the cleaner what is about to be made, before it is.
func (c *cleaner) add(change func(*traces)) error {
	change(&c.traces)
	return sendLine(c.stdin, c.traces)
}

// finish makes the cleaner clean up, and waits for it.
func (c *cleaner) finish() error {
	c.stdin.Close()
	if err := c.cmd.Wait(); err != nil {
		return &LeftBehindError{Err: fmt.Errorf("%s (%w)", strings.TrimSpace(c.stderr.String()), err)}
	}
	return nil
}

// LeftBehindError says that something of the demo is left.
type LeftBehindError struct {
	Err error // what could not be removed, and why
}

// Error says what is left.
func (e *LeftBehindError) Error() string { return "the demo left something behind: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *LeftBehindError) Unwrap() error { return e.Err }
