// Package doctor is the command doctor, which finds out what a lock service, a
// database or an S3 store can be relied on for.
package doctor

import (
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
)

// Command is fenceproxy doctor.
func Command(p *cli.Program) *cobra.Command { return (&program{p}).doctor() }

// program is the run of fenceproxy that the command doctor is part of.
type program struct{ *cli.Program }

func (p *program) doctor() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "doctor",
		Short: "Find out whether a store, a database or a lock service can be relied on",
		Long: `Looks at a part of the system and says what the fence can rely on there, what is
missing, and what to do about it. Exits with 78 if something is wrong that no
fence can do without; warnings do not count.`,
	}, p.lock(), p.postgres(), p.s3())
}
