package marks

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

const highest = "9223372036854775807"

func TestMarks(t *testing.T) {
	t.Parallel()
	url := clitest.Install(t, testenv.Postgres(t))
	marks := func(args ...string) []string { return append(append([]string{"marks"}, args...), "--postgres", url) }

	o := clitest.Run(t, marks("list")...).Want(t, cli.ExitOK)
	if o.Out != "RESOURCE  GENERATION  ISSUER  WRITER  HOLDER  READER  SINCE\n" {
		t.Errorf("list of nothing:\n%s", o.Out)
	}
	if o := clitest.Run(t, marks("list", "--json")...).Want(t, cli.ExitOK); o.Out != `{"marks":[]}`+"\n" {
		t.Errorf("list of nothing as JSON: %s", o.Out)
	}
	clitest.Run(t, marks("show", "orders")...).Want(t, cli.ExitNotFound, `nobody has ever claimed "orders"`, "marks list")

	clitest.Execute(t, url,
		"SELECT fence.claim('ft1:x:34:9f8c:k3v9:orders')",
		"SELECT fence.claim('ft1:s:35:aaaa:k3v9:orders')",
		"SELECT fence.claim('ft1:x:"+highest+":::a%20b')")
	o = clitest.Run(t, marks("list")...).Want(t, cli.ExitOK)
	lines := strings.Split(o.Out, "\n")
	if len(lines) != 4 {
		t.Fatalf("list:\n%s", o.Out)
	}
	if f := strings.Fields(lines[2]); f[0] != "orders" || f[1] != "0" || f[2] != "k3v9" || f[3] != "34" || f[4] != "9f8c" || f[5] != "35" {
		t.Errorf("line of orders: %q", lines[2])
	}
	if !strings.Contains(lines[1], `""`) || strings.Index(lines[0], "ISSUER") != strings.Index(lines[1], `""`) {
		t.Errorf("empty issuer is not shown, or columns are not aligned:\n%s", o.Out)
	}

	var list struct {
		Marks []struct {
			Resource   string    `json:"resource"`
			Generation int       `json:"generation"`
			Issuer     string    `json:"issuer"`
			Writer     string    `json:"writer"`
			Holder     string    `json:"holder"`
			Reader     string    `json:"reader"`
			Since      time.Time `json:"since"`
		} `json:"marks"`
	}
	clitest.Decode(t, clitest.Run(t, marks("list", "--json")...).Want(t, cli.ExitOK).Out, &list)
	if len(list.Marks) != 2 || list.Marks[0].Writer != highest || list.Marks[0].Resource != "a b" || list.Marks[1].Reader != "35" {
		t.Errorf("list as JSON: %+v", list)
	}
	if age := time.Since(list.Marks[1].Since); age < -time.Minute || age > time.Hour {
		t.Errorf("since is %v ago", age)
	}

	o = clitest.Run(t, "__complete", "marks", "show", "--postgres", url, "").Want(t, cli.ExitOK)
	if !strings.Contains(o.Out, "orders\n") {
		t.Errorf("resources are not completed:\n%s", o.Out)
	}
}

// resourceDocument is the documented JSON of marks show and marks adopt.
type resourceDocument struct {
	Mark     mark `json:"mark"`
	Blockers []struct {
		PID       *int       `json:"pid"`
		GID       *string    `json:"gid"`
		User      *string    `json:"user"`
		State     *string    `json:"state"`
		Since     *time.Time `json:"since"`
		Evictable bool       `json:"evictable"`
	} `json:"blockers"`
	Adoptions []adoption `json:"adoptions"`
}

