package execute

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/child"
)

// What a shell does with the jobs in its terminal, exec does with its program,
// and lets the shell do it with exec: so Ctrl-Z stops both, and fg continues
// both. While this process is stopped its lease is not renewed; the warden runs
// on, and ends the program in time.

// pass gives a signal to the program.
func (r *job) pass(s syscall.Signal) {
	if s == syscall.SIGCONT { // somebody continued this process without having stopped it
		r.resume()
		return
	}
	// This process stops when the program has: one that goes on needs its lease.
	r.asked = r.asked || s == syscall.SIGTSTP
	r.process.Signal(s)
}

// stopped reacts to a signal that has stopped the program.
func (r *job) stopped(by syscall.Signal) {
	wantsTerminal := by == syscall.SIGTTIN || by == syscall.SIGTTOU
	switch {
	case wantsTerminal && r.tty != nil && r.tty.Lend(r.process.PID()):
		r.process.Signal(syscall.SIGCONT)
	case r.asked:
		r.asked = false
		r.suspend(false)
	case r.tty != nil && (wantsTerminal || by == syscall.SIGTSTP):
		r.suspend(true) // all of the shell's job, which the terminal could not reach
	}
}

// suspend stops this process, and the others of its group if all, until somebody
// continues it.
func (r *job) suspend(all bool) {
	if !child.Stoppable() { // as the system has it: nobody would continue us
		r.resume()
		return
	}
	if r.tty != nil {
		r.tty.TakeBack()
	}
	// SIGSTOP, since Go does not give back the default action of SIGTSTP.
	signal.Ignore(syscall.SIGTSTP)
	if all {
		_ = syscall.Kill(0, syscall.SIGTSTP)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	r.awaitContinue()
	signal.Notify(r.signals, syscall.SIGTSTP)
	r.resume()
}

// awaitContinue returns when this process goes on after a stop. It may have
// been told to before it stopped, so it does not wait for long: for a second in
// which it runs. Were the time of the stop part of that, the wait could be over
// before the SIGCONT is seen, which would then undo the next stop.
func (r *job) awaitContinue() {
	running := time.NewTicker(10 * time.Millisecond) // drops what nobody takes
	defer running.Stop()
	for waited := 0; waited < 100; {
		select {
		case s := <-r.signals:
			if s == syscall.SIGCONT {
				return
			}
			r.process.Signal(s.(syscall.Signal))
		case <-running.C:
			waited++
		}
	}
}

// resume lets the program go on, in the foreground if that is where its shell
// put this process.
func (r *job) resume() {
	if r.tty != nil {
		r.tty.Lend(r.process.PID())
	}
	r.process.Signal(syscall.SIGCONT)
}
