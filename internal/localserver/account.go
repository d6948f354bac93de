package localserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// Account is who runs a server that refuses to run as root. A nil one means
// that this process is not root, and that servers run as it does.
type Account struct {
	name     string
	uid, gid uint32
}

// ServerAccount returns the user postgres or, where there is none, nobody, if
// this process is root; nil if it is not.
func ServerAccount() (*Account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(errUID, errGID); err != nil {
			return nil, fmt.Errorf("read user %s: %w", name, err)
		}
		return &Account{name, uint32(uid), uint32(gid)}, nil
	}
	return nil, errors.New("this is root, Postgres refuses to run as root, and there is no user postgres or nobody to run it as")
}

// Own gives path to the account.
func (a *Account) Own(path string) error {
	if a == nil {
		return nil
	}
	if err := os.Lchown(path, int(a.uid), int(a.gid)); err != nil {
		return fmt.Errorf("give %s to user %s: %w", path, a.name, err)
	}
	return nil
}

// Run makes cmd run as the account, with its data in dir, and returns it. Data
// may be where root alone can enter, programs may not: they check with access(2)
// whether they can reach each other, and that ignores the capability that lets
// them reach data. Postgres.For is the way out.
func (a *Account) Run(cmd *exec.Cmd, dir string) *exec.Cmd {
	if a == nil {
		return cmd
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.uid, Gid: a.gid}}
	if !a.reaches(dir) {
		ignorePermissions(cmd.SysProcAttr)
	}
	return cmd
}

// reaches says whether the account may enter all folders above path.
func (a *Account) reaches(path string) bool {
	if a == nil {
		return true
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || !a.enters(info) {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// enters says whether the account may enter a folder: of the bits for owner,
// group and others the first that are about it count.
func (a *Account) enters(dir os.FileInfo) bool {
	bit := os.FileMode(0o001)
	if stat, ok := dir.Sys().(*syscall.Stat_t); ok {
		switch {
		case stat.Uid == a.uid:
			bit = 0o100
		case stat.Gid == a.gid:
			bit = 0o010
		}
	}
	return dir.Mode()&bit != 0
}

// CopyTree copies a folder with all that is in it to the new folder to, for the
// account. Nobody else may do with the copy more than with the original.
func CopyTree(from, to string, owner *Account) error {
	return filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if err := copyOne(path, target, entry); err != nil {
			return err
		}
		return owner.Own(target)
	})
}

func copyOne(path, target string, entry os.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	switch {
	case entry.IsDir():
		return os.Mkdir(target, info.Mode().Perm())
	case entry.Type() == os.ModeSymlink:
		link, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return os.Symlink(link, target)
	default:
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, info.Mode().Perm()) //nolint:gosec // WalkDir names it, below the caller's folder
	}
}
