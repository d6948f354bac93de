package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

var errNotThere = errors.New("is not there")

// debian is a program of a package of Debian. It is looked for in PATH, then
// at the paths.
func debian(program, pkg string, paths ...string) server {
	return server{
		name:  program,
		doing: "installs the package " + pkg + " by apt",
		have: func(ctx context.Context) (string, error) {
			for _, path := range append([]string{program}, paths...) {
				got, err := output(ctx, path, "--version")
				if err == nil {
					first, _, _ := strings.Cut(got, "\n")
					return first, nil
				}
			}
			return "", errNotThere
		},
		install: func(ctx context.Context) error { return aptInstall(ctx, pkg) },
	}
}

// haveNPM installs npm where there is none.
func haveNPM(ctx context.Context) error {
	if _, err := exec.LookPath("npm"); err == nil {
		return nil
	}
	fmt.Println("        npm is not there: installs it by apt")
	return aptInstall(ctx, "npm")
}

// aptInstall installs a package of Debian as root, or by a sudo that does not
// ask. Others may be busy with apt: it waits for them.
func aptInstall(ctx context.Context, pkg string) error {
	install := []string{"apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300", "install", "-y", "--no-install-recommends", pkg}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("no apt-get here: install the equivalent of Debian's package %s", pkg)
	}
	var sudo []string
	if os.Geteuid() != 0 {
		if exec.CommandContext(ctx, "sudo", "-n", "true").Run() != nil {
			return fmt.Errorf("not root, and no sudo without a password: run %q as root", strings.Join(append(install[:1:1], install[4:]...), " "))
		}
		sudo = []string{"sudo", "-n"}
	}
	if err := apt(ctx, append(sudo, install...)); err == nil {
		return nil
	}
	// Most likely the lists are too old, or were never there.
	if err := apt(ctx, append(sudo, "apt-get", "-qq", "update")); err != nil {
		return err
	}
	return apt(ctx, append(sudo, install...))
}

// apt runs apt-get until nobody else holds its locks, for five minutes.
func apt(ctx context.Context, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		cmd := exec.CommandContext(ctx, "env", append([]string{"DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		if !bytes.Contains(out, []byte("Could not get lock")) {
			return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(out))
		}
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
			return fmt.Errorf("another apt-get does not end: %w", ctx.Err())
		}
	}
}

// output runs a program and returns what it prints.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return "", fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(stderr.Bytes()))
		}
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

// runLoud runs a program whose messages the user should see.
func runLoud(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
