package sqltext

import (
	"slices"
	"strings"
	"testing"
)

func cut(text string, d Dialect) []string {
	var out []string
	for s := range Statements(text, d) {
		out = append(out, s.Text)
	}
	return out
}

func TestStatements(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"blanks, comments and semicolons", " ;; -- a;b\n /* c; */ ;\t", nil},
		{"one", " select 1 ", []string{"select 1"}},
		{"trailing comment is not part", "select 1 -- x", []string{"select 1"}},
		{"two", "a;b", []string{"a", "b"}},
		{"quote", "select ';'; b", []string{"select ';'", "b"}},
		{"doubled quote", "select 'a'';b'; c", []string{"select 'a'';b'", "c"}},
		{"backslash is a character", `select '\'; b --'`, []string{`select '\'`, "b"}},
		{"escape string", `select e'\';'; b`, []string{`select e'\';'`, "b"}},
		{"escape string, doubled", `select E'a'';'; b`, []string{`select E'a'';'`, "b"}},
		{"escape string goes on after a newline", "select E'a'\n'\\';'; b", []string{"select E'a'\n'\\';'", "b"}},
		{"and after a comment to the end of line", "select E'a' --x\n --y\n '\\';'; b", []string{"select E'a' --x\n --y\n '\\';'", "b"}},
		{"but not on the same line", `select E'a' '\'; b`, []string{`select E'a' '\'`, "b"}},
		{"nor after a block comment", "select E'a' /*\n*/ '\\'; b", []string{"select E'a' /*\n*/ '\\'", "b"}},
		{"prefix is one letter", `select ae'\'; b`, []string{`select ae'\'`, "b"}},
		{"bit string", `select b'\'; b`, []string{`select b'\'`, "b"}},
		{"unicode string", `select U&'\'; b`, []string{`select U&'\'`, "b"}},
		{"quoted word", `select "a;""b;"; c`, []string{`select "a;""b;"`, "c"}},
		{"dollar", "select $$;'$$; b", []string{"select $$;'$$", "b"}},
		{"dollar with a tag", "select $a$;$$;$b$;$a$; b", []string{"select $a$;$$;$b$;$a$", "b"}},
		{"dollar in a word", "select a$$; b$$", []string{"select a$$", "b$$"}},
		{"dollar after a number", "select 1$$;$$; b", []string{"select 1$$;$$", "b"}},
		{"parameter", "select $1$$;$$; b", []string{"select $1$$;$$", "b"}},
		{"lone dollar", "select $ ; b", []string{"select $", "b"}},
		{"comments nest", "a /* /* ; */ ; */; b", []string{"a", "b"}},
		{"comment in an operator", "select 1 +/*;*/ 2; b", []string{"select 1 +/*;*/ 2", "b"}},
		{"slash star slash is open", "a /*/ ; b", []string{"a"}},
		{"open quote", "a ' ; b", []string{"a ' ; b"}},
		{
			"rule", "create rule r as on insert to t do also (insert into u values (1); delete from v); b",
			[]string{"create rule r as on insert to t do also (insert into u values (1); delete from v)", "b"},
		},
		{
			"routine body", "create function f() returns int begin atomic select case when true then 1 end; select 2; end; commit",
			[]string{"create function f() returns int begin atomic select case when true then 1 end; select 2; end", "commit"},
		},
		{
			"empty routine body", "create or replace procedure p() begin atomic end; commit",
			[]string{"create or replace procedure p() begin atomic end", "commit"},
		},
		{
			"label that is a keyword", "create procedure p() begin atomic select 1 case; end; commit",
			[]string{"create procedure p() begin atomic select 1 case; end", "commit"},
		},
		{
			"label that is the end", "create procedure p() begin atomic select 1 end; select 1 as end; end; commit",
			[]string{"create procedure p() begin atomic select 1 end; select 1 as end; end", "commit"},
		},
		{
			"default that is named begin", "create function f(a int default begin()) returns int language sql as 'x'; commit",
			[]string{"create function f(a int default begin()) returns int language sql as 'x'", "commit"},
		},
		{"begin is no body elsewhere", "begin; atomic; end", []string{"begin", "atomic", "end"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := cut(c.text, Dialect{}); !slices.Equal(got, c.want) {
				t.Errorf("%q cut to %q, want %q", c.text, got, c.want)
			}
		})
	}
}

func TestBackslashQuotes(t *testing.T) {
	t.Parallel()
	text := `select '\'; commit --'`
	if got, want := cut(text, Dialect{}), []string{`select '\'`, "commit"}; !slices.Equal(got, want) {
		t.Errorf("standard strings: %q, want %q", got, want)
	}
	if got := cut(text, Dialect{BackslashQuotes: true}); len(got) != 1 {
		t.Errorf("backslash strings: %q, want one statement", got)
	}
	if got, want := cut(`select b'\'; x`, Dialect{BackslashQuotes: true}), []string{`select b'\'`, "x"}; !slices.Equal(got, want) {
		t.Errorf("a bit string has no escapes: %q, want %q", got, want)
	}
}

