package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// stressEnv makes the test of this file run longer than its few seconds, like "10m".
	stressEnv = "FENCE_CHAOS"
	stressTTL = 2 * time.Second
	toilers   = 4
)

// stress is a crowd of worker processes that are stopped and killed.
type stress struct {
	job job

	mu   sync.Mutex
	said map[string]int     // how often what was said
	fate map[string][]int64 // which deposits were committed, and which refused
}

// TestLocksStress: processes take turns at one lock, each is stopped for up to
// twice its TTL, at any point of its work, or killed. What was acknowledged is
// there, what was refused is not (I2); nobody writes under a number after a
// higher one (I1), and who holds the lock is not refused (I3).
func TestLocksStress(t *testing.T) {
	t.Parallel()
	d := 8 * time.Second
	if text := os.Getenv(stressEnv); text != "" {
		d = must(time.ParseDuration(text))(t)
	}
	eachLockService(t, func(t *testing.T, _ lockService, url string) {
		a := openAccount(t)
		s := &stress{
			job:  job{Locks: url, Database: a.url, TTL: stressTTL, Resource: resource, Toil: true},
			said: map[string]int{}, fate: map[string][]int64{},
		}
		began := time.Now()
		var all sync.WaitGroup
		stop := make(chan struct{})
		for range toilers {
			all.Go(func() { s.career(t, stop) })
		}
		// On a slow machine it takes longer until there is something to see.
		for time.Since(began) < d || !s.enough() && time.Since(began) < d+patience {
			nap(nil, 100*time.Millisecond)
		}
		close(stop)
		all.Wait()
		s.verify(t, a)
		// What the last ones left behind ends by its time.
		if lease, err := open(t, url).Acquire(testContext(t), resource); err != nil {
			t.Errorf("acquire at the end: %v", err)
		} else if err := a.claimAndAdd(testContext(t), lease, 1); err != nil {
			t.Errorf("work at the end: %v", err)
		}
	})
}

// career is one worker after the other, until stop.
func (s *stress) career(t *testing.T, stop <-chan struct{}) {
	for {
		w := hire(t, s.job)
		heard := make(chan struct{})
		go func() {
			defer close(heard)
			for line := range w.lines {
				s.hear(line)
			}
		}()
		for killed := false; !killed; {
			if !nap(stop, rand.N(2*stressTTL)) {
				w.say(t, "stop")
				<-w.process.Done()
				<-heard
				return
			}
			dice := rand.IntN(6)
			if killed = dice == 0; killed || dice > 3 {
				continue
			}
			if err := w.process.Freeze(); err != nil {
				t.Errorf("freeze: %v", err)
				return
			}
			nap(stop, rand.N(2*stressTTL))
			if err := w.process.Thaw(); err != nil {
				t.Errorf("thaw: %v", err)
				return
			}
		}
		w.process.End(0)
		<-heard
		s.hear("killed")
	}
}

func nap(stop <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-stop:
		return false
	case <-timer.C:
		return true
	}
}

func (s *stress) hear(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what, _, _ := strings.Cut(line, " ")
	if what == "wrong:" || what == "failed" {
		what = line
	}
	s.said[what]++
	var amount int64
	if _, err := fmt.Sscanf(line, what+" %d", &amount); err == nil {
		s.fate[what] = append(s.fate[what], amount)
	}
}

// enough reports whether so much has happened that it tells something.
func (s *stress) enough() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said["committed"] > 10 && s.said["killed"] > 0 && s.said["lost"] > 0
}

func (s *stress) verify(t *testing.T, a *account) {
	t.Helper()
	t.Log(s.said)
	for what := range s.said {
		if strings.HasPrefix(what, "wrong:") {
			t.Error(what)
		}
	}
	rows := must(a.pool.Query(t.Context(), "select amount from deposits"))(t)
	made := map[int64]bool{}
	var sum int64
	for _, amount := range must(pgx.CollectRows(rows, pgx.RowTo[int64]))(t) {
		made[amount] = true
		sum += amount
	}
	for _, amount := range s.fate["committed"] {
		if !made[amount] {
			t.Errorf("deposit %d was acknowledged and is not there (I2)", amount)
		}
	}
	for _, amount := range s.fate["refused"] {
		if made[amount] {
			t.Errorf("deposit %d was refused and is there (I2)", amount)
		}
	}
	if balance := a.number(t, "select amount from balance"); balance != sum {
		t.Errorf("balance %d, want %d: a deposit was overwritten", balance, sum)
	}
	a.inOrder(t)
	if !s.enough() {
		t.Error("too little happened to tell anything")
	}
}
