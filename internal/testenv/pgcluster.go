package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv/folder"
)

func findPostgres(major int) (localserver.Postgres, error) {
	if err := missingHere(); err != nil {
		return localserver.Postgres{}, err
	}
	bin, err := binFolder()
	if err != nil {
		return localserver.Postgres{}, err
	}
	return localserver.FindPostgresMajor(major, bin)
}

// launchPostgres starts a server and returns it with what stops it.
func launchPostgres(c PostgresConfig) (*PostgresServer, func(), error) {
	program, err := findPostgres(c.Major)
	if errors.Is(err, errMissing) {
		return dockerPostgres(c, err)
	}
	if err != nil {
		return nil, nil, err
	}
	who, err := localserver.ServerAccount()
	if err != nil {
		return nil, nil, err
	}
	if program, err = reachablePostgres(program, who); err != nil {
		return nil, nil, err
	}
	dir, remove, err := folder.New(who)
	if err != nil {
		return nil, nil, err
	}
	cluster := &localserver.Cluster{Postgres: program, Account: who, Dir: dir, Settings: c.settings()}
	if err = fill(cluster); err == nil {
		err = cluster.Start(context.Background())
	}
	if err != nil {
		remove()
		return nil, nil, err
	}
	s := &PostgresServer{major: c.Major, admin: cluster.URL(), cluster: cluster}
	return s, func() { cluster.Stop(); remove() }, nil
}

// reachablePostgres is the program where the account can reach it, copied at
// most once in this process.
func reachablePostgres(p localserver.Postgres, who *localserver.Account) (localserver.Postgres, error) {
	return share("program "+p.Bin, func() (localserver.Postgres, func(), error) {
		dir, remove, err := folder.New(who)
		if err != nil {
			return p, nil, err
		}
		p, err := p.For(who, filepath.Join(dir, "postgres"))
		if err != nil {
			remove()
		}
		return p, remove, err
	})
}

// settings are the server's beside those of localserver.
func (c PostgresConfig) settings() map[string]string {
	onOff := map[bool]string{true: "on", false: "off"}
	all := map[string]string{
		"max_connections":           "300",
		"max_prepared_transactions": "64",
		"wal_level":                 "replica",
		"fsync":                     onOff[c.Fsync],
		"full_page_writes":          onOff[c.Fsync],
		"log_line_prefix":           "%m [%p] %q%u@%d ",
	}
	maps.Copy(all, c.Settings)
	return all
}

const passwordFile = "superuser-password"

// fill makes the cluster's data, as initdb does and ten times as fast: a copy of
// what that made once for each build of Postgres, kept in .bin/cache. Several
// test processes may want it at the same time.
func fill(c *localserver.Cluster) error {
	version, err := exec.Command(filepath.Join(c.Bin, "postgres"), "--version").Output()
	if err != nil {
		return fmt.Errorf("ask postgres for its version: %w", err)
	}
	bin, err := binFolder()
	if err != nil {
		return err
	}
	cache := filepath.Join(bin, "cache")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	name := strings.NewReplacer(" ", "_", "/", "_", "(", "", ")", "").Replace(strings.TrimSpace(string(version)))
	// Only who made it can read it.
	template := filepath.Join(cache, fmt.Sprintf("%s_uid%d", name, os.Geteuid()))
	lock, err := folder.Lock(template + ".lock")
	if err != nil {
		return err
	}
	if _, err = os.Stat(template); err != nil {
		err = initialize(*c, template)
	}
	lock.Close()
	if err != nil {
		return err
	}
	password, err := os.ReadFile(filepath.Join(template, passwordFile))
	if err != nil {
		return err
	}
	c.Password = string(password)
	if err := localserver.CopyTree(template, filepath.Join(c.Dir, "data"), c.Account); err != nil {
		return fmt.Errorf("copy data directory: %w", err)
	}
	return nil
}

// initialize makes the template, whole or not at all. It runs initdb in a folder
// of its own, for the account may not be allowed to write to the cache.
func initialize(c localserver.Cluster, template string) error {
	work, remove, err := folder.New(c.Account)
	if err != nil {
		return err
	}
	defer remove()
	c.Dir, c.Password = work, rand.Text()
	if err := c.Initialize(context.Background()); err != nil {
		return err
	}
	partial := template + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := localserver.CopyTree(filepath.Join(work, "data"), partial, nil); err != nil {
		return fmt.Errorf("keep data directory: %w", err)
	}
	if err := os.WriteFile(filepath.Join(partial, passwordFile), []byte(c.Password), 0o600); err != nil {
		return err
	}
	return os.Rename(partial, template)
}
