package main

import (
	"runtime"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/migrations"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	var v struct {
		Version  string `json:"version"`
		Go       string `json:"go"`
		Platform string `json:"platform"`
		Schema   int    `json:"schema"`
	}
	clitest.Decode(t, clitest.Run(t, "version", "--json").Want(t, cli.ExitOK).Out, &v)
	if v.Version == "" || v.Go != runtime.Version() || v.Platform != runtime.GOOS+"/"+runtime.GOARCH || v.Schema != migrations.Version {
		t.Errorf("version: %+v", v)
	}
	o := clitest.Run(t, "version").Want(t, cli.ExitOK)
	if !strings.HasPrefix(o.Out, "fenceproxy "+v.Version+" (go") {
		t.Errorf("version: %s", o.Out)
	}
	if flag := clitest.Run(t, "--version").Want(t, cli.ExitOK); flag.Out != o.Out {
		t.Errorf("--version: %s", flag.Out)
	}
}
