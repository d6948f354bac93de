package localserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// ErrMissing is behind the error of a server whose program is not on this
// machine.
var ErrMissing = errors.New("not on this machine")

// Postgres is the program of one PostgreSQL version on this machine.
type Postgres struct {
	// Bin is the folder with initdb and postgres.
	Bin string
	// Major is the version, e.g. 15.
	Major int
}

// oldestPostgres is the first version that the fence runs on.
const oldestPostgres = 14

// FindPostgres returns the newest PostgreSQL in the folders postgres-* below
// each of dirs, where Debian and Red Hat have theirs, or in PATH. Without one
// its error matches ErrMissing. It may be one that root alone can reach: see
// Postgres.For.
func FindPostgres(ctx context.Context, dirs ...string) (Postgres, error) {
	var best Postgres
	for _, bin := range append(postgresFolders("*", dirs), pathPostgres()...) {
		if p, ok := askPostgres(ctx, bin); ok && p.Major > best.Major {
			best = p
		}
	}
	if best.Major < oldestPostgres {
		return best, fmt.Errorf("PostgreSQL %d or later is %w", oldestPostgres, ErrMissing)
	}
	return best, nil
}

// FindPostgresMajor is FindPostgres for one version. It trusts the names of
// folders, and so does not look in PATH.
func FindPostgresMajor(major int, dirs ...string) (Postgres, error) {
	for _, bin := range postgresFolders(strconv.Itoa(major), dirs) {
		if isPostgres(bin) {
			return Postgres{bin, major}, nil
		}
	}
	return Postgres{}, fmt.Errorf("PostgreSQL %d is %w", major, ErrMissing)
}

// postgresFolders are folders of programs, all of Postgres's own.
func postgresFolders(version string, dirs []string) []string {
	var patterns, found []string
	for _, dir := range dirs {
		patterns = append(patterns, filepath.Join(dir, "postgres-"+version, "bin"))
	}
	for _, pattern := range append(patterns, "/usr/lib/postgresql/"+version+"/bin", "/usr/pgsql-"+version+"/bin") {
		bins, _ := filepath.Glob(pattern) // fails if dir has half a bracket in its name: nothing is found
		found = append(found, bins...)
	}
	return found
}

// pathPostgres is the folder of the postgres in PATH, if it can be run where it
// is: who knows what else would be copied with it.
func pathPostgres() []string {
	path, err := exec.LookPath("postgres")
	if err != nil {
		return nil
	}
	who, errAccount := ServerAccount()
	path, errLink := filepath.EvalSymlinks(path)
	if errors.Join(errAccount, errLink) != nil || !who.reaches(path) {
		return nil
	}
	return []string{filepath.Dir(path)}
}

func isPostgres(bin string) bool {
	return isExecutable(filepath.Join(bin, "postgres")) && isExecutable(filepath.Join(bin, "initdb"))
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// askPostgres asks the program in bin for its version.
func askPostgres(ctx context.Context, bin string) (Postgres, bool) {
	if !isPostgres(bin) {
		return Postgres{}, false
	}
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return Postgres{}, false
	}
	match := versionPattern.FindSubmatch(out)
	if match == nil {
		return Postgres{}, false
	}
	major, err := strconv.Atoi(string(match[1]))
	return Postgres{bin, major}, err == nil
}

// For returns p if the account can reach it. Else, as in a checkout below /root,
// it copies p into the folder dir, which it makes, and returns the copy.
func (p Postgres) For(who *Account, dir string) (Postgres, error) {
	bin, err := filepath.EvalSymlinks(p.Bin)
	if err != nil {
		return p, fmt.Errorf("find PostgreSQL %d: %w", p.Major, err)
	}
	p.Bin = bin
	switch {
	case who.reaches(filepath.Join(bin, "postgres")):
		return p, nil
	case !who.reaches(dir):
		return p, fmt.Errorf("root alone can reach PostgreSQL in %s, and a copy in %s, and Postgres refuses to run as root", bin, dir)
	}
	if err := CopyTree(filepath.Dir(bin), dir, who); err != nil {
		return p, fmt.Errorf("copy PostgreSQL %d, which root alone can reach: %w", p.Major, err)
	}
	return Postgres{filepath.Join(dir, "bin"), p.Major}, nil
}

// FindEtcd returns the path of etcd in one of dirs or in PATH. Without one its
// error matches ErrMissing.
func FindEtcd(dirs ...string) (string, error) {
	for _, dir := range dirs {
		if path := filepath.Join(dir, "etcd"); isExecutable(path) {
			return path, nil
		}
	}
	if path, err := exec.LookPath("etcd"); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("etcd is %w", ErrMissing)
}
