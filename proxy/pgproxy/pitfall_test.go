package pgproxy

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// The tests in pitfall_*_test.go are of what other proxies of Postgres have got
// wrong, with the number of the bug where it is public. docs/guarantees.md has
// the list.

// word is a message of the server's in a word that has all that it says, but for
// what differs each time.
func word(m pgproto3.BackendMessage) string {
	switch m := m.(type) {
	case *pgproto3.ErrorResponse:
		return fmt.Sprintf("E:%s:%s:%s:%d", m.Severity, m.Code, m.Message, m.Position)
	case *pgproto3.NoticeResponse:
		return fmt.Sprintf("N:%s:%s", m.Code, m.Message)
	case *pgproto3.NotificationResponse:
		return fmt.Sprintf("A:%s=%s", m.Channel, m.Payload)
	case *pgproto3.ParameterStatus:
		return fmt.Sprintf("S:%s=%s", m.Name, m.Value)
	case *pgproto3.CommandComplete:
		return "C:" + string(m.CommandTag)
	case *pgproto3.ReadyForQuery:
		return "Z:" + string(m.TxStatus)
	case *pgproto3.DataRow:
		return fmt.Sprintf("D:%q", m.Values)
	case *pgproto3.CopyData:
		return fmt.Sprintf("d:%q", m.Data)
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", m), "*pgproto3.")
}

// say sends messages at once.
func (c *raw) say(t *testing.T, messages ...pgproto3.FrontendMessage) {
	t.Helper()
	_ = c.conn.SetDeadline(time.Now().Add(testLimit))
	var b []byte
	for _, m := range messages {
		b, _ = m.Encode(b)
	}
	if _, err := c.conn.Write(b); err != nil {
		t.Fatal(err)
	}
}

// hear reads up to the n-th message whose word begins with last, and returns the
// words, the end of the connection among them.
func (c *raw) hear(n int, last string) (words []string) {
	_ = c.conn.SetDeadline(time.Now().Add(testLimit))
	for n > 0 {
		m, err := c.Receive()
		if err != nil {
			return append(words, "connection: "+err.Error())
		}
		words = append(words, word(m))
		if strings.HasPrefix(words[len(words)-1], last) {
			n--
		}
	}
	return words
}

// replay sends the steps, each when the one before it has been answered, and
// returns all that comes back.
func (c *raw) replay(t *testing.T, steps ...step) (words []string) {
	t.Helper()
	for _, s := range steps {
		c.say(t, s...)
		words = append(words, c.hear(boundaries(s), "Z:")...)
	}
	return words
}

// boundaries is how many times the server will be ready after those messages, if
// it neither copies in nor ends the session.
func boundaries(s step) (n int) {
	for _, m := range s {
		switch m.(type) {
		case *pgproto3.Query, *pgproto3.FunctionCall, *pgproto3.Sync:
			n++
		}
	}
	return n
}

func wantWords(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s\n   got %q\n  want %q", what, got, want)
	}
}

// alike plays each script with a current token and without the proxy, and wants
// the same to be said and to be written.
func (sc *scene) alike(token string, scripts map[string][]step) {
	sc.t.Helper()
	admin := sc.admin()
	for name, steps := range scripts {
		var said [2][]string
		var left [2]string
		for i, dsn := range []string{sc.url, sc.via(token)} {
			c := sc.raw(dsn)
			said[i] = c.replay(sc.t, steps...)
			c.conn.Close()
			left[i] = sc.run(admin, "SELECT string_agg(id || coalesce(v, ''), ',' ORDER BY id) FROM t")
			sc.run(admin, "TRUNCATE t")
		}
		wantWords(sc.t, name, said[1], said[0])
		if left[0] != left[1] {
			sc.t.Errorf("%s: %q is written, and without the proxy %q", name, left[1], left[0])
		}
	}
}

// eachScene runs f with a fenced database of each version, and a proxy.
func eachScene(t *testing.T, c Config, f func(t *testing.T, sc *scene)) {
	t.Helper()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		f(t, newScene(t, s, c))
	})
}

// TestTrapsAreShown: the tests that docs/guarantees.md names for each trap exist.
func TestTrapsAreShown(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n### Known traps of Postgres proxies\n")
	section, _, ended := strings.Cut(section, "\n### ")
	if !found || !ended {
		t.Fatal("there is no such section")
	}
	tests := map[string]bool{}
	definition := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, dir := range []string{".", "../../test/clients"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, m := range definition.FindAllSubmatch(source, -1) {
				tests[string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(section, -1)
	if len(named) < 50 {
		t.Errorf("only %d tests are named", len(named))
	}
	for _, m := range named {
		if !tests[m[1]] {
			t.Errorf("there is no %s", m[1])
		}
	}
}
