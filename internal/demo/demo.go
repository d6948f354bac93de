package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// MinTTL is the shortest lease that etcd grants with its default settings;
// MaxTTL keeps the story below 40 seconds.
const (
	MinTTL = 2 * time.Second
	MaxTTL = 10 * time.Second
)

// Config says how to play the story.
type Config struct {
	// Executable is the program that plays the workers, with WorkerArgs, and
	// that cleans up, with CleanUpArgs: they call Work and CleanUp.
	Executable  string
	WorkerArgs  []string
	CleanUpArgs []string
	// Postgres is the URL of a server to use. Defaults to a server of the
	// demo's own. Nothing is left in it, and what is there is not touched.
	Postgres string
	// Etcd is the host:port of an etcd to use. Defaults to one of the demo's
	// own.
	Etcd string
	// Programs are folders to look for servers in, beside the usual ones.
	Programs []string
	// TTL is the time of a lease, in whole seconds between MinTTL and MaxTTL.
	TTL time.Duration
}

// Result is what came out.
type Result struct {
	Unfenced Account `json:"unfenced"`
	Fenced   Account `json:"fenced"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
}

// ErrNotShown says that the story took place but did not end as it must.
var ErrNotShown = errors.New("the demo did not show what it must")

// Verify reports whether the story ended as it must: unfenced, a stale write
// was applied; fenced, it was refused, and the ledger is right. The error
// matches ErrNotShown.
func (r Result) Verify() error {
	var flaws []string
	check := func(right bool, flaw string, args ...any) {
		if !right {
			flaws = append(flaws, fmt.Sprintf(flaw, args...))
		}
	}
	check(r.Unfenced.StaleWritesApplied > 0, "unfenced, no stale write was applied")
	check(r.Fenced.StaleWritesRefused > 0, "fenced, no stale write was refused")
	check(r.Fenced.StaleWritesApplied == 0, "fenced, %d stale writes were applied", r.Fenced.StaleWritesApplied)
	check(r.Fenced.Right, "the fenced ledger is wrong")
	if len(flaws) > 0 {
		return fmt.Errorf("%w: %s", ErrNotShown, strings.Join(flaws, "; "))
	}
	return nil
}

type story struct {
	config   Config
	id       string
	timeline *Timeline
	cleaner  *cleaner
	stage    stage
	players  []*player
}

// Run plays the story and returns when all that it started has ended and all
// that it made is removed, also when ctx ends.
func Run(ctx context.Context, c Config, timeline *Timeline) (result Result, err error) {
	s := &story{config: c, id: strings.ToLower(rand.Text()[:10]), timeline: timeline}
	s.cleaner, err = startCleaner(ctx, c.Executable, c.CleanUpArgs)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, s.tearDown()) }()
	timeline.heading("Two workers, one ledger, one lock. Worker 1 is paused past its lease, and writes late.")
	if err := s.setUp(ctx); err != nil {
		return Result{}, err
	}
	timeline.heading("1. Unfenced: the lock hands out tokens, nobody checks them")
	if result.Unfenced, err = s.round(ctx, "unfenced"); err != nil {
		return Result{}, err
	}
	timeline.heading("2. Fenced: the database refuses what is older than what it has seen")
	if result.Fenced, err = s.round(ctx, "fenced"); err != nil {
		return Result{}, err
	}
	result.Seconds = timeline.Elapsed().Round(time.Millisecond).Seconds()
	return result, nil
}

func (s *story) tearDown() error {
	s.dismiss()
	for _, server := range slices.Backward(s.stage.servers) {
		server.Stop()
	}
	if err := s.cleaner.finish(); err != nil {
		return err
	}
	s.timeline.heading("Clean-up")
	s.timeline.say(director, 0, plain, "ended what it started, removed what it made")
	return nil
}

// round is the story itself. In both rounds the workers do the same; they only
// begin and commit their transactions with the store or without.
func (s *story) round(ctx context.Context, round string) (Account, error) {
	conn, err := pgx.Connect(ctx, s.stage.postgres)
	if err != nil {
		return Account{}, fmt.Errorf("connect to Postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := s.stage.ledger.open(ctx, conn, round); err != nil {
		return Account{}, err
	}
	defer s.dismiss()

	late, err := s.enter(ctx, first, s.assignment(first, round, true, 100))
	if err != nil {
		return Account{}, err
	}
	critical, err := s.until(ctx, late, stepCritical, nil)
	if err != nil {
		return Account{}, err
	}
	if err := s.freeze(late, critical); err != nil {
		return Account{}, err
	}
	if err := s.overtake(ctx, round, critical); err != nil {
		return Account{}, err
	}
	s.timeline.say(director, critical.Number, bold, "SIGCONT to worker 1: it does not know that its lease is over, and goes on")
	if err := late.process.Thaw(); err != nil {
		return Account{}, err
	}
	if err := s.finish(ctx, late); err != nil {
		return Account{}, err
	}
	account, err := s.stage.ledger.account(ctx, conn, round)
	if err != nil {
		return Account{}, err
	}
	s.conclude(account)
	return account, nil
}

func (s *story) assignment(name actor, round string, pause bool, deposits ...int64) assignment {
	return assignment{
		Worker: string(name), Round: round, Fenced: round == "fenced", Pause: pause, Deposits: deposits,
		Postgres: s.stage.postgres, Schema: s.stage.ledger.schema,
		Etcd: s.stage.etcd, Prefix: s.stage.prefix, TTL: s.config.TTL, Resource: s.stage.resource,
	}
}

// freeze stops a worker that waits in its critical section. The line that it
// waits for is in its pipe then, so that nothing but the stop holds it.
func (s *story) freeze(p *player, at report) error {
	if err := p.process.Freeze(); err != nil {
		return err
	}
	s.timeline.say(director, at.Number, bold, "SIGSTOP to %s (process %d), between its read and its write; its lease still held for %s",
		p.name, p.process.Pid, seconds(at.Lease))
	return p.goOn()
}

// overtake is the second worker's part, while the first stands still.
func (s *story) overtake(ctx context.Context, round string, stopped report) error {
	leaseEnds := time.Now().Add(stopped.Lease)
	p, err := s.enter(ctx, second, s.assignment(second, round, false, 10, 10, 10))
	if err != nil {
		return err
	}
	_, err = s.until(ctx, p, stepAcquired, func() {
		if left := time.Until(leaseEnds); left > 0 {
			s.timeline.waiting("the lease of worker 1 runs for another %s", seconds(left))
		} else {
			s.timeline.waiting("the lease of worker 1 is over, etcd is about to notice")
		}
	})
	if err != nil {
		return err
	}
	return s.finish(ctx, p)
}

// finish lets a worker do the rest of its work, and waits for its end.
func (s *story) finish(ctx context.Context, p *player) error {
	if _, err := s.until(ctx, p, stepReleased, nil); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.process.Done():
	}
	if err := p.process.Err(); err != nil {
		return fmt.Errorf("%s: %s", p.name, p.lastWords())
	}
	return nil
}

// dismiss ends all workers.
func (s *story) dismiss() {
	for _, p := range s.players {
		p.leave()
	}
	s.players = nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
