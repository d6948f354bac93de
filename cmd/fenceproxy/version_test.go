package main

import (
	"runtime"
	"strings"
	"testing"

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
	decode(t, run(t, "version", "--json").want(t, exitOK).out, &v)
	if v.Version == "" || v.Go != runtime.Version() || v.Platform != runtime.GOOS+"/"+runtime.GOARCH || v.Schema != migrations.Version {
		t.Errorf("version: %+v", v)
	}
	o := run(t, "version").want(t, exitOK)
	if !strings.HasPrefix(o.out, "fenceproxy "+v.Version+" (go") {
		t.Errorf("version: %s", o.out)
	}
	if flag := run(t, "--version").want(t, exitOK); flag.out != o.out {
		t.Errorf("--version: %s", flag.out)
	}
}
