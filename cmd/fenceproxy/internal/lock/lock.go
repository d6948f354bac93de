// Package lock is the command lock, which shows what a lock service knows of a
// lock, and gives it another issuer.
package lock

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/lockurl"
)

// Command is fenceproxy lock.
func Command(p *cli.Program) *cobra.Command { return (&program{p}).lock() }

// program is the run of fenceproxy that the command lock is part of.
type program struct{ *cli.Program }

func (p *program) lock() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "lock",
		Short: "Show who holds a lock, give a restored lock service another issuer",
		Long: `Shows what a lock service (etcd, Redis, ZooKeeper) knows of a lock, and gives it
another issuer when it was restored or built anew. Its URL, --lock, reads as that
of exec: see 'fenceproxy exec --help'. Without one it is the environment's
` + connect.LockEnv + `, which ps does not show.`,
	}, p.status(), p.rotate())
}

// shownID is an id of a lock service in a table. Others may have written it.
func shownID(id string) string {
	if guard.ValidateID(id) != nil {
		return strconv.Quote(id)
	}
	return cli.Shown(id)
}

func modeName(mode guard.Mode) string {
	switch mode {
	case guard.Exclusive:
		return "exclusive"
	case guard.Shared:
		return "shared"
	default:
		return "unknown"
	}
}

// isLockURL tells a URL that stands where a name should.
func isLockURL(text string) bool {
	if !strings.Contains(text, "://") {
		return false
	}
	_, err := lockurl.Parse(text)
	return err == nil
}
