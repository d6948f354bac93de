package localserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Follow makes the folder data a copy of that of a server that runs, with what a
// standby of it needs; what was there is removed. Start starts the standby. Its
// Password has to be the same.
func (c *Cluster) Follow(ctx context.Context, primary *Cluster) error {
	if err := os.RemoveAll(c.data()); err != nil {
		return fmt.Errorf("remove the data before: %w", err)
	}
	log := filepath.Join(c.Dir, "pg_basebackup.log")
	run, err := StartLogged(c.command("pg_basebackup", "--pgdata", c.data(), "--dbname", primary.URL(),
		"--write-recovery-conf", "--checkpoint", "fast", "--wal-method", "stream", "--no-sync", "--no-password"), log, syscall.SIGKILL)
	if err != nil {
		return err
	}
	select {
	case <-run.Done():
	case <-ctx.Done():
		run.End(time.Second, syscall.SIGTERM)
		return context.Cause(ctx)
	}
	if err := run.Err(); err != nil {
		return fmt.Errorf("copy PostgreSQL %d: %w: %s", c.Major, err, tail(log))
	}
	return nil
}
