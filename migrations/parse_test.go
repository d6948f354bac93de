package migrations_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/guardtest"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/migrations"
)

// read is what SQL reads in texts: for each the fields of its tokens, or nil
// if SQL calls it malformed.
func read(ctx context.Context, conn *pgx.Conn, texts []string) ([][]guard.Token, error) {
	const attempt = `
		create or replace function pg_temp.attempt(list text, out fields text[]) language plpgsql as $$
		begin
			select array_agg(format('%s:%s:%s:%s:%s', p.mode, p.number, p.holder, p.issuer, p.resource) order by n) into fields
			  from fence.tokens(list) with ordinality as t(token, resource, n), fence.parse(t.token) p;
		exception when sqlstate 'TK006' then
			fields := null;
		end $$`
	if _, err := conn.Exec(ctx, attempt); err != nil {
		return nil, err
	}
	rows, err := conn.Query(ctx, "select a.fields from unnest($1::text[]) with ordinality as t(list, n), pg_temp.attempt(t.list) a order by n", texts)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]guard.Token, error) {
		var fields []string
		if err := row.Scan(&fields); err != nil {
			return nil, err
		}
		var tokens []guard.Token
		for _, field := range fields {
			f := strings.SplitN(field, ":", 5)
			token := guard.Token{Mode: guard.Mode(f[0][0]), Holder: f[2], Issuer: f[3], Resource: f[4]}
			if _, err := fmt.Sscan(f[1], &token.Number); err != nil {
				return nil, err
			}
			tokens = append(tokens, token)
		}
		return tokens, nil
	})
}

// sameVerdict compares what SQL and Go read in texts.
func sameVerdict(ctx context.Context, conn *pgx.Conn, texts []string) error {
	got, err := read(ctx, conn, texts)
	if err != nil {
		return err
	}
	for i, text := range texts {
		want, err := guard.ParseList(text)
		if (got[i] == nil) != (err != nil) {
			return fmt.Errorf("%q: SQL reads %+v, Go %+v, %w", text, got[i], want, err)
		}
		if err == nil && fmt.Sprint(got[i]) != fmt.Sprint(want) {
			return fmt.Errorf("%q: SQL reads %+v, Go %+v", text, got[i], want)
		}
	}
	return nil
}

func TestParseGolden(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		conn := d.open(t)
		rows := guardtest.Texts()
		texts := make([]string, len(rows))
		for i, row := range rows {
			texts[i] = row.Text
		}
		got, err := read(t.Context(), conn, texts)
		if err != nil {
			t.Fatal(describe(err))
		}
		for i, row := range rows {
			if fmt.Sprint(got[i]) != fmt.Sprint(row.Tokens) {
				t.Errorf("%s: SQL reads %+v, want %+v", row.Name, got[i], row.Tokens)
			}
		}
	})
}

// spoiled returns a valid text with a few random faults, or none.
func spoiled(rnd *rand.Rand) string {
	pieces := []string{
		":", ",", "%", "%25", "%2", "%2f", "%2F", "%00", "%C3", "%A9", "%C3%A9", "%ED%A0%80", "%F0%9F%94%92", "%F4%90%80%80", "%C2%80", "%C2%A0",
		"%41", "%7E", "%7F", "%0A", "0", "9", "-", "_", ".", "/", "~", "+", " ", "é", "\n", "x", "s", "ft1", "9223372036854775808", "\u0080", "\\", "'",
	}
	runes := make([]rune, 1+rnd.IntN(6))
	for i := range runes {
		runes[i] = rune(rnd.IntN(0x11000))
	}
	name := strings.ToValidUTF8(string(runes), "?")
	text := guard.Token{
		Resource: name, Number: rnd.Int64()>>rnd.IntN(63) | 1, Mode: guard.Mode("xs"[rnd.IntN(2)]),
		Holder: "h"[:rnd.IntN(2)], Issuer: "i"[:rnd.IntN(2)],
	}.String()
	for range rnd.IntN(3) {
		at := rnd.IntN(len(text) + 1)
		until := min(len(text), at+rnd.IntN(3))
		text = text[:at] + pieces[rnd.IntN(len(pieces))] + text[until:]
	}
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")
}

func TestParseRandom(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *database) {
		conn := d.open(t)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(seed, 0))
		texts := make([]string, 4000)
		valid := 0
		for i := range texts {
			texts[i] = spoiled(rnd)
			if _, err := guard.ParseList(texts[i]); err == nil {
				valid++
			}
		}
		if valid < len(texts)/10 || valid > len(texts)*9/10 {
			t.Errorf("%d of %d texts are valid: too one-sided to tell anything", valid, len(texts))
		}
		if err := sameVerdict(t.Context(), conn, texts); err != nil {
			t.Error(err)
		}
	})
}

// Run it for longer with go test -fuzz FuzzParse ./migrations.
func FuzzParse(f *testing.F) {
	for _, row := range guardtest.Texts() {
		f.Add(row.Text)
	}
	s := testenv.Postgres(f)
	url := s.Database(f)
	if err := migrations.Up(f.Context(), url, migrations.Config{}); err != nil {
		f.Fatal(err)
	}
	conn, err := pgx.Connect(f.Context(), url)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { conn.Close(context.Background()) })
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return // no client can send it
		}
		if err := sameVerdict(t.Context(), conn, []string{text}); err != nil {
			t.Error(err)
		}
	})
}
