package execute

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/child"
	"github.com/fenceproxy/fenceproxy/internal/lockurl"
	"github.com/fenceproxy/fenceproxy/locks"
)

const maxGrace = 10 * time.Second

func (p *program) runErrand(ctx context.Context, e *errand) error {
	logging.Disable() // what is wrong with Redis is in the errors
	p.Signals.Listen(early()...)
	service, err := e.target.Open(ctx, e.ttl)
	switch {
	case err == nil:
	case lockurl.Denied(err):
		return cli.Fail(cli.ExitDenied, "%w; check user and password in the URL", err)
	default:
		return cli.Fail(cli.ExitUnreachable, "%w; check the URL, and that the server runs", err)
	}
	// What cannot be released ends by its time.
	defer func() { _ = service.Close() }()
	held := func(ctx context.Context, lease locks.Lease) error { return p.hold(ctx, e, lease) }
	return e.outcome(e.run(ctx, queue{Locker: service.Locker, program: p, errand: e}, held))
}

// run runs held under the lock, again if Redis has lost its numbers.
func (e *errand) run(ctx context.Context, q queue, held func(context.Context, locks.Lease) error) error {
	floors, heals := q.Locker.(locks.FloorLocker)
	switch {
	case heals && e.shared:
		return locks.HealShared(ctx, floorQueue{q, floors}, e.resource, held)
	case heals:
		return locks.Heal(ctx, floorQueue{q, floors}, e.resource, held)
	case e.shared:
		return locks.DoShared(ctx, q, e.resource, held)
	}
	return locks.Do(ctx, q, e.resource, held)
}

// outcome words what run returned. That the lease was lost explains all other
// errors, unless the program had ended by then.
func (e *errand) outcome(err error) error {
	var final *cli.FinalError
	var coded *cli.CodedError
	switch {
	case errors.As(err, &final):
		return final
	case errors.As(err, &coded):
		return coded
	case errors.Is(err, locks.ErrLost):
		return cli.Fail(cli.ExitLost, "the lease of %q was lost before anything was run: %w", e.resource, err)
	}
	return e.explainClaim(err)
}

// hold does what there is to do while the lock is held.
func (p *program) hold(ctx context.Context, e *errand, lease locks.Lease) error {
	if err := e.claimAll(ctx, lease.Token()); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	if e.print {
		return p.holdUntilInputEnds(ctx, lease.Token())
	}
	return p.supervise(ctx, e, lease)
}

func (p *program) holdUntilInputEnds(ctx context.Context, token guard.Token) error {
	if _, err := fmt.Fprintln(p.Out, token); err != nil {
		return err
	}
	ended := make(chan struct{})
	// A read can't be interrupted: this goroutine may end with the process.
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, p.In)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// job is a program under a lease.
type job struct {
	errand  *errand
	lease   locks.Lease
	process *child.Process
	signals chan os.Signal
	tty     *child.Terminal // nil if there is none
	err     io.Writer
	until   time.Time     // the deadline that the warden knows
	span    time.Duration // how long a fresh lease lasts, as seen so far
	lost    error         // of the lease, before the program had ended
	exited  bool
	asked   bool // to stop for the time being
}

// supervise runs the program, and returns when it and all that it started have
// ended.
func (p *program) supervise(ctx context.Context, e *errand, lease locks.Lease) error {
	// A signal that came before this moment has ended ctx; a later one is the
	// program's.
	r := &job{errand: e, lease: lease, err: p.Err, signals: p.Signals.Take()}
	defer p.Signals.GiveBack()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	cli.Listen(r.signals, jobControl()...)
	if err := r.start(p); err != nil {
		return err
	}
	return r.watch()
}

func (r *job) start(p *program) error {
	env, err := environment(p.Environ(), r.lease.Token(), r.errand.s3)
	if err != nil {
		return err
	}
	executable, err := p.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	limits := r.limits(r.lease.Deadline())
	if !time.Now().Before(limits.Term) {
		return fmt.Errorf("%w: not renewed in time", locks.ErrLost)
	}
	r.process, err = child.Start(child.Config{
		Warden: []string{executable, WardenName},
		Path:   r.errand.path,
		Args:   r.errand.args,
		Env:    env,
		Limits: limits,
		Grace:  r.grace(),
	})
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return cannotRun(r.errand.args[0], errno)
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", r.errand.args[0], err)
	}
	return nil
}

