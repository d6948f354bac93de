package pgproxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// fails wants a statement to fail with that SQLSTATE, by both protocols.
func (sc *scene) fails(conn *pgx.Conn, state, sql string) {
	sc.t.Helper()
	_, err := conn.Exec(sc.t.Context(), sql)
	sc.wants(err, state)
	_, err = conn.Exec(sc.t.Context(), sql, pgx.QueryExecModeDescribeExec)
	sc.wants(err, state)
}

func (sc *scene) claim(token guard.Token) {
	sc.t.Helper()
	conn := sc.connect(sc.url)
	defer conn.Close(context.Background())
	sc.exec(conn, "SELECT fence.claim($1)", token.String())
}

func shared(number int64) guard.Token {
	return guard.Token{Resource: "orders", Number: number, Mode: guard.Shared, Holder: fmt.Sprintf("r%d", number), Issuer: "test"}
}

// TestTokens: from wherever Postgres takes a setting, and whenever it changes.
func TestTokens(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{})
		for name, f := range map[string]func(t *testing.T, sc *scene, conn *pgx.Conn){
			"set": func(_ *testing.T, sc *scene, conn *pgx.Conn) {
				sc.exec(conn, "SET fence.token = '"+sc.token(10).String()+"'")
				sc.exec(conn, "INSERT INTO t VALUES (1, 'a')")
				sc.exec(conn, "INSERT INTO t VALUES ($1, 'a')", 2)
				sc.exec(conn, "RESET fence.token")
				sc.fails(conn, "25006", "INSERT INTO t VALUES (3, 'a')")
			},
			"set_config": func(_ *testing.T, sc *scene, conn *pgx.Conn) {
				sc.exec(conn, "SELECT set_config('fence.token', $1, false)", sc.token(11).String())
				sc.exec(conn, "INSERT INTO t VALUES ($1, 'a')", 11)
				sc.exec(conn, "SELECT set_config('fence.token', $1, false)", "")
				sc.fails(conn, "25006", "INSERT INTO t VALUES (12, 'a')")
			},
			"discard all": func(_ *testing.T, sc *scene, conn *pgx.Conn) {
				sc.exec(conn, "SET fence.token = '"+sc.token(12).String()+"'")
				sc.exec(conn, "INSERT INTO t VALUES (13, 'a')")
				sc.exec(conn, "DEALLOCATE ALL", pgx.QueryExecModeSimpleProtocol)
				sc.exec(conn, "INSERT INTO t VALUES (14, 'a')", pgx.QueryExecModeSimpleProtocol)
				sc.exec(conn, "DISCARD ALL", pgx.QueryExecModeSimpleProtocol)
				sc.fails(conn, "25006", "INSERT INTO t VALUES (15, 'a')")
			},
			"rolled back": func(_ *testing.T, sc *scene, conn *pgx.Conn) {
				sc.exec(conn, "SET fence.token = '"+sc.token(13).String()+"'")
				sc.exec(conn, "BEGIN")
				sc.exec(conn, "SET fence.token = ''")
				sc.exec(conn, "ROLLBACK")
				sc.exec(conn, "INSERT INTO t VALUES (16, 'a')")
			},
			"set inside a block": func(t *testing.T, sc *scene, conn *pgx.Conn) {
				sc.exec(conn, "SET fence.token = '"+sc.token(14).String()+"'")
				for _, other := range []string{"", sc.token(15).String()} {
					sc.exec(conn, "BEGIN")
					sc.exec(conn, "INSERT INTO t VALUES (17, 'a')")
					sc.exec(conn, "SET LOCAL fence.token = '"+other+"'")
					_, err := conn.Exec(t.Context(), "COMMIT")
					sc.wants(err, "TK004")
					sc.exec(conn, "INSERT INTO t VALUES (17, 'a')")
					sc.exec(conn, "DELETE FROM t WHERE id = 17")
				}
			},
			"malformed": func(_ *testing.T, sc *scene, conn *pgx.Conn) {
				sc.exec(conn, "SET fence.token = 'ft1:x:1'")
				sc.fails(conn, "TK006", "SELECT 1")
				sc.exec(conn, "SET fence.token = '"+sc.token(16).String()+"'")
				sc.exec(conn, "SELECT 1")
			},
			"hidden in a function": func(_ *testing.T, sc *scene, conn *pgx.Conn) {
				sc.exec(conn, "SET fence.token = '"+sc.token(17).String()+"'")
				sc.exec(conn, `DO $$ BEGIN EXECUTE 'SET fen' || 'ce.token = ''`+sc.token(3).String()+`'''; END $$`)
				sc.fails(conn, "TK001", "INSERT INTO t VALUES (20, 'a')")
			},
			"something else in the same message": func(_ *testing.T, sc *scene, conn *pgx.Conn) {
				_, err := conn.PgConn().Exec(context.Background(), "SET fence.token = '"+sc.token(18).String()+"'; INSERT INTO t VALUES (21, 'a')").ReadAll()
				sc.wants(err, "TK007")
				batch := &pgconn.Batch{}
				batch.ExecParams("SELECT set_config('fence.token', $1, false)", [][]byte{[]byte(sc.token(19).String())}, nil, nil, nil)
				batch.ExecParams("INSERT INTO t VALUES (22, 'a')", nil, nil, nil, nil)
				_, err = conn.PgConn().ExecBatch(context.Background(), batch).ReadAll()
				sc.wants(err, "TK004")
			},
		} {
			t.Run(name, func(t *testing.T) {
				sc := *sc
				sc.t, sc.resource = t, name
				f(t, &sc, sc.connect(sc.via("")))
			})
		}
	})
}

