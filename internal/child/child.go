package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/term"
)

// Config says what to run.
type Config struct {
	// Warden is the command line of a program that calls RunWarden with the
	// arguments that are appended to it. Its first element is a path.
	Warden []string
	// Path is the program, and Args its command line, with its name first.
	Path string
	Args []string
	// Env is its environment.
	Env []string
	// Limits are when it has to be over, unless SetLimits moves them.
	Limits Limits
	// Grace is how long what the program leaves behind has to end by itself.
	Grace time.Duration
}

// Event is something to know while a program runs.
type Event struct {
	// Stopped is the signal that has stopped the program, as Ctrl-Z does.
	Stopped syscall.Signal
	// Stuck is the id of a process that it started and that may not be killed.
	Stuck int
	// Exited says that the program has ended, perhaps not what it started.
	Exited bool
}

// Process is a running program. It is safe for use by many goroutines.
type Process struct {
	pid    int
	warden *os.Process
	socket *os.File
	orders *json.Encoder
	events chan Event
	end    End // set when events is closed
	err    error
}

// Start starts a program on this process's standard streams, and gives up this
// process's standard input and output, unless they are a terminal. An error
// that the system had for the program is a syscall.Errno.
//
// It reaps the children of this process if the warden should die: don't use it
// in a process that has others.
func Start(c Config) (*Process, error) {
	if err := adopt(); err != nil {
		return nil, fmt.Errorf("become subreaper: %w", err)
	}
	p := &Process{events: make(chan Event)}
	if err := p.startWarden(&c); err != nil {
		return nil, fmt.Errorf("start warden: %w", err)
	}
	p.order(order{Limits: c.Limits.deadlines()})
	reports := json.NewDecoder(p.socket)
	var first report
	err := reports.Decode(&first)
	switch {
	case first.Failed != 0:
		err = first.Failed
	case err == nil && first.Started == 0:
		err = errors.New("it does not speak")
	}
	if err != nil {
		return nil, p.abandon(err)
	}
	p.pid = first.Started
	for _, fd := range []int{0, 1} {
		if !term.IsTerminal(fd) {
			detach(fd)
		}
	}
	go p.listen(reports)
	return p, nil
}

// abandon ends a warden that has started nothing, or so it says: if it died,
// then perhaps behind a program that it had started already.
func (p *Process) abandon(why error) error {
	p.socket.Close()
	state, err := p.warden.Wait()
	if err == nil && state.Success() {
		return why
	}
	rescue()
	return errors.Join(fmt.Errorf("warden died: %v", state), err)
}

func (p *Process) startWarden(c *Config) error {
	ours, theirs, err := socketpair()
	if err != nil {
		return err
	}
	defer syscall.Close(theirs)
	p.socket = os.NewFile(uintptr(ours), "socket")
	p.orders = json.NewEncoder(p.socket)
	args := append(append([]string{}, c.Warden...), strconv.Itoa(theirs), c.Grace.String(), c.Path)
	p.warden, err = os.StartProcess(c.Warden[0], append(args, c.Args...), &os.ProcAttr{
		Env:   c.Env,
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true}, // out of the terminal's reach
	})
	if err != nil {
		p.socket.Close()
	}
	return err
}

// socketpair makes a socket whose second end the next program inherits under
// the same number, so that no descriptor that this process was given for the
// program has to give way.
func socketpair() (ours, theirs int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return 0, 0, err
	}
	syscall.CloseOnExec(ends[0])
	return ends[0], ends[1], nil
}

func (p *Process) order(o order) {
	_ = p.orders.Encode(o) //nolint:errchkjson // it is lost on a warden that is dead, which listen notices
}

// PID is the program's process id, and that of its group.
func (p *Process) PID() int { return p.pid }

// Signal sends s to the program's group.
func (p *Process) Signal(s syscall.Signal) { p.order(order{Signal: s}) }

// SetLimits moves the time by which the program has to be over.
func (p *Process) SetLimits(l Limits) { p.order(order{Limits: l.deadlines()}) }

// Stop asks the program to end, as at Limits.Term. At Limits.Kill it is killed.
func (p *Process) Stop() { p.order(order{Stop: true}) }

// Events are to be received until they end, which they do when the program and
// all its descendants have ended.
func (p *Process) Events() <-chan Event { return p.events }

// End is how the program ended; it is known when Events has ended. An error
// says that the warden died, and the program with it.
func (p *Process) End() (End, error) { return p.end, p.err }

func (p *Process) listen(reports *json.Decoder) {
	defer close(p.events)
	defer p.socket.Close()
	exited := false
	for {
		var r report
		if reports.Decode(&r) != nil {
			break
		}
		switch {
		case r.Exited != nil:
			p.end, exited = *r.Exited, true
			p.events <- Event{Exited: true}
		case r.Stopped != 0 || r.Stuck != 0:
			p.events <- Event{Stopped: r.Stopped, Stuck: r.Stuck}
		}
	}
	state, err := p.warden.Wait()
	if err == nil && state.Success() && exited {
		return
	}
	if !exited {
		p.end = End{Signal: syscall.SIGKILL, Stopped: true}
	}
	p.err = errors.Join(fmt.Errorf("warden died: %v", state), err)
	rescue()
}

// rescue does the warden's work when it is dead.
func rescue() {
	for {
		for _, k := range kids() {
			_ = syscall.Kill(k.pid, syscall.SIGKILL)
		}
		switch of, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); {
		case err != nil && !errors.Is(err, syscall.EINTR): // ECHILD
			return
		case of == 0:
			<-time.After(again)
		}
	}
}
