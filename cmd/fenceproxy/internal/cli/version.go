package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/migrations"
)

func (p *Program) version() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program and of the schema it works with",
		Long: `Prints the version of this program and of the schema fence that it works with.

With --json:
  {"version":"v0.1.0","go":"go1.26.0","platform":"linux/amd64","schema":5}`,
		Example: `  fenceproxy version
  fenceproxy version --json`,
		Args: NoArguments,
	}
	asJSON := JSONFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error { return p.printVersion(*asJSON) }
	return cmd
}

func (p *Program) printVersion(asJSON bool) error {
	version := ProgramVersion()
	platform := runtime.GOOS + "/" + runtime.GOARCH
	if asJSON {
		return PrintJSON(p.Out, struct {
			Version  string `json:"version"`
			Go       string `json:"go"`
			Platform string `json:"platform"`
			Schema   int    `json:"schema"`
		}{version, runtime.Version(), platform, migrations.Version})
	}
	_, err := fmt.Fprintf(p.Out, "fenceproxy %s (%s, %s), schema version %d\n", version, runtime.Version(), platform, migrations.Version)
	return err
}

// ProgramVersion is that of the module that this program was built from.
func ProgramVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "(unknown)"
}
