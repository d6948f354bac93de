package clients_test

import (
	"path/filepath"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// TestReaders has clients without a token that only read: they see what they
// see directly.
func TestReaders(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, s *testenv.PostgresServer) {
		t.Parallel()
		through := newWorld(t, s, untokened)
		straight := *through
		straight.addr = s.Addr()
		args := []string{"-X", "-a", "-f", "testdata/read.sql"}
		want, err := straight.run(t, debian(t, "psql"), args...)
		if err != nil {
			t.Fatalf("psql: %v\n%s", err, want)
		}
		got, err := through.run(t, debian(t, "psql"), args...)
		if err != nil {
			t.Errorf("psql: %v", err)
		}
		same(t, "what psql says", want, got)
		if s.Major() > 15 {
			return // pg_dump is of version 15
		}
		for _, w := range []*world{&straight, through} {
			if said, err := w.run(t, debian(t, "pg_dump"), "-Fd", "-j2", "-f", filepath.Join(t.TempDir(), "dump")); err != nil || said != "" {
				t.Errorf("pg_dump by %s: %v\n%s", w.addr, err, said)
			}
		}
	})
}
