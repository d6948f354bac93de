package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal syscall.Signal }

func (e signalError) Error() string { return "stopped by " + unix.SignalName(e.signal) }

// inbox is where signals arrive while this process runs. They end a context,
// until a command takes them over as its own. There is one channel from start to
// end: what was not read when the reader changes is there for the next, so that
// no signal is lost between them or means two things.
type inbox struct {
	arrived chan os.Signal
	more    []syscall.Signal // that arrive, besides SIGINT and SIGTERM
	cancel  context.CancelCauseFunc
	quit    chan struct{} // tells read to end
	ended   chan struct{} // read has
}

// untilSignal returns a context that the first SIGINT or SIGTERM ends. The
// second does what signals do by themselves: it ends the process.
func untilSignal(parent context.Context) (context.Context, *inbox) {
	ctx, in := openInbox(parent)
	listen(in.arrived, syscall.SIGINT, syscall.SIGTERM)
	return ctx, in
}

// openInbox opens one at which nothing arrives so far.
func openInbox(parent context.Context) (context.Context, *inbox) {
	ctx, cancel := context.WithCancelCause(parent)
	in := &inbox{arrived: make(chan os.Signal, 16), cancel: cancel}
	in.giveBack()
	return ctx, in
}

// listen makes more signals arrive. SIGHUP and SIGQUIT then end the context too,
// others are dropped, unless they are taken over.
func (in *inbox) listen(signals ...syscall.Signal) {
	in.take()
	defer in.giveBack()
	in.more = append(in.more, signals...)
	listen(in.arrived, signals...)
}

// take ends the inbox's part in what arrives: the caller receives it. Whether a
// signal has ended the context before is certain when take returns.
func (in *inbox) take() chan os.Signal {
	close(in.quit)
	<-in.ended
	return in.arrived
}

// giveBack undoes take.
func (in *inbox) giveBack() {
	in.quit, in.ended = make(chan struct{}), make(chan struct{})
	go in.read(in.quit, in.ended)
}

func (in *inbox) close() {
	in.take()
	signal.Stop(in.arrived)
	in.cancel(nil)
}

func (in *inbox) read(quit <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	for {
		select {
		case s := <-in.arrived:
			in.obey(s.(syscall.Signal))
		case <-quit:
			return
		}
	}
}

func (in *inbox) obey(s syscall.Signal) {
	switch s {
	case syscall.SIGINT, syscall.SIGTERM:
		// The others stay without effect, first of all SIGHUP: a terminal that
		// goes away may say so more than once.
		listen(make(chan os.Signal, 1), in.more...)
		signal.Stop(in.arrived)
	case syscall.SIGHUP, syscall.SIGQUIT:
	default:
		return
	}
	in.cancel(signalError{signal: s})
}

// listen makes signals arrive at the channel. Those that this process was told
// to ignore (nohup) stay so, for programs that it starts as well.
func listen(into chan<- os.Signal, signals ...syscall.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(into, s)
		}
	}
}
