package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// file is something that a package of Debian's brings and that no --version
// tells of: a library of a client.
func file(name, pkg, path string) server {
	return server{
		name:  name,
		doing: "installs the package " + pkg + " by apt",
		have: func(context.Context) (string, error) {
			if _, err := os.Stat(path); err != nil {
				return "", errNotThere
			}
			return path, nil
		},
		install: func(ctx context.Context) error { return aptInstall(ctx, pkg) },
	}
}

// pgbench is in the package of Debian's server.
func pgbench(bin string) server {
	return unpacked(bin, "postgresql-15", "usr/lib/postgresql/15/bin/pgbench", "--version")
}

// nginx is what the S3 proxy is measured beside.
func nginx(bin string) server { return unpacked(bin, "nginx", "usr/sbin/nginx", "-v") }

// unpacked is a program of a package of Debian's that would start a server if
// it were installed: it is unpacked below .bin/debian. The argument has it tell
// its version.
func unpacked(bin, pkg, path, arg string) server {
	own := filepath.Join(bin, "debian")
	return server{
		name:  filepath.Base(path),
		doing: "unpacks the package " + pkg + " below .bin",
		have: func(ctx context.Context) (string, error) {
			for _, dir := range []string{"/", own} {
				got, err := exec.CommandContext(ctx, filepath.Join(dir, path), arg).CombinedOutput()
				if err == nil || !os.IsNotExist(err) {
					return string(bytes.TrimSpace(got)), err
				}
			}
			return "", errNotThere
		},
		install: func(ctx context.Context) error { return unpack(ctx, pkg, own) },
	}
}

// unpack puts the files of a package below dir, and runs nothing of it.
func unpack(ctx context.Context, pkg, dir string) error {
	work, err := os.MkdirTemp(filepath.Dir(dir), "download-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	get := exec.CommandContext(ctx, "apt-get", "-qq", "download", pkg)
	get.Dir = work
	if out, err := get.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get download %s: %w: %s", pkg, err, out)
	}
	packages, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(packages) != 1 {
		return fmt.Errorf("apt-get download %s has left %d files", pkg, len(packages))
	}
	return runLoud(ctx, "dpkg", "-x", packages[0], dir)
}

// nodeClients are drivers of Node.js, one with what it needs: npm's lock file,
// beside this program, pins them by version and digest.
func nodeClients(bin string) server {
	own := filepath.Join(bin, "npm")
	return server{
		name:  "node clients",
		doing: "gets drivers of Postgres and of S3 from npm",
		have: func(ctx context.Context) (string, error) {
			lock, err := os.ReadFile("clients/package-lock.json")
			if err != nil {
				return "", err
			}
			got, err := os.ReadFile(filepath.Join(own, "package-lock.json"))
			switch {
			case os.IsNotExist(err):
				return "", errNotThere
			case err != nil:
				return "", err
			case string(got) != string(lock):
				return "", errors.New("are other versions than in tools/clients")
			}
			return output(ctx, "node", "--version")
		},
		install: func(ctx context.Context) error {
			if err := haveNPM(ctx); err != nil {
				return err
			}
			return installNode(ctx, own)
		},
	}
}

// installNode installs what the lock file says into dir, whole or not at all.
func installNode(ctx context.Context, dir string) error {
	work, err := os.MkdirTemp(filepath.Dir(dir), "download-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, name := range []string{"package.json", "package-lock.json"} {
		content, err := os.ReadFile(filepath.Join("clients", name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(work, name), content, 0o600); err != nil {
			return err
		}
	}
	if err := runLoud(ctx, "npm", "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", work); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(work, dir)
}
