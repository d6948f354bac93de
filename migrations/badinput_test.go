package migrations_test

import (
	"fmt"
	"strings"
	"testing"
)

// Bad input of every kind at every door: refused with TK006, or TK005 if there
// is nothing, and no mark is touched.
func TestBadInput(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.stage(t)
		s.protected(t)
		good := s.r.writer(33)
		bad := map[string]string{
			"trailing garbage":         good + "garbage:",
			"trailing space":           good + " ",
			"trailing newline":         good + "\n",
			"leading space":            " " + good,
			"number 0":                 "ft1:x:0:h33:i:" + s.table,
			"number negative":          "ft1:x:-1:h33:i:" + s.table,
			"number 2^63":              "ft1:x:9223372036854775808:h33:i:" + s.table,
			"number leading zero":      "ft1:x:033:h33:i:" + s.table,
			"number missing":           "ft1:x::h33:i:" + s.table,
			"lower-case encoding":      "ft1:x:33:h33:i:%c3%a9",
			"encoded unreserved":       "ft1:x:33:h33:i:%61",
			"encoding cut off":         "ft1:x:33:h33:i:a%2",
			"resource of 256 bytes":    "ft1:x:33:h33:i:" + strings.Repeat("r", 256),
			"resource with a NUL":      "ft1:x:33:h33:i:a%00",
			"resource with a control":  "ft1:x:33:h33:i:a%C2%85",
			"resource not UTF-8":       "ft1:x:33:h33:i:a%FF",
			"resource missing":         "ft1:x:33:h33:i:",
			"holder with a space":      "ft1:x:33:h 33:i:" + s.table,
			"holder too long":          "ft1:x:33:" + strings.Repeat("h", 65) + ":i:" + s.table,
			"issuer with a percent":    "ft1:x:33:h33:%69:" + s.table,
			"mode unknown":             "ft1:w:33:h33:i:" + s.table,
			"version unknown":          "ft2:x:33:h33:i:" + s.table,
			"no token at all":          "orders",
			"a quote":                  good + "'; drop table x; --",
			"one after the other":      good + " " + good,
			"SQL":                      "ft1:x:1;select 1:h:i:r",
			"format characters":        "ft1:x:33:%s%I%L:i:" + s.table,
			"very long":                good + strings.Repeat("a", 1<<20),
			"very long number":         "ft1:x:" + strings.Repeat("9", 1<<16) + ":h33:i:" + s.table,
			"many colons":              strings.Repeat(":", 1<<16),
			"many encodings":           "ft1:x:33:h33:i:" + strings.Repeat("%C3%A9", 1<<14),
			"two tokens, one resource": good + "," + good,
			"two modes, one resource":  good + "," + s.r.reader(33),
			"list with a hole":         good + ",,ft1:x:1:a:i:other",
			"list of nothing":          ",",
		}
		for name, token := range bad {
			exec(t, s.next, "select set_config('fence.token', $1, false)", token)
			for sql, args := range map[string][]any{
				"select fence.claim($1)": {token}, "select fence.check($1)": {token}, "select fence.ticket($1)": {token},
				"select fence.check()": nil, fmt.Sprintf("insert into %s values (1)", s.table): nil,
			} {
				if _, err := s.next.Exec(t.Context(), sql, args...); stateOf(err) != "TK006" {
					t.Errorf("%s: %s: %.300s, want TK006", name, sql, describe(err))
				}
			}
		}
		exec(t, s.next, "reset fence.token")
		for _, none := range []any{nil, ""} {
			fails(t, s.next, "TK005", "select fence.claim($1)", none)
			fails(t, s.next, "TK005", "select fence.check($1)", none)
		}
		fails(t, s.next, "TK006", "select fence.claim($1)", good+",ft1:x:1:a:i:other") // one claim, one token
		for token, state := range map[string]string{
			strings.Replace(good, ":i:", ":j:", 1):     "TK003",
			strings.Replace(good, ":i:", "::", 1):      "TK003",
			strings.Replace(good, ":h33:", "::", 1):    "TK002",
			strings.Replace(good, ":h33:", ":H33:", 1): "TK002",
		} {
			fails(t, s.next, state, "select fence.claim($1)", token)
			fails(t, s.next, state, "select fence.check($1)", token)
		}
		if n := query[int](t, s.next, "select count(*) from fence.marks"); n != 1 {
			t.Errorf("%d marks, want 1", n)
		}
	})
}

// Encodings and formats of the client change nothing of what is stored and
// compared.
func TestClientSettingsDoNotMatter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		s := d.stage(t)
		exec(t, s.next, "create table café (n int); select fence.protect('café', 'café')")
		for i, setting := range []string{
			"standard_conforming_strings = off", "datestyle = 'SQL, DMY'", "intervalstyle = sql_standard", "timezone = 'Asia/Kathmandu'",
			"bytea_output = escape", "extra_float_digits = -3", "lc_messages = 'C'", "quote_all_identifiers = on", "default_transaction_deferrable = on",
			"plpgsql.extra_errors = 'all'", "plpgsql.variable_conflict = use_column", "backslash_quote = on", "transform_null_equals = on",
			"enable_seqscan = off", "synchronous_commit = off", "check_function_bodies = off", "row_security = off", "xmloption = document",
		} {
			conn := d.open(t)
			exec(t, conn, "set "+setting)
			n := int64(50 + i)
			claim(t, conn, resource("café").writer(n))
			exec(t, conn, "select set_config('fence.token', $1, false)", resource("café").writer(n))
			exec(t, conn, "begin; insert into café values (1); insert into café values (2); commit; select fence.check()")
			exec(t, conn, "select set_config('fence.token', $1, false)", resource("café").writer(n-1))
			fails(t, conn, "TK001", "insert into café values (1)")
			exec(t, conn, "reset fence.token")
			fails(t, conn, "TK005", "insert into café values (1)")
			_ = conn.Close(t.Context())
		}
	})
}
