package gauge

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/soak/trend"
)

// tables are what claims and writes leave dead rows in.
var tables = []string{"fence.marks", "pg_class", "pg_sequence", "pg_attribute", "pg_depend", "pg_shdepend", "work"}

// Postgres is a database with the fence and load.Table.
type Postgres struct {
	// Conn is a superuser's, and used by nobody else.
	Conn *pgx.Conn
}

// Metrics are those of its tables and of the whole.
func (Postgres) Metrics() []trend.Metric {
	var metrics []trend.Metric
	for _, t := range tables {
		metrics = append(metrics,
			trend.Metric{Name: t + " bytes", Noise: noiseSize},
			trend.Metric{Name: t + " dead rows", Noise: 200},
			trend.Metric{Name: t + " autovacuums", Why: "counts"})
	}
	return append(metrics,
		trend.Metric{Name: "all catalogs bytes", Noise: 2 * noiseSize},
		trend.Metric{Name: "database bytes", Noise: 1 << 20},
		trend.Metric{Name: "database files", Noise: 200},
		trend.Metric{Name: "fence sequences", Noise: 0},
		trend.Metric{Name: "sessions", Noise: noiseFew},
		trend.Metric{Name: "locks", Noise: 50},
		trend.Metric{Name: "oldest transaction's age", Noise: 2000},
		trend.Metric{Name: "WAL bytes", Why: "counts"},
		trend.Metric{Name: "transaction ids", Why: "counts"})
}

// Read reads them. It opens no sequence: claims would wait for it, and it for them.
func (p Postgres) Read(ctx context.Context) (map[string]float64, error) {
	values := map[string]float64{}
	rows, err := p.Conn.Query(ctx, `
		SELECT name, pg_total_relation_size(name::regclass)::float8, s.n_dead_tup::float8, s.autovacuum_count::float8
		FROM unnest($1::text[]) AS name JOIN pg_stat_all_tables s ON s.relid = name::regclass`, tables)
	if err != nil {
		return nil, fmt.Errorf("read tables: %w", err)
	}
	var name string
	var size, dead, vacuums float64
	_, err = pgx.ForEachRow(rows, []any{&name, &size, &dead, &vacuums}, func() error {
		values[name+" bytes"], values[name+" dead rows"], values[name+" autovacuums"] = size, dead, vacuums
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read tables: %w", err)
	}
	rows, err = p.Conn.Query(ctx, `
		SELECT 'all catalogs bytes', sum(pg_total_relation_size(oid))::float8 FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r'
		UNION ALL SELECT 'database bytes', pg_database_size(current_database())::float8
		UNION ALL SELECT 'database files', count(*)::float8 FROM pg_database, pg_ls_dir('base/' || oid) WHERE datname = current_database()
		UNION ALL SELECT 'fence sequences', count(*)::float8 FROM pg_class WHERE relnamespace = 'fence'::regnamespace AND relkind = 'S'
		UNION ALL SELECT 'sessions', count(*)::float8 FROM pg_stat_activity WHERE backend_type = 'client backend'
		UNION ALL SELECT 'locks', count(*)::float8 FROM pg_locks
		UNION ALL SELECT 'oldest transaction''s age', coalesce(max(age(backend_xmin)), 0)::float8 FROM pg_stat_activity
		UNION ALL SELECT 'WAL bytes', pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8
		UNION ALL SELECT 'transaction ids', pg_snapshot_xmax(pg_current_snapshot())::text::float8`)
	if err != nil {
		return nil, fmt.Errorf("read database: %w", err)
	}
	_, err = pgx.ForEachRow(rows, []any{&name, &size}, func() error { values[name] = size; return nil })
	if err != nil {
		return nil, fmt.Errorf("read database: %w", err)
	}
	return values, nil
}
