package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// forwarded are the signals that go to the program that exec runs.
func forwarded() []syscall.Signal {
	return []syscall.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT,
	}
}

// listen makes signals arrive at the channel. Those that this process was told
// to ignore (nohup) stay so, for the program as well.
func listen(into chan<- os.Signal, signals ...syscall.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(into, s)
		}
	}
}

// untilHangup is untilSignal for those that end a wait besides SIGINT and
// SIGTERM. Those that mean something to the program that is yet to run are
// dropped.
func untilHangup(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	listen(signals, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case s := <-signals:
				if s == syscall.SIGHUP || s == syscall.SIGQUIT {
					cancel(signalError{s.(syscall.Signal)})
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
		signal.Stop(signals)
	}
}

// surviveSignals makes this process deaf to what ends it, in such a way that
// programs that it starts are not.
func surviveSignals() (undo func()) {
	ignored := make(chan os.Signal, 1)
	listen(ignored, append(forwarded(), syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGTTIN, syscall.SIGTTOU)...)
	return func() { signal.Stop(ignored) }
}
