package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ Signal syscall.Signal }

// Error names the signal.
func (e SignalError) Error() string { return "stopped by " + unix.SignalName(e.Signal) }

// Inbox is where signals arrive while this process runs. They end a context,
// until a command takes them over as its own. There is one channel from start to
// end: what was not read when the reader changes is there for the next, so that
// no signal is lost between them or means two things.
type Inbox struct {
	arrived chan os.Signal
	more    []syscall.Signal // that arrive, besides SIGINT and SIGTERM
	cancel  context.CancelCauseFunc
	quit    chan struct{} // tells read to end
	ended   chan struct{} // read has
}

// UntilSignal returns a context that the first SIGINT or SIGTERM ends. The
// second does what signals do by themselves: it ends the process.
func UntilSignal(parent context.Context) (context.Context, *Inbox) {
	ctx, in := openInbox(parent)
	Listen(in.arrived, syscall.SIGINT, syscall.SIGTERM)
	return ctx, in
}

// openInbox opens one at which nothing arrives so far.
func openInbox(parent context.Context) (context.Context, *Inbox) {
	ctx, cancel := context.WithCancelCause(parent)
	in := &Inbox{arrived: make(chan os.Signal, 16), cancel: cancel}
	in.GiveBack()
	return ctx, in
}

// Listen makes more signals arrive. SIGHUP and SIGQUIT then end the context too,
// others are dropped, unless they are taken over.
func (in *Inbox) Listen(signals ...syscall.Signal) {
	in.Take()
	defer in.GiveBack()
	in.more = append(in.more, signals...)
	Listen(in.arrived, signals...)
}

// Take ends the inbox's part in what arrives: the caller receives it. Whether a
// signal has ended the context before is certain when take returns.
func (in *Inbox) Take() chan os.Signal {
	close(in.quit)
	<-in.ended
	return in.arrived
}

// GiveBack undoes take.
func (in *Inbox) GiveBack() {
	in.quit, in.ended = make(chan struct{}), make(chan struct{})
	go in.read(in.quit, in.ended)
}

// Close ends the inbox and its context: signals do again what they do by themselves.
func (in *Inbox) Close() {
	in.Take()
	signal.Stop(in.arrived)
	in.cancel(nil)
}

func (in *Inbox) read(quit <-chan struct{}, ended chan<- struct{}) {
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

func (in *Inbox) obey(s syscall.Signal) {
	switch s {
	case syscall.SIGINT, syscall.SIGTERM:
		// The others stay without effect, first of all SIGHUP: a terminal that
		// goes away may say so more than once.
		Listen(make(chan os.Signal, 1), in.more...)
		signal.Stop(in.arrived)
	case syscall.SIGHUP, syscall.SIGQUIT:
	default:
		return
	}
	in.cancel(SignalError{Signal: s})
}

// Listen makes signals arrive at the channel. Those that this process was told
// to ignore (nohup) stay so, for programs that it starts as well.
func Listen(into chan<- os.Signal, signals ...syscall.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(into, s)
		}
	}
}
