package execute

import (
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
)

// early are the signals, besides SIGINT and SIGTERM, that mean something to exec
// before its program runs: the end of the wait, or no more than that the program
// is not there yet.
func early() []syscall.Signal {
	return []syscall.Signal{syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
}

// jobControl are the signals that go to the program as well, and that have their
// usual meaning before.
func jobControl() []syscall.Signal {
	return []syscall.Signal{syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT}
}

// surviveSignals makes this process deaf to what ends it, in such a way that
// programs that it starts are not.
func surviveSignals() (undo func()) {
	ignored := make(chan os.Signal, 1)
	cli.Listen(ignored, slices.Concat(early(), jobControl(), []syscall.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGTTIN, syscall.SIGTTOU,
	})...)
	return func() { signal.Stop(ignored) }
}