// TestSharedToken reads, and does not write.
func TestSharedToken(t *testing.T) {
	t.Parallel()
	sc := newScene(t, testenv.Postgres(t), Config{})
	writer := sc.connect(sc.via(sc.token(1).String()))
	sc.exec(writer, "INSERT INTO t VALUES (1, 'a')")
	reader := sc.connect(sc.via(shared(2).String()))
	other := sc.connect(sc.via(shared(3).String()))
	for _, r := range []*pgx.Conn{reader, other, reader} {
		sc.exec(r, "SELECT * FROM t")
		sc.fails(r, "25006", "INSERT INTO t VALUES (2, 'a')")
	}
	sc.fails(writer, "TK001", "INSERT INTO t VALUES (2, 'a')")
	sc.exec(reader, "BEGIN")
	sc.exec(reader, "SELECT * FROM t")
	_, err := reader.Exec(t.Context(), "SET TRANSACTION READ WRITE")
	sc.wants(err, "25001")
	sc.exec(reader, "ROLLBACK")
	next := sc.connect(sc.via(sc.token(4).String()))
	sc.exec(next, "INSERT INTO t VALUES (4, 'a')")
	sc.fails(reader, "TK001", "SELECT 1")
}

// TestSeveralTokens: a write of two resources needs both.
func TestSeveralTokens(t *testing.T) {
	t.Parallel()
	sc := newScene(t, testenv.Postgres(t), Config{})
	a, b := sc.token(1), sc.token(1)
	b.Resource = "stock"
	both := sc.connect(sc.via(a.String() + "," + b.String()))
	sc.exec(both, "INSERT INTO t VALUES (1, 'a')")
	sc.exec(both, "BEGIN")
	sc.exec(both, "INSERT INTO t VALUES ($1, 'a')", 2)
	sc.exec(both, "COMMIT")
	b.Number, b.Holder = 2, "other"
	sc.claim(b)
	sc.fails(both, "TK001", "INSERT INTO t VALUES (3, 'a')")
}

