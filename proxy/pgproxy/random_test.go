package pgproxy

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

var (
	dialogues = flag.Int("dialogues", 150, "random dialogues for each test of them")
	seed      = flag.Uint64("seed", 1, "seed of the first dialogue; 0 is by chance")
)

// dialogue is what a client sends, one message after the other. Random ones make
// sense only now and then.
type dialogue struct {
	seed     uint64
	messages []pgproto3.FrontendMessage
	cuts     *rand.Rand
}

// texts are statements that a dialogue is made of; %d is a number that is used
// once.
var texts = []string{
	"INSERT INTO t VALUES (%d, 'a')", "INSERT INTO t VALUES (%d, 'a')", "INSERT INTO t VALUES (%d, 'a') RETURNING v",
	"UPDATE t SET v = 'b'", "DELETE FROM t WHERE id < 0", "SELECT 1", "SELECT count(*) > 100000000 FROM t", "TABLE t LIMIT 0",
	"INSERT INTO t VALUES (1, 'a')", "INSERT INTO t SELECT 1/0", "SELECT nope", "SELEC", "",
	"BEGIN", "BEGIN", "BEGIN ISOLATION LEVEL SERIALIZABLE", "START TRANSACTION READ WRITE", "begin /* x */ read only",
	"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "COMMIT", "COMMIT", "COMMIT WORK", "END", "ROLLBACK", "ABORT",
	"SAVEPOINT s", "RELEASE s", "ROLLBACK TO s", "ROLLBACK AND CHAIN", "ROLLBACK TO SAVEPOINT s",
	"SET statement_timeout = '1min'", "SHOW statement_timeout", "SET LOCAL lock_timeout = 0", "RESET lock_timeout", "LISTEN l", "UNLISTEN l",
	"DECLARE c CURSOR FOR SELECT 2", "FETCH c", "CLOSE c", "LOCK TABLE t IN SHARE MODE", "DO $$ BEGIN PERFORM 1; END $$",
	"DO $$ BEGIN INSERT INTO t VALUES (%d, 'do'); END $$", "CALL p(%d)", "EXPLAIN (COSTS off) SELECT 1", "CREATE TEMP TABLE IF NOT EXISTS tt (a int)",
	"PREPARE q%d AS INSERT INTO t VALUES (-1, 'q')", "DEALLOCATE ALL", "VACUUM t", "ANALYZE t", "CREATE TABLE x%d ()",
	"SELECT 1; INSERT INTO t VALUES (%d, 'm')", "INSERT INTO t VALUES (%d, 'm'); SELECT 1/0", "BEGIN; INSERT INTO t VALUES (%d, 'm')",
	"BEGIN; INSERT INTO t VALUES (%d, 'm'); COMMIT", "INSERT INTO t VALUES (%d, 'm'); COMMIT", "COMMIT; BEGIN", "ROLLBACK; BEGIN",
	"INSERT INTO t VALUES (%d, 'm'); COMMIT; BEGIN", "SAVEPOINT s; INSERT INTO t VALUES (%d, 'm')", "COPY t TO STDOUT", "INSERT INTO deferred VALUES (1)",
	"PREPARE a AS INSERT INTO t VALUES (%d, 'p')", "EXECUTE a", "DEALLOCATE a", "DEALLOCATE b", "SELECT set_config('a.b', 'c', false)", "COMMIT AND CHAIN",
	"DECLARE h CURSOR WITH HOLD FOR SELECT 2", "FETCH h", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT 1",
	"LOCK TABLE t IN SHARE MODE", "BEGIN ISOLATION LEVEL REPEATABLE READ; LOCK TABLE t IN SHARE MODE", "EXECUTE b", "SET default_transaction_isolation = 'repeatable read'",
}

func newDialogue(seed uint64, texts []string) *dialogue {
	r := rand.New(rand.NewPCG(seed, 7))
	s := &dialogue{seed: seed, cuts: rand.New(rand.NewPCG(seed, 8))}
	text := func() string {
		sql := texts[r.IntN(len(texts))]
		return strings.ReplaceAll(sql, "%d", fmt.Sprint(1000+r.IntN(1<<20)))
	}
	names := []string{"", "", "a", "b"}
	name := func() string { return names[r.IntN(len(names))] }
	add := func(m ...pgproto3.FrontendMessage) { s.messages = append(s.messages, m...) }
	for range 3 + r.IntN(12) {
		switch r.IntN(20) {
		case 0, 1, 2, 3, 4, 5:
			add(&pgproto3.Query{String: text()})
		case 6, 7, 8, 9, 10:
			stmt, portal, sql := name(), name(), text()
			add(&pgproto3.Parse{Name: stmt, Query: sql}, &pgproto3.Bind{PreparedStatement: stmt, DestinationPortal: portal})
			if r.IntN(2) == 0 {
				add(&pgproto3.Describe{ObjectType: 'P', Name: portal})
			}
			add(&pgproto3.Execute{Portal: portal})
			procedure := strings.HasPrefix(sql, "DO") || strings.HasPrefix(sql, "CALL") // may be followed by more than without a proxy
			if procedure || r.IntN(3) > 0 {
				add(&pgproto3.Sync{})
			}
		case 11:
			add(&pgproto3.Parse{Name: name(), Query: text()})
		case 12:
			add(&pgproto3.Bind{PreparedStatement: name(), DestinationPortal: name()})
		case 13:
			// Not the unnamed portal: PostgreSQL 15 crashes where a COPY in a failed
			// block left it behind.
			add(&pgproto3.Execute{Portal: "ab"[r.IntN(2):][:1], MaxRows: uint32(r.IntN(2))})
		case 14:
			add(&pgproto3.Close{ObjectType: "SP"[r.IntN(2)], Name: name()})
		case 15:
			add(&pgproto3.Describe{ObjectType: "SP"[r.IntN(2)], Name: name()})
		case 16:
			add(&pgproto3.Flush{})
		case 17, 18:
			add(&pgproto3.Sync{})
		case 19:
			add(&pgproto3.Sync{}, &pgproto3.Query{String: "COPY t FROM STDIN"},
				&pgproto3.CopyData{Data: fmt.Appendf(nil, "%d\tc\n", 2_000_000+r.IntN(1<<20))})
			if r.IntN(3) == 0 {
				add(&pgproto3.CopyFail{Message: "no"})
			} else {
				add(&pgproto3.CopyDone{})
			}
		}
	}
	return s
}