// Whoever would make a claim wait is named.
func TestMarksShowBlockers(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	url := clitest.Install(t, s)
	const token = "ft1:x:34:9f8c:k3v9:orders"
	clitest.Execute(t, url, "SELECT fence.claim('"+token+"')")
	name, password := s.Role(t, "LOGIN")
	clitest.Run(t, "migrate", "up", "--postgres", url, "--grant", name).Want(t, cli.ExitOK)
	conn, err := pgx.Connect(t.Context(), testenv.URLAs(url, name, password))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT fence.check('"+token+"')"); err != nil {
		t.Fatal(err)
	}

	var r resourceDocument
	clitest.Decode(t, clitest.Run(t, "marks", "show", "orders", "--json", "--postgres", url).Want(t, cli.ExitOK).Out, &r)
	if len(r.Blockers) != 1 {
		t.Fatalf("blockers: %+v", r.Blockers)
	}
	b := r.Blockers[0]
	if b.PID == nil || *b.PID != int(conn.PgConn().PID()) || b.GID != nil || b.User == nil || *b.User != name || !b.Evictable {
		t.Errorf("blocker: %+v", b)
	}
	o := clitest.Run(t, "marks", "show", "orders", "--postgres", url).Want(t, cli.ExitOK)
	for _, want := range []string{"writer    34, holder 9f8c", "A claim would have to wait for:", strconv.Itoa(*b.PID), name, "idle in transaction", "yes"} {
		if !strings.Contains(o.Out, want) {
			t.Errorf("show has no %q:\n%s", want, o.Out)
		}
	}

	adopt := []string{"marks", "adopt", "orders", "--issuer", "n7", "--claim-wait", "100ms", "--yes", "--postgres", url}
	o = clitest.Run(t, adopt...)
	if o.Code != cli.ExitFailure || !strings.Contains(o.Err, strconv.Itoa(*b.PID)) {
		t.Errorf("adopt behind an open transaction: %d\n%s", o.Code, o.Err)
	}
	o = clitest.Run(t, append(adopt, "--evict")...)
	if o.Code != cli.ExitOK {
		t.Errorf("adopt --evict: %d\n%s", o.Code, o.Err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("the blocker still runs after --evict")
	}
}

// A prepared transaction has no process that could be ended: it is named (I4).
func TestMarksShowPrepared(t *testing.T) {
	t.Parallel()
	url := clitest.Install(t, testenv.Postgres(t))
	const token = "ft1:x:34:9f8c:k3v9:orders"
	clitest.Execute(t, url, "SELECT fence.claim('"+token+"')",
		"BEGIN", "SELECT fence.check('"+token+"')", "CREATE TABLE left_open ()", "PREPARE TRANSACTION 'left open'")
	defer clitest.Execute(t, url, "ROLLBACK PREPARED 'left open'")
	o := clitest.Run(t, "marks", "show", "orders", "--postgres", url).Want(t, cli.ExitOK)
	if !strings.Contains(o.Out, `prepared "left open"`) || !strings.Contains(o.Out, "no\n") {
		t.Errorf("show does not name the prepared transaction:\n%s", o.Out)
	}
	adopt := clitest.Run(t, "marks", "adopt", "orders", "--issuer", "n7", "--wait", "100ms", "--yes", "--postgres", url)
	if adopt.Code != cli.ExitFailure || !strings.Contains(adopt.Err, "left open") {
		t.Errorf("adopt does not name the prepared transaction: %d\n%s", adopt.Code, adopt.Err)
	}
}

