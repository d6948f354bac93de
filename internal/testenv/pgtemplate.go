package testenv

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const passwordFile = "superuser-password"

// template returns a data directory as initdb leaves it, made once for each
// build of Postgres and kept in .bin/cache. Several test processes may want it
// at the same time.
func (c *pgCluster) template() (string, error) {
	version, err := exec.Command(filepath.Join(c.bin, "postgres"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask postgres for its version: %w", err)
	}
	cache, err := binPath("cache")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	dir := filepath.Join(cache, strings.NewReplacer(" ", "_", "/", "_", "(", "", ")", "").Replace(strings.TrimSpace(string(version))))
	lock, err := lockFile(dir+".lock", syscall.LOCK_EX)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := c.initdb(dir); err != nil {
		return "", err
	}
	return dir, nil
}

// initdb makes dir, whole or not at all. It runs in a folder of its own, for
// the account that Postgres runs as may not be allowed to write to the cache.
func (c *pgCluster) initdb(dir string) error {
	work, remove, err := scratch(c.account)
	if err != nil {
		return err
	}
	defer remove()
	password := filepath.Join(work, passwordFile)
	if err := os.WriteFile(password, []byte(rand.Text()), 0o600); err != nil {
		return err
	}
	if err := c.account.own(password); err != nil {
		return err
	}
	data := filepath.Join(work, "data")
	cmd := c.account.command(work, filepath.Join(c.bin, "initdb"), "--pgdata="+data, "--username=postgres",
		"--pwfile="+password, "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if err := os.Rename(password, filepath.Join(data, passwordFile)); err != nil {
		return err
	}
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := (&pgCluster{}).copyTree(data, partial); err != nil {
		return fmt.Errorf("keep data directory: %w", err)
	}
	return os.Rename(partial, dir)
}

// copyTree copies a data directory, for the account to own.
func (c *pgCluster) copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			err = os.Mkdir(target, 0o700)
		} else {
			var content []byte
			if content, err = os.ReadFile(path); err == nil {
				err = os.WriteFile(target, content, 0o600)
			}
		}
		if err != nil {
			return err
		}
		return c.account.own(target)
	})
}
