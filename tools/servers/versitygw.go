package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// versityGWVersion is the first whose PUT compares and swaps atomically, and
// the newest that tests have run on.
const versityGWVersion = "v1.8.0"

// versityGW is an S3 server over a folder. Its module builds as it is, so it is
// built with its own choice of versions, which is not etcd's.
func versityGW(bin string) server {
	const pkg = "github.com/versity/versitygw/cmd/versitygw@" + versityGWVersion
	path := filepath.Join(bin, "versitygw")
	return server{
		name:  "versitygw",
		doing: "builds it, about 5 minutes the first time",
		have: func(ctx context.Context) (string, error) {
			if _, err := os.Stat(path); err != nil {
				return "", errNotThere
			}
			// Its own --version tells what its linker was told: nothing.
			info, err := output(ctx, "go", "version", "-m", path)
			if err != nil {
				return "", err
			}
			if !strings.Contains(info, "github.com/versity/versitygw\t"+versityGWVersion+"\t") {
				return "", fmt.Errorf("is another version than %s", versityGWVersion)
			}
			return strings.TrimPrefix(versityGWVersion, "v") + " in .bin", nil
		},
		install: func(ctx context.Context) error {
			cmd := exec.CommandContext(ctx, "go", "install", "-trimpath", "-ldflags=-s -w", pkg)
			cmd.Env = append(os.Environ(), "GOBIN="+bin, "CGO_ENABLED=0")
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("go install %s: %w", pkg, err)
			}
			return nil
		},
	}
}
