package session

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

var terms = Terms{TTL: 12 * time.Second, Sure: 8 * time.Second, Renew: 3 * time.Second}

// bubble runs f with a clock of its own.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// TestDeadline: a session ends at its deadline, though nobody says anything.
func TestDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := NewLife(terms)
		<-time.After(time.Hour)
		if l.Over() != nil {
			t.Fatal("a session that nobody has heard of ended")
		}
		start := time.Now()
		l.Extend(start, terms)
		<-time.After(2 * time.Second)
		l.Extend(start.Add(2*time.Second), terms)
		l.Extend(start.Add(time.Second), terms) // was overtaken
		<-l.Context().Done()
		if took := time.Since(start); took != 10*time.Second || !l.Deadline().Equal(start.Add(took)) {
			t.Errorf("over after %v, deadline %v", took, l.Deadline().Sub(start))
		}
		l.Extend(time.Now(), terms) // comes too late
		if !errors.Is(l.Over(), ErrExpired) || !errors.Is(l.Over(), locks.ErrLost) || l.Join() || l.Deadline().After(time.Now()) {
			t.Errorf("after its end: %v, deadline in %v", l.Over(), time.Until(l.Deadline()))
		}
	})
}

// TestLateTimer: after a pause of the process whoever asks is told of the end
// before the timer has fired.
func TestLateTimer(t *testing.T) {
	t.Parallel()
	l := NewLife(terms)
	le := NewLease(l, "r", guard.Exclusive, func() {})
	l.Extend(time.Now().Add(-terms.Sure+time.Hour), terms)
	if err := le.Err(); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	l.deadline = time.Now()
	l.mu.Unlock()
	if err := le.Err(); !errors.Is(err, locks.ErrLost) {
		t.Errorf("Err: %v", err)
	}
	if err := le.Grant(1, "i"); !errors.Is(err, locks.ErrLost) {
		t.Errorf("Grant: %v", err)
	}
}

// TestKeep: renewals come in time, again soon after one that failed, and end one
// TTL after the last user.
func TestKeep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l, start := NewLife(terms), time.Now()
		l.Extend(start, terms)
		var at []time.Duration
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.Keep(func() error {
				at = append(at, time.Since(start))
				if len(at) == 2 {
					return errors.New("no answer")
				}
				l.Extend(time.Now(), terms)
				return nil
			})
		}()
		l.Join()
		<-time.After(7 * time.Second)
		l.Leave()
		<-done
		want := []time.Duration{3 * time.Second, 6 * time.Second, 6400 * time.Millisecond, 9400 * time.Millisecond}
		if len(at) < 4 || !slices.Equal(at[:4], want) {
			t.Errorf("renewed at %v, want %v", at, want)
		}
		if took := time.Since(start); took < 19*time.Second || took > 22*time.Second || !errors.Is(l.Over(), errIdle) {
			t.Errorf("over after %v: %v", took, l.Over())
		}
	})
}

// TestRetired: a session that is retired ends at once when its last user leaves.
func TestRetired(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l, start := NewLife(terms), time.Now()
		l.Extend(start, terms)
		if !l.Join() {
			t.Fatal("takes nobody")
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.Keep(func() error { l.Extend(time.Now(), terms); return nil })
		}()
		l.Retire()
		<-time.After(time.Minute)
		if l.Over() != nil || l.Join() || !l.Used() {
			t.Errorf("in use and retired: %v", l.Over())
		}
		gone := time.Now()
		l.Leave()
		<-done
		if time.Since(gone) != 0 {
			t.Error("it took time")
		}
	})
}

// TestSweep: what cannot be removed at once is tried again until the session is
// over, and costs it.
func TestSweep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := NewLife(terms)
		l.Extend(time.Now(), terms)
		tries, told := 0, 0
		l.Sweep(func(ctx context.Context) error {
			tries++
			if tries == 2 {
				<-ctx.Done()
			}
			if tries == 3 {
				return nil
			}
			return errors.New("no answer")
		}, func(error) { told++ })
		if tries != 3 || told != 2 || l.Join() || l.Over() != nil {
			t.Errorf("%d tries, told of %d, %v", tries, told, l.Over())
		}
		l.Sweep(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, func(error) {})
		if !errors.Is(l.Over(), ErrExpired) {
			t.Errorf("a sweep ended before the session: %v", l.Over())
		}
	})
}

