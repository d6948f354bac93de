package child

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// again is how often what survives SIGKILL is killed again: it may fork faster
// than it can be listed.
const again = 20 * time.Millisecond

// warden runs the program and ends it.
type warden struct {
	reports *json.Encoder
	grace   time.Duration
	limits  Limits
	pid     int          // of the program, and of its group
	over    bool         // the program has ended, perhaps not its descendants
	ending  bool         // it was told to end
	unheard bool         // a stop was reported, and nothing was ordered since
	asked   map[int]bool // children besides the program that were asked to end
	stuck   map[int]bool // those that may not be killed

	// family is held where children are reaped, and where ids of children are
	// used: no other process gets such an id before.
	family sync.Mutex
	reaped bool // the program
}

// kid is a child of this process.
type kid struct{ pid, group int }

// change is what happened to a child.
type change struct {
	pid     int
	started bool // it is the program
	err     error
	status  syscall.WaitStatus
}

// RunWarden is the warden's main program: args are what Start puts behind
// Config.Warden. It returns when no descendant is left, and its error says only
// that there was nothing to do. The process must have no children of its own,
// and must survive the signals of a terminal without ignoring them, since what
// is ignored is ignored by the program too.
func RunWarden(args []string) error {
	if len(args) < 4 {
		return errors.New("the warden is started by exec, not by hand")
	}
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	grace, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	syscall.CloseOnExec(fd)
	socket := os.NewFile(uintptr(fd), "socket")
	defer socket.Close()
	if err := adopt(); err != nil {
		return err
	}
	w := &warden{reports: json.NewEncoder(socket), grace: grace, asked: map[int]bool{}, stuck: map[int]bool{}}
	orders := make(chan order)
	go listen(socket, orders)
	first, ok := <-orders
	if !ok || first.Limits == nil {
		return errors.New("the warden was given no limits")
	}
	w.limits = first.Limits.limits()
	changes := make(chan change)
	go w.watch(args[2], args[3:], changes)
	w.run(orders, changes)
	return nil
}

// listen ends with the process that gives the orders.
func listen(socket io.Reader, orders chan<- order) {
	defer close(orders)
	for in := json.NewDecoder(socket); ; {
		var o order
		if in.Decode(&o) != nil {
			return
		}
		orders <- o
	}
}

// watch starts the program, tells what becomes of the children, and reaps them,
// until there is none.
func (w *warden) watch(path string, argv []string, changes chan<- change) {
	defer close(changes)
	// The death signal comes when the thread ends that started the program
	// (prctl(2), PR_SET_PDEATHSIG): this one stays.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	attr := &syscall.ProcAttr{
		Env:   os.Environ(), //nolint:forbidigo // the warden's environment is the program's, handed on
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	}
	dieWithParent(attr.Sys)
	program, err := syscall.ForkExec(path, argv, attr)
	changes <- change{pid: program, started: true, err: err}
	if err != nil {
		return
	}
	detach(0, 1, 2)
	for awaitChild() == nil {
		w.family.Lock()
		c := change{}
		c.pid, err = syscall.Wait4(-1, &c.status, syscall.WUNTRACED|syscall.WNOHANG, nil)
		w.reaped = w.reaped || c.pid == program && !c.status.Stopped()
		w.family.Unlock()
		if err == nil && c.pid != 0 {
			changes <- c
		}
		if errors.Is(err, syscall.ECHILD) {
			return
		}
	}
}

// detach gives up standard streams, so that their other ends see it when the
// program closes them.
func detach(fds ...int) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer null.Close()
	for _, fd := range fds {
		_ = replace(fd, null) // what fails leaves things as they are
	}
}

// run returns when changes end: there are no children.
func (w *warden) run(orders <-chan order, changes <-chan change) {
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for {
		select {
		case o, ok := <-orders:
			if !ok { // whoever held the lock is dead
				orders = nil
				w.limits.Kill = time.Now()
				break
			}
			w.obey(o)
		case c, ok := <-changes:
			if !ok {
				return
			}
			w.take(c)
		case <-alarm.C:
		}
		alarm.Reset(w.enforce())
	}
}

