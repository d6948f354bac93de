package e2e_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/internal/lockurl"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/migrations"
	pgstore "github.com/fenceproxy/fenceproxy/stores/postgres"
)

const (
	// shortTTL is for holders that are to lose their lease, longTTL for the others.
	shortTTL = 3 * time.Second
	longTTL  = 30 * time.Second
	patience = 60 * time.Second
)

// lockService is one of the services that hand out locks.
type lockService struct {
	name string
	// shared is the host:port of one that all tests use, fresh that of one of
	// this test's own, without a memory.
	shared, fresh func(tb testing.TB) string
	// url is where locks are that nobody else sees who does not know space.
	url func(addr, space string) string
}

func lockServices() []lockService {
	return []lockService{
		{
			name:   "etcd",
			shared: func(tb testing.TB) string { return testenv.Etcd(tb).Endpoints()[0] },
			fresh:  func(tb testing.TB) string { return testenv.StartEtcd(tb, testenv.EtcdConfig{}).Endpoints()[0] },
			url:    func(addr, space string) string { return "etcd://" + addr + "/" + space },
		},
		{
			name:   "redis",
			shared: func(tb testing.TB) string { return testenv.Redis(tb).Addr() },
			fresh:  func(tb testing.TB) string { return testenv.StartRedis(tb, testenv.RedisConfig{}).Addr() },
			url:    func(addr, space string) string { return "redis://" + addr + "?issuer=e2e&prefix=" + space },
		},
		{
			name:   "zookeeper",
			shared: func(tb testing.TB) string { return testenv.ZooKeeper(tb).Addr() },
			fresh:  func(tb testing.TB) string { return testenv.StartZooKeeper(tb, testenv.ZooKeeperConfig{}).Addr() },
			url:    func(addr, space string) string { return "zk://" + addr + "/" + space },
		},
	}
}

// eachLockService runs f as a subtest for each of them, with the URL of a space
// of its own.
func eachLockService(t *testing.T, f func(t *testing.T, s lockService, url string)) {
	t.Helper()
	for _, s := range lockServices() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			f(t, s, s.url(s.shared(t), locks.NewID()))
		})
	}
}

// open opens a locker, with connections of its own, for this test.
func open(tb testing.TB, url string) locks.Locker {
	tb.Helper()
	target, err := lockurl.Parse(url)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := target.Open(tb.Context(), longTTL)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Logf("close: %v", err)
		}
	})
	return s.Locker
}

func testContext(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	tb.Cleanup(cancel)
	return ctx
}

func must[T any](value T, err error) func(tb testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return value
	}
}

// account is a balance in a database of its own, which everybody reads, adds to
// and writes back, and a line for each who did: what a lock is for.
type account struct {
	url   string
	pool  *pgxpool.Pool
	store *pgstore.Store
}

func openAccount(t *testing.T) *account {
	t.Helper()
	url := testenv.Postgres(t).Database(t)
	if err := migrations.Up(t.Context(), url, migrations.Config{}); err != nil {
		t.Fatal(err)
	}
	pool := must(pgxpool.New(t.Context(), url))(t)
	t.Cleanup(pool.Close)
	must(pool.Exec(t.Context(), `create table balance (amount bigint not null); insert into balance values (0);
		create table deposits (id bigint generated always as identity, number bigint not null, amount bigint not null)`))(t)
	return &account{url, pool, must(pgstore.New(pool, pgstore.Config{}))(t)}
}

// deposit reads the balance, calls between, and writes it back with amount added.
func deposit(ctx context.Context, tx pgx.Tx, number, amount int64, between func() error) error {
	var balance int64
	if err := tx.QueryRow(ctx, "select amount from balance").Scan(&balance); err != nil {
		return err
	}
	if err := between(); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "update balance set amount = $1", balance+amount); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "insert into deposits (number, amount) values ($1, $2)", number, amount)
	return err
}

// add makes a deposit under a lease.
func (a *account) add(ctx context.Context, lease locks.Lease, amount int64) error {
	token := lease.Token()
	return a.store.InTx(ctx, token, func(ctx context.Context, tx pgx.Tx) error {
		return deposit(ctx, tx, token.Number, amount, func() error { return nil })
	})
}

// claimAndAdd is what a holder does.
func (a *account) claimAndAdd(ctx context.Context, lease locks.Lease, amount int64) error {
	if err := a.store.Claim(ctx, lease.Token()); err != nil {
		return err
	}
	return a.add(ctx, lease, amount)
}

// want checks that these deposits were made, in any order, no more and no less,
// and that none of them was lost.
func (a *account) want(t *testing.T, amounts ...int64) {
	t.Helper()
	var sum int64
	for _, amount := range amounts {
		sum += amount
	}
	if balance := a.number(t, "select amount from balance"); balance != sum {
		t.Errorf("balance %d, want %d", balance, sum)
	}
	rows := must(a.pool.Query(t.Context(), "select amount from deposits order by id"))(t)
	got := must(pgx.CollectRows(rows, pgx.RowTo[int64]))(t)
	slices.Sort(amounts)
	slices.Sort(got)
	if !slices.Equal(amounts, got) {
		t.Errorf("deposits %v, want %v", got, amounts)
	}
}

// inOrder checks that nobody wrote under a number after a higher one.
func (a *account) inOrder(t *testing.T) {
	t.Helper()
	if a.number(t, `select count(*) from (select number, max(number) over (order by id) as top from deposits) d where number < top`) != 0 {
		t.Error("a deposit under a lower number came after one under a higher one (I1)")
	}
}

func (a *account) number(t *testing.T, sql string) (n int64) {
	t.Helper()
	if err := a.pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