func TestMarksAdopt(t *testing.T) {
	t.Parallel()
	url := clitest.Install(t, testenv.Postgres(t))
	clitest.Execute(t, url, "SELECT fence.claim('ft1:x:34:9f8c:k3v9:orders')")
	adopt := []string{"marks", "adopt", "orders", "--issuer", "n7", "--postgres", url}

	clitest.Run(t, adopt...).Want(t, cli.ExitUsage, "nobody can confirm this", "give --yes")
	no := clitest.Invocation{Args: adopt, Terminal: true, In: "n\n"}.Run(t.Context())
	if no.Code != cli.ExitFailure || !strings.Contains(no.Err, `"orders" is about to go from issuer k3v9 (writer 34, reader 0) to issuer n7.`) {
		t.Errorf("answered no: %d\n%s", no.Code, no.Err)
	}
	var r resourceDocument
	clitest.Decode(t, clitest.Run(t, "marks", "show", "orders", "--json", "--postgres", url).Want(t, cli.ExitOK).Out, &r)
	if r.Mark.Issuer != "k3v9" || r.Mark.Generation != 0 || len(r.Adoptions) != 0 {
		t.Fatalf("changed without confirmation: %+v", r)
	}

	yes := clitest.Invocation{Args: adopt, Terminal: true, In: "yes\n"}.Run(t.Context())
	if yes.Code != cli.ExitOK || !strings.Contains(yes.Out, "issuer n7, generation 1") || !strings.Contains(yes.Err, "cannot be undone") {
		t.Errorf("answered yes: %d\n%s%s", yes.Code, yes.Out, yes.Err)
	}
	clitest.Decode(t, clitest.Run(t, "marks", "adopt", "orders", "--issuer", "n8", "--yes", "--json", "--postgres", url).Want(t, cli.ExitOK).Out, &r)
	if r.Mark.Issuer != "n8" || r.Mark.Generation != 2 || r.Mark.Writer != 0 {
		t.Errorf("mark after: %+v", r.Mark)
	}
	// The log is in the database: who, when, and what the mark was.
	if len(r.Adoptions) != 2 || r.Adoptions[0].IssuerBefore != "k3v9" || r.Adoptions[0].Writer != 34 || r.Adoptions[0].By == "" || r.Adoptions[1].Issuer != "n8" {
		t.Errorf("adoptions: %+v", r.Adoptions)
	}
	o := clitest.Run(t, "marks", "show", "orders", "--postgres", url).Want(t, cli.ExitOK)
	if !strings.Contains(o.Out, "Adoptions") || !strings.Contains(o.Out, "k3v9") {
		t.Errorf("show does not tell of the adoption:\n%s", o.Out)
	}

	// A -> B -> A would make A's old tokens current again.
	o = clitest.Run(t, append(adopt[:3:3], "--issuer", "k3v9", "--yes", "--postgres", url)...)
	if o.Code != cli.ExitFailure || !strings.Contains(o.Err, `issuer "k3v9" has been the issuer of "orders" before`) {
		t.Errorf("back to the first issuer: %d\n%s", o.Code, o.Err)
	}
	// Nobody has claimed it: an operator may still say who will.
	o = clitest.Run(t, "marks", "adopt", "new", "--issuer", "n7", "--yes", "--postgres", url)
	if o.Code != cli.ExitOK || !strings.Contains(o.Err, "nobody has claimed it so far") {
		t.Errorf("adopt of an unclaimed resource: %d\n%s", o.Code, o.Err)
	}
}

// Who looks at marks, or hands one over, runs nothing that others have put into
// his search_path.
func TestMarksTrustNoPath(t *testing.T) {
	t.Parallel()
	url := clitest.Install(t, testenv.Postgres(t))
	clitest.Execute(t, url, "SELECT fence.claim('ft1:x:34:9f8c:k3v9:orders')")
	clitest.LayTraps(t, url)
	for _, args := range [][]string{{"list"}, {"show", "orders"}, {"adopt", "orders", "--issuer", "n7", "--yes"}, {"adopt", "new", "--issuer", "n7", "--yes"}} {
		clitest.Run(t, append(append([]string{"marks"}, args...), "--postgres", url)...).Want(t, cli.ExitOK)
	}
}

// A superuser calls nothing in a schema of that name that an ordinary role has
// made, also in one that is a trap.
func TestMarksOfAStrangersSchema(t *testing.T) {
	t.Parallel()
	s := testenv.Postgres(t)
	url := s.Database(t)
	name, password := s.Role(t, "LOGIN")
	clitest.Execute(t, url, "DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO "+name+"', current_database()); END $$")
	clitest.Execute(t, testenv.URLAs(url, name, password), "CREATE SCHEMA fence", `CREATE FUNCTION fence.version() RETURNS int LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'they have got the rights of %', session_user; END $$`)
	for _, args := range [][]string{{"marks", "list"}, {"marks", "adopt", "orders", "--issuer", "n7", "--yes"}, {"migrate", "status"}, {"migrate", "down", "--yes"}, {"migrate", "up"}} {
		o := clitest.Invocation{Args: append(args, "--postgres", url)}.Run(t.Context())
		if o.Code == cli.ExitOK || !strings.Contains(o.Err, "belongs to "+name) || strings.Contains(o.Err, "they have got") {
			t.Errorf("%s: exit %d, %s", args, o.Code, o.Err)
		}
	}
}