func (s *dialogue) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "dialogue of seed %d:\n", s.seed)
	for _, m := range s.messages {
		fmt.Fprintf(&b, "  %T %+v\n", m, m)
	}
	return b.String()
}

// raw is a connection that is spoken to message by message.
type raw struct {
	conn net.Conn
	*pgproto3.Frontend
}

func (sc *scene) raw(dsn string) *raw {
	sc.t.Helper()
	conn, err := pgconn.Connect(sc.t.Context(), dsn)
	if err != nil {
		sc.t.Fatal(err)
	}
	h, err := conn.Hijack()
	if err != nil {
		sc.t.Fatal(err)
	}
	sc.t.Cleanup(func() { h.Conn.Close() })
	// Behind a write that took long pgconn may still read in the background, up to
	// the next bytes that come: these are in its own Frontend and nowhere else.
	return &raw{conn: h.Conn, Frontend: h.Frontend}
}

// play sends the dialogue and returns what comes back, a word for each message.
// After half of it, midway is called.
func (s *dialogue) play(t *testing.T, c *raw, midway func()) []string {
	t.Helper()
	_ = c.conn.SetDeadline(time.Now().Add(testLimit))
	received := make(chan []string, 1)
	go func() { received <- c.transcript() }()
	for i, m := range s.messages {
		if i == len(s.messages)/2 && midway != nil {
			midway()
		}
		s.send(t, c, m)
	}
	s.send(t, c, &pgproto3.Sync{})
	s.send(t, c, &pgproto3.Query{String: "ROLLBACK"})
	s.send(t, c, &pgproto3.Query{String: "SHOW server_version_num"})
	return <-received
}

// send sends one message, in pieces.
func (s *dialogue) send(t *testing.T, c *raw, m pgproto3.FrontendMessage) {
	t.Helper()
	b, err := m.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	for len(b) > 0 {
		n := len(b)
		if s.cuts.IntN(4) == 0 {
			n = 1 + s.cuts.IntN(len(b))
		}
		if _, err := c.conn.Write(b[:n]); err != nil {
			return // the transcript says why
		}
		b = b[n:]
	}
}

// transcript reads up to the reply to the last Query of a dialogue.
func (c *raw) transcript() []string {
	var words []string
	for {
		m, err := c.Receive()
		if err != nil {
			return append(words, "connection: "+err.Error())
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			words = append(words, "E:"+m.Code)
		case *pgproto3.NoticeResponse:
			words = append(words, "N:"+m.Code)
		case *pgproto3.CommandComplete:
			words = append(words, "C:"+string(m.CommandTag))
			if string(m.CommandTag) == "SHOW" && len(words) > 1 && words[len(words)-2] == "D:server_version_num" {
				return words
			}
		case *pgproto3.ReadyForQuery:
			words = append(words, "Z:"+string(m.TxStatus))
		case *pgproto3.RowDescription:
			words = append(words, "T")
			if len(m.Fields) == 1 && string(m.Fields[0].Name) == "server_version_num" {
				words[len(words)-1] = "T:last"
			}
		case *pgproto3.DataRow:
			if words[len(words)-1] == "T:last" {
				words = append(words, "D:server_version_num")
				continue
			}
			words = append(words, "D")
		default:
			words = append(words, strings.TrimPrefix(fmt.Sprintf("%T", m), "*pgproto3."))
		}
	}
}

