package scene

import (
	"context"
	"os/exec"
	"runtime/debug"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/test/bench/bed"
)

// Says is what a program answers to be asked for its version: its first words.
func Says(b *bed.Bed, words int, flag string, paths ...string) string {
	out, err := exec.Command(testenv.Program(b, paths...), flag).CombinedOutput()
	b.Must(err)
	said := strings.Fields(string(out))
	return strings.Join(said[:min(words, len(said))], " ")
}

// PgBouncerVersion is "PgBouncer 1.18.0".
func PgBouncerVersion(b *bed.Bed) string {
	return Says(b, 2, "--version", "pgbouncer", "/usr/sbin/pgbouncer")
}

// NginxVersion is "nginx 1.22.1".
func NginxVersion(b *bed.Bed) string {
	said := strings.Fields(Says(b, 3, "-v", testenv.NginxProgram(b)))
	return strings.ReplaceAll(said[len(said)-1], "/", " ")
}

// Module is the version of a module that this program is built of: "pgx v5.12.0".
func Module(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return path
	}
	for _, dep := range info.Deps {
		if dep.Path == path {
			return strings.TrimPrefix(path, "github.com/") + " " + dep.Version
		}
	}
	return path
}

// ServerVersion is "PostgreSQL 15.4".
func ServerVersion(b *bed.Bed, databaseURL string) string {
	conn, err := pgx.Connect(b.Context(), databaseURL)
	b.Must(err)
	defer func() { _ = conn.Close(context.Background()) }()
	var version string
	b.Must(conn.QueryRow(b.Context(), "select split_part(current_setting('server_version'), ' ', 1)").Scan(&version))
	return "PostgreSQL " + version
}