// TestRelease: it ends the lease before it removes anything, with a time of its
// own, and keeps the session until it is done.
func TestRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := NewLife(terms)
		l.Extend(time.Now(), terms)
		l.Join()
		var watched atomic.Int32
		le := NewLease(l, "r", guard.Exclusive, func() { watched.Add(1) })
		le.Queued()
		if err := le.Grant(7, "i"); err != nil || le.Token().Number != 7 {
			t.Fatalf("Grant: %v, %v", le.Token(), err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		removed := errors.New("removed")
		err := le.Release(ended, func(ctx context.Context) error {
			if !errors.Is(le.Err(), locks.ErrReleased) || !l.Used() {
				t.Errorf("while it is removed: %v", le.Err())
			}
			<-ctx.Done()
			return removed
		})
		if !errors.Is(err, removed) || l.Used() {
			t.Errorf("Release: %v", err)
		}
		if err := le.Release(ended, func(context.Context) error { return removed }); err != nil {
			t.Errorf("second Release: %v", err)
		}
		<-time.After(time.Second)
		if watched.Load() != 0 {
			t.Error("the watch began after the release")
		}

		l.Join()
		lost := NewLease(l, "r", guard.Shared, func() { watched.Add(1) })
		lost.Queued()
		<-time.After(time.Second)
		ctx, stop := lost.Within(t.Context())
		defer stop()
		l.End(ErrClosed)
		<-ctx.Done()
		if err := lost.Release(t.Context(), func(context.Context) error { return removed }); !errors.Is(err, locks.ErrLost) || errors.Is(err, removed) {
			t.Errorf("Release of a lost lease: %v", err)
		}
		if watched.Load() != 1 || l.Used() {
			t.Errorf("watched %d times, still used: %v", watched.Load(), l.Used())
		}
	})
}

func TestAttempt(t *testing.T) {
	t.Parallel()
	tries := 0
	lease, err := Attempt("r", func() (locks.Lease, error) { tries++; return nil, ErrStale })
	if lease != nil || !errors.Is(err, ErrStale) || tries != freshSessions {
		t.Errorf("%v, %v after %d tries", lease, err, tries)
	}
}

// fake is a session of no service.
type fake struct {
	*Life
	closed bool
}

func (f *fake) Serve() {
	f.Keep(func() error { f.Extend(time.Now(), terms); return nil })
	f.closed = true
}

// TestPool: whoever needs a session waits for the same one; Close ends all.
func TestPool(t *testing.T) {
	bubble(t, func(t *testing.T) {
		opened := 0
		broken := errors.New("no service")
		p := NewPool(func() (*fake, error) {
			<-time.After(time.Second)
			if opened++; opened == 1 {
				return nil, broken
			}
			f := &fake{Life: NewLife(terms)}
			f.Extend(time.Now(), terms)
			return f, nil
		})
		if _, err := p.Join(t.Context()); !errors.Is(err, broken) {
			t.Fatalf("Join: %v", err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := p.Join(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Join that waits: %v", err)
		}
		var wg sync.WaitGroup
		got := make([]*fake, 10)
		for i := range got {
			wg.Go(func() { got[i], _ = p.Join(t.Context()) })
		}
		wg.Wait()
		if opened != 2 || len(slices.Compact(got)) != 1 {
			t.Fatalf("%d sessions opened", opened)
		}
		got[0].Retire()
		second, err := p.Join(t.Context())
		if err != nil || second == got[0] {
			t.Fatalf("a retired session was joined, or %v", err)
		}
		p.Go(func() { <-second.Context().Done() })
		late := make(chan error)
		second.Retire()
		go func() {
			_, err := p.Join(t.Context())
			late <- err
		}()
		synctest.Wait() // one is being opened
		if ended := p.End(ErrClosed); len(ended) != 2 {
			t.Errorf("%d sessions ended, want the two with users", len(ended))
		}
		if err := <-late; !errors.Is(err, locks.ErrClosed) {
			t.Errorf("Join that waits for a session: %v", err)
		}
		p.Wait()
		if _, err := p.Join(t.Context()); !errors.Is(err, locks.ErrClosed) || errors.Is(err, locks.ErrLost) {
			t.Errorf("Join after the end: %v", err)
		}
		if !got[0].closed || !second.closed || !errors.Is(second.Over(), locks.ErrClosed) || p.End(ErrClosed) != nil {
			t.Error("sessions were left")
		}
		p.Go(func() { t.Error("a goroutine began after Wait") })
	})
}
