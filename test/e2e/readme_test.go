package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
	"github.com/fenceproxy/fenceproxy/locks/etcdlock"
	"github.com/fenceproxy/fenceproxy/migrations"
	pgstore "github.com/fenceproxy/fenceproxy/stores/postgres"
)

func ship(ctx context.Context, locker locks.Locker, store *pgstore.Store, order int) error {
	lease, err := locker.Acquire(ctx, "orders") // blocks until granted or ctx ends
	if err != nil {
		return err
	}
	defer func() { _ = lease.Release(context.WithoutCancel(ctx)) }()
	if err := store.Claim(ctx, lease.Token()); err != nil { // before anything is read
		return err
	}
	err = store.InTx(ctx, lease.Token(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE orders SET shipped = true WHERE id = $1", order)
		return err
	})
	if errors.Is(err, guard.ErrStale) {
		return fmt.Errorf("the lock went to somebody else, and nothing was written: %w", err)
	}
	return err
}

func shipOne(ctx context.Context, etcd *clientv3.Client, pool *pgxpool.Pool) error {
	locker, err := etcdlock.New(etcd, etcdlock.Config{TTL: 15 * time.Second})
	if err != nil {
		return err
	}
	store, err := pgstore.New(pool, pgstore.Config{})
	if err != nil {
		return err
	}
	return errors.Join(ship(ctx, locker, store, 1), locker.Close())
}

// ordersPool returns a pool on a database with the schema fence and an order
// that was not shipped.
func ordersPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	url := testenv.Postgres(t).Database(t)
	if err := migrations.Up(t.Context(), url, migrations.Config{}); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(), "CREATE TABLE orders (id int PRIMARY KEY, shipped boolean NOT NULL); INSERT INTO orders VALUES (1, false)")
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

func shipped(t *testing.T, pool *pgxpool.Pool) (shipped bool) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), "SELECT shipped FROM orders WHERE id = 1").Scan(&shipped); err != nil {
		t.Fatal(err)
	}
	return shipped
}

func TestReadmeGo(t *testing.T) {
	t.Parallel()
	pool := ordersPool(t)
	etcd, err := clientv3.New(clientv3.Config{Endpoints: testenv.Etcd(t).Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	if err := shipOne(t.Context(), etcd, pool); err != nil {
		t.Fatal(err)
	}
	if !shipped(t, pool) {
		t.Fatal("not shipped")
	}
}

func TestReadmeSQL(t *testing.T) {
	t.Parallel()
	blocks := readmeBlocks(t, "sql")
	if len(blocks) != 2 {
		t.Fatalf("README.md has %d blocks of SQL", len(blocks))
	}
	pool := ordersPool(t)
	for _, block := range blocks {
		// Statement by statement, as psql sends them: a claim is a transaction of its own.
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for statement := range strings.SplitSeq(block, ";") {
			if _, err := conn.Exec(t.Context(), statement); err != nil && !onlyComment(statement) {
				t.Errorf("%s: %v", statement, err)
			}
		}
		conn.Release()
		if !shipped(t, pool) {
			t.Errorf("not shipped by:\n%s", block)
		}
		if _, err := pool.Exec(t.Context(), "RESET fence.token; SELECT fence.unprotect('orders')"); err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Exec(t.Context(), "UPDATE orders SET shipped = false"); err != nil {
			t.Fatal(err)
		}
	}
}

func onlyComment(statement string) bool {
	return strings.HasPrefix(strings.TrimSpace(statement), "--") && !strings.Contains(strings.TrimSpace(statement), "\n")
}

// The Go in README.md is the Go that the tests above run, and those of stores/s3.
func TestReadmeIsTested(t *testing.T) {
	t.Parallel()
	var source []byte
	for _, name := range []string{"readme_test.go", "../../stores/s3/example_test.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, text...)
	}
	blocks := readmeBlocks(t, "go")
	if len(blocks) == 0 {
		t.Fatal("README.md has no Go")
	}
	for _, block := range blocks {
		if !strings.Contains(string(source), block) {
			t.Errorf("this block of README.md is in no test:\n%s", block)
		}
	}
}

func readmeBlocks(t *testing.T, language string) []string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		blocks = append(blocks, match[1])
	}
	return blocks
}