// grace is how long the program has to end by itself. A lease is renewed when
// a third or so of its span is over, long before that.
func (r *job) grace() time.Duration { return min(r.span/5, maxGrace) }

// limits of a program whose lease has that deadline. A twentieth is kept for
// SIGKILL to take effect; the deadline itself is a while before the lease can
// end. The span is measured, since a lock service may grant another TTL than it
// was asked for.
func (r *job) limits(deadline time.Time) child.Limits {
	r.until = deadline
	r.span = max(r.span, time.Until(deadline))
	kill := deadline.Add(-r.span / 20)
	return child.Limits{Term: kill.Add(-r.grace()), Kill: kill}
}

// watch returns when all is over.
func (r *job) watch() error {
	if r.tty = child.OpenTerminal(); r.tty != nil {
		defer r.tty.Close()
		defer r.tty.TakeBack()
		signal.Ignore(syscall.SIGTTOU)
		// In a pipeline somebody else may read from the terminal: there it is
		// lent when the program asks for it.
		if cli.IsTerminal(os.Stdin) && cli.IsTerminal(os.Stdout) {
			r.tty.Lend(r.process.PID())
		}
	}
	renewals := time.NewTicker(max(r.errand.ttl/40, 10*time.Millisecond))
	defer renewals.Stop()
	lost := r.lease.Lost()
	for {
		select {
		case event, ok := <-r.process.Events():
			if !ok {
				return r.ended()
			}
			r.take(event)
		case s := <-r.signals:
			r.pass(s.(syscall.Signal))
		case <-lost:
			lost = nil
			r.noteLoss()
			r.process.Stop()
		case <-renewals.C:
			if until := r.lease.Deadline(); until.After(r.until) && r.lease.Err() == nil {
				r.process.SetLimits(r.limits(until))
			}
		}
	}
}

func (r *job) noteLoss() {
	if r.lost == nil && !r.exited {
		r.lost = r.lease.Err()
	}
}

func (r *job) take(event child.Event) {
	switch {
	case event.Exited:
		r.noteLoss()
		r.exited = true
	case event.Stuck != 0:
		fmt.Fprintf(r.err, "fenceproxy: may not end process %d, which the command has started (%s): waiting for it\n", event.Stuck, nameOf(event.Stuck))
	default:
		r.stopped(event.Stopped)
	}
}

// nameOf is the name of a process, where the system tells.
func nameOf(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "?"
	}
	return string(bytes.TrimSpace(name))
}

// ended says how the program has ended.
func (r *job) ended() error {
	end, err := r.process.End()
	if r.tty != nil && (end.Stopped || err != nil) {
		r.tty.TakeBack()
		r.tty.Restore()
	}
	switch {
	case r.lost == nil && end.Stopped && err == nil:
		r.lost = fmt.Errorf("%w: not renewed in time", locks.ErrLost)
	case r.lost == nil && err != nil:
		return &cli.FinalError{Code: cli.ExitFailure, Err: fmt.Errorf("%s was killed: %w", r.errand.args[0], err)}
	case r.lost == nil && end.Signal != 0:
		return &cli.FinalError{Code: cli.ExitSignal + int(end.Signal)}
	case r.lost == nil:
		return &cli.FinalError{Code: end.Code}
	}
	how := fmt.Sprintf("ended with exit code %d", end.Code)
	if end.Signal != 0 {
		how = fmt.Sprintf("was ended by signal %d (%v)", int(end.Signal), end.Signal)
	}
	return &cli.FinalError{Code: cli.ExitLost, Err: fmt.Errorf("the lease of %q at %s is lost, so %s %s: %w", r.errand.resource, r.errand.target, r.errand.args[0], how, r.lost)}
}
