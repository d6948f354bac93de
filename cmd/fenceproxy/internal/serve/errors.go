package serve

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/internal/serveconfig"
)

// asProblems is err as mistakes of the listener at path.
func asProblems(config *serveconfig.Config, path string, err error) serveconfig.Problems {
	var problems serveconfig.Problems
	if errors.As(err, &problems) {
		return problems
	}
	return serveconfig.Problems{config.Problem(path, "%w", err)}
}

// listenError says why an address cannot be listened at, and what to do.
func listenError(address string, err error) error {
	reasons := []struct {
		err  error
		text string
	}{
		{syscall.EADDRINUSE, "another program listens there ('ss -ltnp' and 'ss -lxp' show which); end it, or choose another address"},
		{syscall.EADDRNOTAVAIL, "this machine has no such address"},
		{syscall.EACCES, "not allowed: a port below 1024 needs CAP_NET_BIND_SERVICE, a socket a folder that this user may write to"},
		{syscall.ENOENT, "its folder does not exist"},
	}
	if i := slices.IndexFunc(reasons, func(r struct {
		err  error
		text string
	},
	) bool {
		return errors.Is(err, r.err)
	}); i >= 0 {
		return fmt.Errorf("cannot listen on %s: %s (%w)", address, reasons[i].text, reasons[i].err)
	}
	return fmt.Errorf("cannot listen on %s: %w", address, err)
}

// cannotServe is the error of a start that failed, with its exit code.
func cannotServe(err error) error {
	code := cli.ExitFailure
	var problems serveconfig.Problems
	switch {
	case errors.Is(err, syscall.EACCES):
		code = cli.ExitDenied
	case errors.As(err, &problems):
		code = cli.ExitConfig
	}
	return cli.Fail(code, "%w", err)
}