func (w *warden) obey(o order) {
	w.unheard = false
	switch {
	case w.over:
	case o.Signal != 0:
		w.signalProgram(o.Signal)
	case w.ending: // for good
	case o.Limits != nil:
		w.limits = o.Limits.limits()
	case o.Stop:
		w.limits.Term = time.Now()
		w.hurry()
	}
}

// hurry leaves no more time than the grace.
func (w *warden) hurry() {
	if kill := time.Now().Add(w.grace); kill.Before(w.limits.Kill) {
		w.limits.Kill = kill
	}
}

func (w *warden) take(c change) {
	switch {
	case c.err != nil:
		errno := syscall.EINVAL
		errors.As(c.err, &errno)
		w.tell(report{Failed: errno})
	case c.started:
		w.pid = c.pid
		w.tell(report{Started: w.pid})
	case c.pid != w.pid:
		if !c.status.Stopped() {
			delete(w.asked, c.pid)
			delete(w.stuck, c.pid)
		}
	case c.status.Stopped():
		// Once is enough: told often, nobody listening, the socket would fill.
		if !w.unheard {
			w.tell(report{Stopped: c.status.StopSignal()})
		}
		w.unheard = true
	default:
		end := End{Code: c.status.ExitStatus(), Stopped: w.ending}
		if c.status.Signaled() {
			end = End{Signal: c.status.Signal(), Stopped: w.ending}
		}
		w.over = true
		w.hurry() // what it left behind has the grace, and no more
		w.tell(report{Exited: &end})
	}
}

func (w *warden) tell(r report) {
	_ = w.reports.Encode(r) //nolint:errchkjson // fails if nobody is there any more
}

// enforce does what is due, and returns the time to the next thing to do.
func (w *warden) enforce() time.Duration {
	now := time.Now()
	switch {
	case w.pid == 0:
		return again
	case !now.Before(w.limits.Kill):
		w.ending = true
		w.kill()
		return again
	case w.over:
		w.dismiss()
	case w.ending:
	case !now.Before(w.limits.Term):
		w.ending = true
		// Not to all: what the program started outside its group is its own
		// affair, as long as it is there to see to it.
		w.signalProgram(syscall.SIGTERM)
		w.signalProgram(syscall.SIGCONT) // or it could not hear it
	default:
		return time.Until(w.limits.Term)
	}
	return time.Until(w.limits.Kill)
}

// signalProgram reaches the program's group while the program is there.
func (w *warden) signalProgram(s syscall.Signal) {
	w.family.Lock()
	defer w.family.Unlock()
	if w.pid != 0 && !w.reaped {
		_ = syscall.Kill(-w.pid, s)
	}
}

// dismiss asks the children that the program has left behind to end, each once.
// What they started comes to us when they have.
func (w *warden) dismiss() {
	w.family.Lock()
	defer w.family.Unlock()
	for _, k := range kids() {
		if k.pid != w.pid && !w.asked[k.pid] {
			w.asked[k.pid] = true
			_ = syscall.Kill(k.pid, syscall.SIGTERM)
			_ = syscall.Kill(k.pid, syscall.SIGCONT)
		}
	}
}

// kill kills the group at once, so that a fork in it can't escape, and every
// child. Their children will be ours.
func (w *warden) kill() {
	w.family.Lock()
	defer w.family.Unlock()
	all := kids()
	inGroup := func(k kid) bool { return k.group == w.pid }
	// The group's id is that of the program, or free for others if nobody is
	// left in it.
	if !w.reaped || slices.ContainsFunc(all, inGroup) {
		_ = syscall.Kill(-w.pid, syscall.SIGKILL)
	}
	for _, k := range all {
		if errors.Is(syscall.Kill(k.pid, syscall.SIGKILL), syscall.EPERM) && !w.stuck[k.pid] {
			w.stuck[k.pid] = true
			w.tell(report{Stuck: k.pid})
		}
	}
}
