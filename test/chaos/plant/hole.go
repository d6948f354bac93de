package plant

import (
	"fmt"

	"github.com/fenceproxy/fenceproxy/test/chaos/ways"
)

// Program is what a changed source file is compiled into.
type Program int

const (
	// Nothing is compiled: the hole is in the database.
	Nothing Program = iota
	// Worker is the test program of package chaos.
	Worker
	// Proxy is the command fenceproxy.
	Proxy
)

// Hole is a check that is not there.
type Hole struct {
	// Name says what is missing.
	Name string
	// Ways are those in which it must be found.
	Ways []string
	// Invariant is the one whose violation is the proof; "" is any that costs data.
	Invariant string
	// SQL makes the hole in the database; "" if it is elsewhere.
	SQL string
	// In is the program whose source Changes change.
	In      Program
	Changes []Change
}

// Change replaces a text that is in a source file once.
type Change struct {
	// File is its path in the repository.
	File     string
	Old, New string
}

const (
	checks = "proxy/pgproxy/relay/own/statements.go"
	// noCheck has a domain whose constraint takes a lock in place of one that
	// checks; to the proxy they look alike.
	noCheck = `"present"`
)

// noWait draws another epoch at once, and ends nobody's session.
const noWait = `
	CREATE OR REPLACE FUNCTION fence.end_admissions(m fence.marks, wait interval, evict boolean, until timestamptz) RETURNS bigint
	LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
	BEGIN
	  IF fence.sequence_of(m.id) IS NULL THEN
	    EXECUTE format('CREATE SEQUENCE fence.s_%s MINVALUE 0', m.id);
	    EXECUTE format('GRANT SELECT ON SEQUENCE fence.s_%s TO PUBLIC', m.id);
	  END IF;
	  RETURN ('x' || substr(md5(random()::text), 1, 16))::bit(64)::bigint & 9223372036854775807;
	END $$;
	CREATE OR REPLACE FUNCTION fence.terminate(pid int) RETURNS boolean LANGUAGE sql RETURN true`

// slowCheck leaves, between a check and its COMMIT, the time that a claim needs.
const slowCheck = `
	CREATE OR REPLACE FUNCTION fence.check(token text, OUT seq oid, OUT epoch bigint)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
	BEGIN
	  SELECT v.seq, v.epoch INTO check.seq, check.epoch FROM fence.verify_all(token, transaction_timestamp()) v;
	  PERFORM pg_sleep(0.3 * random() ^ 2);
	END $$;`

var noCheckInStore = []Change{{
	"stores/postgres/message.go", `checkExclusive = "::pg_catalog.int8, true)"`, `checkExclusive = "::pg_catalog.int8, true) and false"`,
}}

// noRule admits every token at every key.
var noRule = []Change{{
	"stores/s3/layout/decide.go", "func (g Grant) Admits(s State) error {\n",
	"func (g Grant) Admits(s State) error {\n\tif g.Token.Number > 0 {\n\t\treturn nil\n\t}\n",
}}

// noCondition lets a PUT land on whatever is at the key.
var noCondition = []Change{{"stores/s3/cargo.go", "request.Condition(&opts, cond)", "_ = cond"}}

// noEnd lets the end of an upload do so, but for the uploads that a store tries
// first, to see whether the server honours conditions.
var noEnd = []Change{
	{"stores/s3/complete.go", "c.Complete(ctx, c.list, cond)", `c.Complete(ctx, c.list, layout.Condition{ETag: "any"})`},
	{"stores/s3/internal/parts/upload.go", "request.Condition(&opts, c)", `if c.ETag != "any" { request.Condition(&opts, c) }`},
}

// noMark grants what it is asked to, and tells nobody.
var noMark = []Change{{
	"stores/s3/claim.go", "		return o.Claim(token)\n", "		return o, false, nil\n",
}}

// Holes are one for each store and each proxy, at least.
func Holes() []Hole {
	return []Hole{
		{
			Name: "triggers that check nothing", Ways: []string{ways.Triggers},
			SQL: "CREATE OR REPLACE FUNCTION fence.guard() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
		},
		{
			Name: "constraints that check nothing", Ways: []string{ways.ProxyPgx, ways.ProxyPsql},
			SQL: "ALTER DOMAIN fence.holds_ticket DROP CONSTRAINT holds_ticket_check; ALTER DOMAIN fence.holds_ticket ADD CONSTRAINT holds_ticket_check CHECK (true)",
		},
		{
			Name: "claims that do not wait for who has been checked", Ways: []string{ways.Triggers},
			SQL: slowCheck + noWait,
		},
		{
			Name: "claims that lower the mark", Ways: []string{ways.PGStore, ways.ProxyPgx, ways.Triggers},
			SQL: "DROP TRIGGER keep ON fence.marks; CREATE OR REPLACE FUNCTION fence.judge(generation int, issuer text, writer bigint, holder text, reader bigint, mode text, number bigint, t_holder text, t_issuer text) RETURNS text LANGUAGE sql IMMUTABLE RETURN NULL::text",
		},
		{
			Name: "pgstore lean without its check", Ways: []string{ways.PGStoreLean}, In: Worker, Changes: noCheckInStore,
		},
		{
			Name: "pgstore without its check", Ways: []string{ways.PGStore}, In: Worker,
			Changes: noCheckInStore,
		},
		{
			Name: "s3store without its rule", Ways: []string{ways.S3Store}, In: Worker, Changes: noRule,
		},
		{
			Name: "s3proxy without its rule", Ways: []string{ways.S3ProxyGo}, In: Proxy, Changes: noRule,
		},
		{
			Name: "s3store whose PUT names no condition", Ways: []string{ways.S3Store}, In: Worker, Changes: noCondition,
		},
		{
			Name: "s3proxy whose PUT names no condition", Ways: []string{ways.S3ProxyGo}, In: Proxy, Changes: noCondition,
		},
		{
			Name: "s3store whose uploads end without a condition", Ways: []string{ways.S3StoreParts}, In: Worker, Changes: noEnd,
		},
		{
			Name: "s3proxy whose uploads end without a condition", Ways: []string{ways.S3ProxyParts}, In: Proxy, Changes: noEnd,
		},
		{
			Name: "s3store whose claim leaves no mark", Ways: []string{ways.S3Store}, In: Worker, Changes: noMark, Invariant: "I6",
		},
		{
			Name: "s3proxy whose claim leaves no mark", Ways: []string{ways.S3ProxyGo}, In: Proxy, Changes: noMark, Invariant: "I6",
		},
		{
			Name: "pgproxy without a check outside of blocks", Ways: []string{ways.ProxyPgx, ways.ProxyPsql}, In: Proxy,
			Changes: []Change{{checks, `[]string{"holds_token", "holds_ticket"}`, fmt.Sprintf(`[]string{"holds_token", %s}`, noCheck)}},
		},
		{
			Name: "pgproxy without a check at COMMIT", Ways: []string{ways.ProxyPgx, ways.ProxyPsql}, In: Proxy,
			Changes: []Change{{checks, `[]string{"bound_token", "holds_ticket"}`, fmt.Sprintf(`[]string{"bound_token", %s}`, noCheck)}},
		},
	}
}
