package pgproxy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// hostileTexts are statements of somebody who may not write and wants to.
var hostileTexts = append(slices.Clone(texts),
	"RESET transaction_read_only", "SET transaction_read_only = off", "SET TRANSACTION READ WRITE", "SET transaction_read_only TO DEFAULT",
	"SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "BEGIN READ WRITE; RESET transaction_read_only",
	"DO $$ BEGIN PERFORM thaw(%d); END $$", "DO $$ BEGIN PERFORM thaw(%d); END $$; SELECT 1", "SELECT 1; DO $$ BEGIN PERFORM thaw(%d); END $$",
	"SELECT thaw(%d)", "SELECT thaw(%d)", "SELECT thaw(%d); SELECT 1", "SELECT thaw(%d); COMMIT", "BEGIN; SELECT thaw(%d); COMMIT",
	"EXPLAIN ANALYZE SELECT thaw(%d)", "COPY (SELECT thaw(%d)) TO STDOUT", "DECLARE h CURSOR WITH HOLD FOR SELECT thaw(%d)",
	"SELECT lo_create(0)", "SELECT lo_create(0); SELECT 1",
	"SELECT set_config('transaction_read_only', NULL, true)", "SELECT set_config('transaction_read_only', 'off', true)",
	"PREPARE th AS SELECT set_config($1, NULL, true)", "EXECUTE th('transaction_read_only')", "EXECUTE th('transaction_read_only'); INSERT INTO t VALUES (%d, 'e')",
	"SET fence.token = ''", "SET LOCAL fence.token = ''", "RESET fence.token", "RESET ALL", "SET fence.token = 'bad'", "SELECT set_config('fence.token', '', false)",
	"SET fence.token = 'ft1:x:1:h1:test:orders'", "SET LOCAL fence.token = 'ft1:x:1:h1:test:orders'",
	"DISCARD ALL", "COMMIT AND CHAIN", "DEALLOCATE a", "PREPARE a AS INSERT INTO t VALUES (%d, 'p')", "EXECUTE a",
)

const hostileFingerprint = fingerprint + "; SELECT count(*) FROM pg_largeobject_metadata"

func (sc *scene) prepareHostile() {
	sc.t.Helper()
	sc.prepareDialogues()
	sc.run(sc.admin(), `CREATE FUNCTION thaw(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
		EXECUTE 'RESET transaction' || '_read_only'; INSERT INTO t VALUES (i, 't'); RETURN 1; END $$`)
}

// TestRandomHostile: nobody writes who may not, whatever they try.
func TestRandomHostile(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		for name, c := range map[string]struct {
			policy Policy
			token  string
		}{
			"without a token": {ReadOnly, ""}, "denied": {Deny, ""},
			"shared": {ReadOnly, "ft1:s:7:r7:test:orders"}, "stale": {Allow, "ft1:x:1:h1:test:orders"},
			"shared among others": {ReadOnly, "ft1:x:7:h7:test:stock,ft1:s:7:r7:test:orders"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				sc := newScene(t, s, Config{Untokened: c.policy})
				sc.prepareHostile()
				sc.claim(sc.token(2))
				admin := sc.admin()
				left := sc.run(admin, hostileFingerprint)
				texts := hostileTexts
				if c.policy == Allow { // where a token can be laid down
					texts = slices.DeleteFunc(slices.Clone(texts), func(sql string) bool {
						return strings.Contains(sql, "fence.token") && strings.Contains(sql, "''")
					})
				}
				eachDialogueOf(t, texts, *dialogues/3, func(s *dialogue) {
					r := sc.raw(sc.via(c.token))
					got := s.play(t, r, nil)
					r.conn.Close()
					if now := sc.run(admin, hostileFingerprint); now != left {
						t.Fatalf("%v\n written: %s\n before: %s\n %q", s, now, left, got)
					}
				})
			})
		}
	})
}

// TestRandomHostileStale: nor does somebody whose token becomes stale meanwhile.
func TestRandomHostileStale(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		sc := newScene(t, s, Config{})
		sc.prepareHostile()
		admin := sc.admin()
		user, password := s.Role(t, "LOGIN")
		sc.run(admin, fmt.Sprintf(`GRANT ALL ON ALL TABLES IN SCHEMA public TO %[1]s; GRANT CREATE ON SCHEMA public TO %[1]s;
			GRANT EXECUTE ON FUNCTION fence.claim TO %[1]s`, user))
		number := int64(0)
		eachDialogueOf(t, hostileTexts, *dialogues/2, func(s *dialogue) {
			sc.reset(admin)
			number += 2
			c := sc.raw(testenv.URLAs(sc.via(sc.token(number).String()), user, password))
			var left string
			got := s.play(t, c, func() {
				sc.run(admin, fmt.Sprintf("SELECT fence.claim('%v', wait => '50ms', evict => true)", sc.token(number+1)))
				left = sc.run(admin, hostileFingerprint)
			})
			c.conn.Close()
			if now := sc.run(admin, hostileFingerprint); now != left {
				t.Fatalf("%v\n written after the claim: %s\n before: %s\n %q", s, now, left, got)
			}
		})
	})
}