func (sc *scene) prepareDialogues() {
	conn := sc.connect(sc.url)
	sc.exec(conn, "INSERT INTO t VALUES (1, 'first')")
	sc.exec(conn, "CREATE PROCEDURE p(i int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (i, 'p'); END $$")
	sc.exec(conn, "CREATE TABLE deferred (id int REFERENCES t DEFERRABLE INITIALLY DEFERRED CHECK (id > 0))")
	sc.exec(conn, "CREATE TABLE d2 (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
}

// reset brings the data back to what it was before any dialogue.
func (sc *scene) reset(conn *pgconn.PgConn) {
	sc.t.Helper()
	sc.run(conn, `DELETE FROM deferred; DELETE FROM t; INSERT INTO t VALUES (1, 'first');
		DO $$ DECLARE n text; BEGIN FOR n IN SELECT relname FROM pg_class WHERE relname LIKE 'x%' AND relkind = 'r' AND relnamespace = 'public'::regnamespace
		LOOP EXECUTE 'DROP TABLE ' || n; END LOOP; END $$`)
}

func (sc *scene) run(conn *pgconn.PgConn, sql string) string {
	sc.t.Helper()
	results, err := conn.Exec(context.Background(), sql).ReadAll()
	if err != nil {
		var pg *pgconn.PgError
		errors.As(err, &pg)
		sc.t.Fatalf("%s: %v, %+v", sql, err, pg)
	}
	var b strings.Builder
	for _, r := range results {
		for _, row := range r.Rows {
			for _, v := range row {
				fmt.Fprintf(&b, "%s|", v)
			}
		}
	}
	return b.String()
}

const fingerprint = `SELECT coalesce(string_agg(id || v, ',' ORDER BY id), '') FROM t;
	SELECT count(*) FROM deferred; SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relpersistence = 'p' AND relnamespace = 'public'::regnamespace`

func (sc *scene) admin() *pgconn.PgConn {
	sc.t.Helper()
	conn, err := pgconn.Connect(sc.t.Context(), sc.url)
	if err != nil {
		sc.t.Fatal(err)
	}
	sc.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func eachDialogue(t *testing.T, f func(s *dialogue)) {
	t.Helper()
	eachDialogueOf(t, texts, *dialogues, f)
}

func eachDialogueOf(t *testing.T, texts []string, dialogues int, f func(s *dialogue)) {
	t.Helper()
	first := *seed
	if first == 0 {
		first = rand.Uint64() >> 16
	}
	for i := range dialogues {
		f(newDialogue(first+uint64(i), texts))
	}
}

// TestRandomDialoguesSame: with a current token a client sees what it would see
// without the proxy, and leaves the same behind (I7).
func TestRandomDialoguesSame(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{})
		sc.prepareDialogues()
		admin := sc.admin()
		via := sc.via(sc.token(1).String())
		eachDialogue(t, func(s *dialogue) {
			sc.reset(admin)
			direct := sc.raw(sc.url)
			want := s.play(t, direct, nil)
			direct.conn.Close()
			left := sc.run(admin, fingerprint)
			sc.reset(admin)
			through := sc.raw(via)
			got := s.play(t, through, nil)
			through.conn.Close()
			if slices.Contains(got, "E:TK007") || slices.Contains(got, "E:25001") {
				return // cannot be fenced, and is refused; or the check came before SET TRANSACTION in one series of messages
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%v\n through: %q\n  direct: %q", s, got, want)
			}
			if now := sc.run(admin, fingerprint); now != left {
				t.Fatalf("%v\n through leaves: %s\n  direct leaves: %s", s, now, left)
			}
		})
	})
}

// TestRandomDialoguesStale: whatever a client does whose token is not current any
// more, nothing of it is applied after the newer claim has returned (I1).
func TestRandomDialoguesStale(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{})
		sc.prepareDialogues()
		admin := sc.admin()
		user, password := s.Role(t, "LOGIN") // a superuser's session cannot be evicted
		sc.run(admin, fmt.Sprintf(`GRANT ALL ON ALL TABLES IN SCHEMA public TO %[1]s; GRANT CREATE ON SCHEMA public TO %[1]s;
			GRANT EXECUTE ON FUNCTION fence.claim TO %[1]s`, user))
		number := int64(0)
		eachDialogue(t, func(s *dialogue) {
			sc.reset(admin)
			number += 2
			c := sc.raw(testenv.URLAs(sc.via(sc.token(number).String()), user, password))
			var left string
			got := s.play(t, c, func() {
				sc.run(admin, fmt.Sprintf("SELECT fence.claim('%v', wait => '50ms', evict => true)", sc.token(number+1)))
				left = sc.run(admin, fingerprint)
			})
			c.conn.Close()
			if now := sc.run(admin, fingerprint); now != left {
				t.Fatalf("%v\n written after the claim: %s\n before: %s\n %q", s, now, left, got)
			}
		})
	})
}

// TestRandomDialoguesUntokened: nor does a client without a token write.
func TestRandomDialoguesUntokened(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{})
		sc.prepareDialogues()
		admin := sc.admin()
		left := sc.run(admin, fingerprint)
		eachDialogue(t, func(s *dialogue) {
			c := sc.raw(sc.via(""))
			got := s.play(t, c, nil)
			c.conn.Close()
			if now := sc.run(admin, fingerprint); now != left {
				t.Fatalf("%v\n written: %s\n before: %s\n %q", s, now, left, got)
			}
		})
	})
}
