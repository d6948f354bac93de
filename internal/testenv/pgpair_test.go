package testenv_test

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// diskSize is that of the disks of a pair, 0 where there cannot be any.
func diskSize() int64 {
	if testenv.CannotFill() != nil {
		return 0
	}
	return 512 << 20
}

// TestPostgresPair: what was acknowledged survives the primary.
func TestPostgresPair(t *testing.T) {
	t.Parallel()
	p := testenv.StartPostgresPair(t, testenv.PostgresConfig{}, diskSize())
	first := p.Primary()
	url := first.Database(t)
	exec(t, connect(t, url), "create table t (n int); insert into t values (0)")
	if p.Promote(t) {
		t.Fatal("promoted without a standby")
	}
	for round := 1; round <= 2; round++ {
		p.Attach(t)
		exec(t, connect(t, testenv.URLVia(url, p.Primary().Addr())), "update t set n = n + 1")
		if !p.Promote(t) {
			t.Fatal("not promoted")
		}
		if got := query[int](t, connect(t, testenv.URLVia(url, p.Primary().Addr())), "select n from t"); got != round {
			t.Errorf("n = %d after a promotion, want %d", got, round)
		}
		if same := p.Primary() == first; same != (round == 2) {
			t.Errorf("the primary is the first one: %v, after %d promotions", same, round)
		}
	}
	p.Attach(t)
	p.FreezeStandby(t)
	p.ThawStandby(t)
	p.Detach(t)
	exec(t, connect(t, testenv.URLVia(url, p.Primary().Addr())), "update t set n = 10")
}

// TestPostgresDiskFull: a server that has no room for its log ends, and serves
// again.
func TestPostgresDiskFull(t *testing.T) {
	t.Parallel()
	size := diskSize()
	if size == 0 {
		t.Skip(testenv.CannotFill())
	}
	p := testenv.StartPostgresPair(t, testenv.PostgresConfig{}, size)
	url := p.Primary().Database(t)
	exec(t, connect(t, url), "create table t (s text)")
	conn := connect(t, url)
	p.Fill(t, 0)
	var err error
	for i := 0; i < 200 && err == nil; i++ {
		_, err = conn.Exec(t.Context(), "insert into t select repeat(md5(i::text), 50) from generate_series(1, 5000) i")
	}
	if err == nil {
		t.Error("a full disk takes everything")
	}
	p.Free(t)
	exec(t, connect(t, url), "insert into t values ('and now')")
}
