package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
			o := run(t, append(strings.Fields(command), "--help")...).want(t, exitOK)
			golden(t, strings.ReplaceAll("fenceproxy "+command, " ", "-"), o.out)
			for line := range strings.SplitSeq(o.out, "\n") {
				if strings.Contains(line, "\t") {
					t.Errorf("tab in the help text: %q", line)
				}
			}
		})
	}
}

func TestHelpTopicExitCodes(t *testing.T) {
	t.Parallel()
	o := run(t, "help", "exit-codes").want(t, exitOK)
	golden(t, "exit-codes", o.out)
	if root := run(t, "--help"); !strings.Contains(root.out, "exit-codes") {
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
	o := run(t, "--help")
	for _, name := range []string{demoWorkerName, demoCleanerName, execWardenName} {
		if strings.Contains(o.out, name) {
			t.Errorf("%s is shown", name)
		}
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if o := run(t, "completion", shell).want(t, exitOK); len(o.out) < 1000 {
			t.Errorf("completion for %s: %q", shell, o.out)
		}
	}
	if o := run(t, "__complete", "mig").want(t, exitOK); !strings.Contains(o.out, "migrate") {
		t.Errorf("mig is not completed:\n%s", o.out)
	}
}
