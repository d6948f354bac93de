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
	name := strings.NewReplacer(" ", "_", "/", "_", "(", "", ")", "").Replace(strings.TrimSpace(string(version)))
	// Only who made it can read it.
	dir := filepath.Join(cache, fmt.Sprintf("%s_uid%d", name, os.Geteuid()))
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
	cmd := exec.Command(filepath.Join(c.bin, "initdb"), "--pgdata="+data, "--username=postgres",
		"--pwfile="+password, "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync")
	cmd.Dir = work
	c.account.run(cmd)
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
	if err := copyTree(data, partial, nil); err != nil {
		return fmt.Errorf("keep data directory: %w", err)
	}
	return os.Rename(partial, dir)
}

// reachablePostgres is bin, or a copy of it if the account cannot reach bin:
// the checkout is below a folder that is root's alone, like /root. (A
// capability to ignore permissions does not help: initdb asks access(2)
// whether it may run postgres, and that ignores the capability.)
func reachablePostgres(bin string, who *account) (string, error) {
	if who == nil || reachable(filepath.Join(bin, "postgres")) {
		return bin, nil
	}
	return share("copy of "+bin, func() (string, func(), error) {
		dir, remove, err := scratch(who)
		if err != nil {
			return "", nil, err
		}
		root := filepath.Join(dir, "postgres")
		if err := copyTree(filepath.Dir(bin), root, who); err != nil {
			remove()
			return "", nil, fmt.Errorf("copy %s: %w", bin, err)
		}
		return filepath.Join(root, "bin"), remove, nil
	})
}
