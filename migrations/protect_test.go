package migrations_test

import (
	"slices"
	"strings"
	"testing"
)

// allWrites are the writes that the server's version knows.
func (d *database) allWrites() []statement {
	return slices.DeleteFunc(slices.Concat(writes, copies), func(w statement) bool {
		return strings.HasPrefix(w.name, "merge") && d.server.Major() < 15
	})
}

// plainRole returns a URL for a role that owns nothing but may write to all
// tables there are.
func (d *database) plainRole(t *testing.T) string {
	t.Helper()
	role, url := d.login(t, "")
	admin := d.open(t)
	exec(t, admin, "grant all on all tables in schema public to "+role)
	return url
}

// I5: psql as it comes, with the token in PGOPTIONS: a protected table takes
// writes of every kind under a current token, and none under any other.
func TestProtectedTablesByPsql(t *testing.T) {
	t.Parallel()
	tokens := map[string]struct {
		claims []string
		token  string
		state  string
	}{
		"current":                {[]string{"ft1:x:34:b:i:r"}, "ft1:x:34:b:i:r", "00000"},
		"current, among several": {[]string{"ft1:x:34:b:i:r", "ft1:x:7:a:i:q"}, "ft1:x:7:a:i:q,ft1:x:34:b:i:r", "00000"},
		"stale":                  {[]string{"ft1:x:33:a:i:r", "ft1:x:34:b:i:r"}, "ft1:x:33:a:i:r", "TK001"},
		"duplicate":              {[]string{"ft1:x:34:b:i:r"}, "ft1:x:34:c:i:r", "TK002"},
		"foreign":                {[]string{"ft1:x:34:b:i:r"}, "ft1:x:35:b:j:r", "TK003"},
		"unclaimed":              {[]string{"ft1:x:34:b:i:r"}, "ft1:x:35:b:i:r", "TK004"},
		"nobody claimed":         {nil, "ft1:x:34:b:i:r", "TK004"},
		"none":                   {[]string{"ft1:x:34:b:i:r"}, "", "TK005"},
		"for another resource":   {[]string{"ft1:x:34:b:i:r", "ft1:x:7:a:i:q"}, "ft1:x:7:a:i:q", "TK005"},
		"malformed":              {[]string{"ft1:x:34:b:i:r"}, "ft1:x:034:b:i:r", "TK006"},
		"one of two malformed":   {[]string{"ft1:x:34:b:i:r"}, "ft1:x:34:b:i:r,", "TK006"},
		"shared":                 {[]string{"ft1:s:34:b:i:r"}, "ft1:s:34:b:i:r", "TK008"},
		"shared, stale":          {[]string{"ft1:s:33:a:i:r", "ft1:x:34:b:i:r"}, "ft1:s:33:a:i:r", "TK001"},
	}
	for name, c := range tokens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, d *database) {
				d.protectWrites(t, "r")
				conn := d.open(t)
				for _, token := range c.claims {
					claim(t, conn, token)
				}
				got := states(t, d.plainRole(t), c.token, "")
				for _, w := range d.allWrites() {
					if got[w.name] != c.state {
						t.Errorf("%s: SQLSTATE %s, want %s", w.name, got[w.name], c.state)
					}
				}
			})
		})
	}
}

// Triggers are always enabled: a replica's session is no way past them.
func TestProtectedFromReplicaRole(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		d.protectWrites(t, "r")
		conn := d.open(t)
		claim(t, conn, resource("r").writer(34))
		got := states(t, d.url, resource("r").writer(33), "set session_replication_role = replica;\n")
		hidden := map[string]bool{} // what would write on behalf of another table does not fire either
		for _, name := range []string{
			"rule", "trigger of another table", "deferred trigger of another table",
			"foreign key, delete cascade", "foreign key, update cascade", "foreign key, set null",
		} {
			hidden[name] = true
		}
		for _, w := range d.allWrites() {
			if want := map[bool]string{true: "00000", false: "TK001"}[hidden[w.name]]; got[w.name] != want {
				t.Errorf("%s: SQLSTATE %s, want %s", w.name, got[w.name], want)
			}
		}
	})
}