func TestEndsTransaction(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"commit": true, "COMMIT WORK": true, "Commit and chain": true, "commit prepared 'x'": true,
		"end": true, "end transaction": true, "abort": true, "/* a */ abort work": true, "-- a\ncommit": true,
		"rollback": true, "rollback work": true, "rollback transaction and chain": true, "rollback prepared 'x'": true,
		"prepare transaction 'x'": true, ";; commit": true,
		"rollback to a": false, "rollback work to savepoint a": false, "ROLLBACK /*x*/ TRANSACTION TO a": false,
		"savepoint a": false, "release a": false, "prepare transaction_ as select 1": false, "prepare p as select 1": false,
		`"commit"`: false, "'commit'": false, "commits": false, "select commit": false, "begin": false, "": false,
		"committed": false, "rollbac\u212a": false,
	} {
		s := First(text, Dialect{})
		if got := s.EndsTransaction(); got != want {
			t.Errorf("First(%q).EndsTransaction() = %v, want %v", text, got, want)
		}
		for s := range Statements(text, Dialect{}) {
			if got := s.EndsTransaction(); got != want {
				t.Errorf("Statements(%q): EndsTransaction() = %v, want %v", text, got, want)
			}
		}
	}
}

func TestVerbs(t *testing.T) {
	t.Parallel()
	start, begin, discard := First("start transaction", Dialect{}), First("Begin isolation level serializable", Dialect{}), First("discard all", Dialect{})
	if !start.BeginsTransaction() || !begin.BeginsTransaction() || discard.BeginsTransaction() {
		t.Error("BeginsTransaction")
	}
	if !discard.Forgets() || begin.Forgets() {
		t.Error("Forgets")
	}
	if begin.Verb() != "BEGIN" {
		t.Errorf("Verb() = %q", begin.Verb())
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"begin": false, "begin -- x": true, "begin -- x\n": false, "begin /* x": true, "begin 'x": true, "begin \"x": true, "$a$ x $b$": true, "e'\\'": true,
	} {
		if got := Open(text, Dialect{}); got != want {
			t.Errorf("Open(%q) = %v, want %v", text, got, want)
		}
	}
}

// FuzzStatements: whatever the text, tokens come in order and cover all but
// blanks and comments, and a statement put behind a text that is whole is cut
// off from it.
func FuzzStatements(f *testing.F) {
	for _, seed := range []string{
		"select 1; commit", "e'\\'';", "$a$;$a$", "/* /* */ */ -- \n", "U&\"x\"", "create function f() begin atomic select 1; end", "'a'\n'b'", "((;)", "x'", "1$a$;$a$",
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, text string, backslash bool) {
		d := Dialect{BackslashQuotes: backslash}
		scanner := NewScanner(text, d)
		depth, at, body := 0, 0, false
		for token := scanner.Next(); token.Kind != End; token = scanner.Next() {
			if token.Start < at || token.Stop <= token.Start || token.Stop > len(text) {
				t.Fatalf("token %+v after byte %d of %q", token, at, text)
			}
			at = token.Stop
			switch word := text[token.Start:token.Stop]; {
			case word == "(":
				depth++
			case word == ")":
				depth = max(0, depth-1)
			case strings.EqualFold(word, "atomic"):
				body = true
			}
		}
		if scanner.Open() || depth > 0 || body {
			return
		}
		all := cut(text+"\n;commit", d)
		if len(all) == 0 || all[len(all)-1] != "commit" {
			t.Fatalf("commit behind %q is not seen: %q", text, all)
		}
		if before := cut(text, d); !slices.Equal(before, all[:len(all)-1]) {
			t.Fatalf("%q cut to %q, with a commit behind it to %q", text, before, all)
		}
	})
}

func BenchmarkFirst(b *testing.B) {
	for b.Loop() {
		s := First("update accounts set balance = balance + $1 where id = $2", Dialect{})
		if s.EndsTransaction() {
			b.Fatal("update")
		}
	}
}

func TestStatementKinds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ command, imports bool }{
		"select 1":                             {command: true},
		"/* c */ WITH x AS (SELECT 1) TABLE x": {command: true},
		"(select 1)":                           {command: true},
		"":                                     {command: true},
		"finish":                               {},
		"commit_and_chain":                     {},
		"selectx 1":                            {},
		"set transaction snapshot 'x'":         {command: true, imports: true},
		"SET LOCAL TRANSACTION /**/ SNAPSHOT 'x'":   {command: true, imports: true},
		"set session transaction snapshot 'x'":      {command: true, imports: true},
		"set transaction isolation level read only": {command: true},
	} {
		s := First(text, Dialect{})
		if s.IsCommand() != want.command || s.ImportsSnapshot() != want.imports {
			t.Errorf("%q: command %v, imports %v", text, s.IsCommand(), s.ImportsSnapshot())
		}
	}
}
