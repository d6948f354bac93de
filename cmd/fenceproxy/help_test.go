package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/demo"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/execute"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The help texts are what most people know of a command: a change shows in the
// diff of a golden file.
func TestHelpTexts(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		"", "demo", "migrate", "migrate up", "migrate status", "migrate down",
		"marks", "marks list", "marks show", "marks adopt", "exec", "serve", "version",
		"doctor", "doctor s3", "doctor postgres", "doctor lock", "lock", "lock status", "lock rotate-issuer",
		"s3", "s3 adopt", "s3 frame", "s3 get", "s3 ls", "s3 put", "s3 rebind", "s3 rm",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			o := clitest.Run(t, append(strings.Fields(command), "--help")...).Want(t, cli.ExitOK)
			golden(t, strings.ReplaceAll("fenceproxy "+command, " ", "-"), o.Out)
			for line := range strings.SplitSeq(o.Out, "\n") {
				if strings.Contains(line, "\t") {
					t.Errorf("tab in the help text: %q", line)
				}
			}
		})
	}
}

func TestHelpTopicExitCodes(t *testing.T) {
	t.Parallel()
	o := clitest.Run(t, "help", "exit-codes").Want(t, cli.ExitOK)
	golden(t, "exit-codes", o.Out)
	if root := clitest.Run(t, "--help"); !strings.Contains(root.Out, "exit-codes") {
		t.Error("the topic is not mentioned in the help text of fenceproxy")
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "help", strings.TrimSuffix(name, "-")+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("help text differs from %s (-want +got); go test -update writes it:\n%s", path, diff)
	}
}

func TestHiddenCommandsStayHidden(t *testing.T) {
	t.Parallel()
	o := clitest.Run(t, "--help")
	for _, name := range []string{demo.WorkerName, demo.CleanerName, execute.WardenName} {
		if strings.Contains(o.Out, name) {
			t.Errorf("%s is shown", name)
		}
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if o := clitest.Run(t, "completion", shell).Want(t, cli.ExitOK); len(o.Out) < 1000 {
			t.Errorf("completion for %s: %q", shell, o.Out)
		}
	}
	if o := clitest.Run(t, "__complete", "mig").Want(t, cli.ExitOK); !strings.Contains(o.Out, "migrate") {
		t.Errorf("mig is not completed:\n%s", o.Out)
	}
}
