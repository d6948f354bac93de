package e2e_test

import (
	"strconv"
	"testing"
)

// TestPausedHolder: the holder's process is stopped (SIGSTOP) past its TTL; the
// next one takes over and works; then the first one goes on (SIGCONT). It is
// refused by the database, and the next one's work is what it was (I1, I3, I9).
func TestPausedHolder(t *testing.T) {
	t.Parallel()
	eachLockService(t, func(t *testing.T, _ lockService, url string) {
		for _, pause := range []struct {
			name   string
			shared bool
			before string // what the holder does before it is stopped
			hears  string
			after  string // and what when it goes on
		}{
			{name: "between transactions", before: "deposit 1", hears: "committed", after: "deposit 2"},
			{name: "in a transaction", before: "begin 2", hears: "read", after: "go on"},
			{name: "reader", shared: true, before: "look", hears: "committed 0", after: "look"},
		} {
			t.Run(pause.name, func(t *testing.T) {
				t.Parallel()
				a := openAccount(t)
				resource := "orders/" + pause.name
				want := []int64{10, 20}
				if pause.before == "deposit 1" {
					want = append(want, 1)
				}
				old := hire(t, job{Locks: url, Database: a.url, TTL: shortTTL, Resource: resource, Shared: pause.shared})
				first := number(t, old.hears(t, "claimed"))
				old.say(t, pause.before)
				old.hears(t, pause.hears)
				if err := old.process.Freeze(); err != nil {
					t.Fatal(err)
				}
				next := hire(t, job{Locks: url, Database: a.url, TTL: longTTL, Resource: resource})
				if second := number(t, next.hears(t, "claimed")); second <= first {
					t.Errorf("number %d after %d", second, first)
				}
				next.say(t, "deposit 10")
				next.hears(t, "committed")

				old.say(t, pause.after) // it finds this when it wakes up
				if err := old.process.Thaw(); err != nil {
					t.Fatal(err)
				}
				if outcome := old.hears(t, "stale"); outcome != "refused" {
					t.Errorf("outcome %s", outcome)
				}
				next.say(t, "deposit 20")
				next.hears(t, "committed")
				old.say(t, "release") // must not free what is somebody else's
				if answer := old.hears(t, "released"); answer != "true false" {
					t.Errorf("release of a lost lease: lost, nil = %s", answer)
				}
				if _, err := open(t, url).TryAcquireShared(testContext(t), resource); err == nil {
					t.Error("the next holder's lock is gone")
				}
				next.say(t, "release")
				if answer := next.hears(t, "released"); answer != "false true" {
					t.Errorf("release: lost, nil = %s", answer)
				}
				a.want(t, want...)
				a.inOrder(t)
			})
		}
	})
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	return must(strconv.ParseInt(text, 10, 64))(t)
}
