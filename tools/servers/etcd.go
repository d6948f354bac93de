package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// etcdProgram is built from the version that go.mod pins. `go install
// path@version` cannot: etcd's module has replace directives.
func etcdProgram(bin, name, pkg, doing string) server {
	path := filepath.Join(bin, name)
	flag := map[string]string{"etcd": "--version", "etcdutl": "version"}[name]
	return server{
		name:  name,
		doing: doing,
		have: func(ctx context.Context) (string, error) {
			module, err := output(ctx, "go", "list", "-m", "-f", "{{.Version}}", pkg)
			if err != nil {
				return "", err
			}
			want := strings.TrimPrefix(module, "v")
			got, err := output(ctx, path, flag)
			switch {
			case os.IsNotExist(err):
				return "", errNotThere
			case err != nil:
				return "", err
			case !strings.Contains(got, want):
				return "", fmt.Errorf("is another version than %s", want)
			}
			return want + " in .bin", nil
		},
		install: func(ctx context.Context) error {
			return runLoud(ctx, "go", "build", "-trimpath", "-o", path, pkg)
		},
	}
}