// TestPolicies: what may be done without a token.
func TestPolicies(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	t.Run("deny", func(t *testing.T) {
		t.Parallel()
		sc := newScene(t, s, Config{Untokened: Deny})
		conn := sc.connect(sc.via(""))
		sc.fails(conn, "TK005", "SELECT 1")
		sc.exec(conn, "SET fence.token = '"+sc.token(1).String()+"'")
		sc.exec(conn, "INSERT INTO t VALUES (1, 'a')")
	})
	t.Run("read-only", func(t *testing.T) {
		t.Parallel()
		sc := newScene(t, s, Config{})
		conn := sc.connect(sc.via(""))
		sc.exec(conn, "BEGIN READ WRITE")
		sc.exec(conn, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
		sc.exec(conn, "SELECT count(*) FROM t")
		_, err := conn.Exec(t.Context(), "SET transaction_read_only = off")
		sc.wants(err, "25001")
		sc.exec(conn, "ROLLBACK")
		sc.exec(conn, "BEGIN")
		sc.exec(conn, "SELECT count(*) FROM t")
		sc.exec(conn, "RESET transaction_read_only")
		// Before PostgreSQL 16 that makes it read-write, and then COMMIT refuses.
		if _, err := conn.Exec(t.Context(), "INSERT INTO t VALUES (1, 'a')"); err == nil {
			_, err = conn.Exec(t.Context(), "COMMIT")
			sc.wants(err, "TK005")
		} else {
			sc.exec(conn, "ROLLBACK")
		}
		_, err = conn.PgConn().Exec(t.Context(), "RESET transaction_read_only; INSERT INTO t VALUES (1, 'a')").ReadAll()
		sc.wants(err, "TK007")
		_, err = conn.Exec(t.Context(), "DO $$ BEGIN RESET transaction_read_only; INSERT INTO t VALUES (1, 'a'); END $$")
		if err == nil {
			t.Error("DO has written")
		}
		if n := sc.count(); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
	t.Run("allow", func(t *testing.T) {
		t.Parallel()
		sc := newScene(t, s, Config{Untokened: Allow})
		conn := sc.connect(sc.via(""))
		sc.exec(conn, "INSERT INTO t VALUES (1, 'a')")
		sc.exec(conn, "VACUUM t")
		sc.exec(conn, "SET fence.token = '"+sc.token(2).String()+"'")
		sc.exec(conn, "INSERT INTO t VALUES (2, 'a')")
		sc.claim(sc.token(3))
		sc.fails(conn, "TK001", "INSERT INTO t VALUES (3, 'a')")
		sc.exec(conn, "RESET fence.token")
		sc.exec(conn, "INSERT INTO t VALUES (3, 'a')")
		sc.exec(conn, "BEGIN")
		sc.exec(conn, "SET LOCAL fence.token = '"+sc.token(3).String()+"'")
		sc.exec(conn, "INSERT INTO t VALUES (4, 'a')")
		_, err := conn.Exec(t.Context(), "COMMIT")
		sc.wants(err, "TK004")
	})
}

// TestUnfencedDatabase: a database without the fence is of use only to whoever
// needs none.
func TestUnfencedDatabase(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	for _, policy := range []Policy{ReadOnly, Allow} {
		sc := newScene(t, s, Config{Untokened: policy})
		sc.url = s.Database(t)
		_, err := pgx.Connect(t.Context(), sc.via(sc.token(1).String()))
		sc.wants(err, "TK007")
		if policy != Allow {
			_, err = pgx.Connect(t.Context(), sc.via(""))
			sc.wants(err, "TK007")
			continue
		}
		conn := sc.connect(sc.via(""))
		sc.exec(conn, "CREATE TABLE t (id int)")
		sc.exec(conn, "SET fence.token = '"+sc.token(1).String()+"'")
		_, err = conn.Exec(t.Context(), "INSERT INTO t VALUES (1)")
		sc.wants(err, "TK007")
		sc.exec(conn, "RESET fence.token")
		sc.exec(conn, "INSERT INTO t VALUES (1)")
	}
}

// TestRoleWithoutClaim: a role that may not claim is told what lets it, and uses
// what was claimed for it.
func TestRoleWithoutClaim(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	sc := newScene(t, s, Config{})
	user, password := s.Role(t, "LOGIN")
	sc.exec(sc.connect(sc.url), "GRANT ALL ON t TO "+user)
	dsn := testenv.URLAs(sc.via(sc.token(1).String()), user, password)
	conn := sc.connect(dsn)
	_, err := conn.Exec(t.Context(), "INSERT INTO t VALUES (1, 'a')")
	sc.wants(err, "TK004")
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || !strings.Contains(pg.Hint, "fenceproxy migrate up --grant ROLE") {
		t.Errorf("there is no hint how it may claim: %#v", pg)
	}
	sc.claim(sc.token(1))
	sc.exec(conn, "INSERT INTO t VALUES (1, 'a')")
}

// TestClaimWaits for a transaction that has passed its check, and no longer than
// it is told to; then it evicts, if it may.
func TestClaimWaits(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	for _, evict := range []bool{false, true} {
		t.Run(fmt.Sprintf("evict=%v", evict), func(t *testing.T) {
			t.Parallel()
			sc := newScene(t, s, Config{ClaimWait: 200 * time.Millisecond, Evict: evict})
			user, password := s.Role(t, "LOGIN")
			sc.exec(sc.connect(sc.url), "GRANT ALL ON t TO "+user+"; GRANT EXECUTE ON FUNCTION fence.claim TO "+user)
			old := sc.connect(testenv.URLAs(sc.via(sc.token(1).String()), user, password))
			if _, err := old.PgConn().Exec(t.Context(), "BEGIN; INSERT INTO t VALUES (1, 'a')").ReadAll(); err != nil {
				t.Fatal(err)
			}
			if !evict { // with the check first the old one holds the resource
				if _, err := old.PgConn().Exec(t.Context(), "SELECT fence.check()").ReadAll(); err != nil {
					t.Fatal(err)
				}
			}
			next := sc.connect(testenv.URLAs(sc.via(sc.token(2).String()), user, password))
			_, err := next.Exec(t.Context(), "UPDATE t SET v = 'b'; INSERT INTO t VALUES (1, 'b')")
			if !evict {
				sc.wants(err, "TK004")
				if !strings.Contains(err.Error(), "still waits for older transactions") {
					t.Errorf("error does not say why: %v", err)
				}
				sc.exec(old, "COMMIT")
				sc.exec(next, "UPDATE t SET v = 'b'") // claims again
				return
			}
			if err != nil { // the row that the old one left locked is free
				t.Fatal(err)
			}
			if _, err := old.Exec(t.Context(), "COMMIT"); err == nil {
				t.Error("the old one has committed")
			}
		})
	}
}
