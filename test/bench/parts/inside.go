package parts

import (
	"fmt"
	"os/exec"
	"strings"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/test/bench/bed"
	"github.com/fenceproxy/fenceproxy/test/bench/gobench"
	"github.com/fenceproxy/fenceproxy/test/bench/results"
	"github.com/fenceproxy/fenceproxy/test/bench/scene"
)

// benchGuard is the rule itself.
func benchGuard(b *bed.Bed, s Size) (rows []results.Row, of []string, err error) {
	rounds, time := s.rounds(7), "0.3s"
	if s.Quick {
		time = "0.05s"
	}
	rows = gobench.Run(b, s.Root, gobench.Bench{Package: "./guard/...", Pattern: "Admit|Enter$", Time: time, Rounds: rounds})
	return rows, nil, nil
}

// benchMigrations is what a check of the proxy takes of the server.
func benchMigrations(b *bed.Bed, s Size) (rows []results.Row, of []string, err error) {
	rows = gobench.Run(b, s.Root, gobench.Bench{Package: "./migrations", Pattern: "BindOnly", Time: s.times(6), Rounds: s.rounds(5)})
	for _, major := range []int{15, 18} {
		db := testenv.StartPostgres(b, testenv.PostgresConfig{Major: major})
		of = append(of, scene.ServerVersion(b, db.Database(b)))
	}
	return rows, of, nil
}

// benchPostgres is a transaction with each kind of fence.
func benchPostgres(b *bed.Bed, s Size) (rows []results.Row, of []string, err error) {
	rows = gobench.Run(b, s.Root, gobench.Bench{Package: "./stores/postgres", Pattern: "InTx", Time: s.times(8), Rounds: s.rounds(5)})
	db := testenv.StartPostgres(b, testenv.PostgresConfig{})
	return rows, []string{scene.ServerVersion(b, db.Database(b)), s.module(b, "github.com/jackc/pgx/v5")}, nil
}

func (s Size) rounds(n int) int {
	if s.Quick {
		return 2
	}
	return n
}

// times is a -benchtime.
func (s Size) times(n int) string {
	if s.Quick {
		n = 1
	}
	return fmt.Sprint(n, "x")
}

// module is the version of a module that the one that is measured uses.
func (s Size) module(b *bed.Bed, path string) string {
	cmd := exec.CommandContext(b.Context(), "go", "list", "-m", "-f", "{{.Version}}", path)
	cmd.Dir = s.Root
	version, err := cmd.Output()
	b.Must(err)
	return fmt.Sprintf("%s %s", strings.TrimPrefix(path, "github.com/"), strings.TrimSpace(string(version)))
}
