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

// noRule admits every token at every key.
var noRule = []Change{{
	"stores/s3/layout/decide.go", "func (g Grant) Admits(s State) error {\n",
	"func (g Grant) Admits(s State) error {\n\tif g.Token.Number > 0 {\n\t\treturn nil\n\t}\n",
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
			Name: "pgstore without its check", Ways: []string{ways.PGStore}, In: Worker,
			Changes: []Change{{"stores/postgres/message.go", `checkExclusive = "::pg_catalog.int8, true)"`, `checkExclusive = "::pg_catalog.int8, true) and false"`}},
		},
		{
			Name: "s3store without its rule", Ways: []string{ways.S3Store}, In: Worker, Changes: noRule,
		},
		{
			Name: "s3proxy without its rule", Ways: []string{ways.S3ProxyGo}, In: Proxy, Changes: noRule,
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
