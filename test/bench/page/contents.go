package page

import "maps"

// tables are all tables of the page, by what the template calls them.
func (d *data) tables() map[string]func() string {
	all := map[string]func() string{}
	for _, some := range []map[string]func() string{d.tablesOfPostgres(), d.tablesOfS3(), d.tablesOfLocks(), d.tablesOfGrowth()} {
		maps.Copy(all, some)
	}
	return all
}

// Whose CPU time it is.
const server, proxy, client = "server", "proxy", "client"

func (d *data) tablesOfPostgres() map[string]func() string {
	return map[string]func() string{
		"guard": func() string {
			return d.table("guard", "Admit", []column{caseOf("Admit"), figure("ns", "", "ns/op"), whole("allocations", "", "allocs/op")}) +
				"\n\n" + d.table("guard", "Enter", []column{
				{"memory.Guard", constant("Enter and Exit, uncontended")}, figure("ns", "", "ns/op"), whole("allocations", "", "allocs/op"),
			})
		},
		"migrations": func() string {
			return d.transposed("migrations", "BindOnly", "µs", []line{
				{"update-cpu-us", "*the bare update*"},
				{"select-cpu-us", "*the bare select*"},
				{"first+cpu-us", "exclusive token, ticket cached (`holds_token`, `holds_ticket`)"},
				{"last+cpu-us", "the same at COMMIT (`bound_token`, `holds_ticket`)"},
				{"present+cpu-us", "presence of a block (`present`)"},
				{"no-token/enters+cpu-us", "no token, read-only: before (`enters`)"},
				{"no-token/leaves+cpu-us", "no token, read-only: at COMMIT (`bound_token`, `leaves`)"},
				{"last/no-ticket+cpu-us", "no ticket yet, by `fence.check()`"},
				{"last/slow+cpu-us", "lists and shared tokens, by `fence.check()`"},
			})
		},
		"postgres": func() string {
			return d.table("postgres", "InTx", []column{
				countOf("goroutines"), figure("fenced", "", "fenced/bare"), figure("lean", "", "lean/bare"), figure("column", "", "column/bare"),
				figure("upsert", "", "upsert/bare"), figure("FOR UPDATE", "", "forupdate/bare"), figure("bare pgx, per second", "", "bare-tx/s"),
				whole("WAL added, bytes: fenced / lean / column / upsert / FOR UPDATE", "", "fenced-wal-B", "lean-wal-B", "column-wal-B", "upsert-wal-B", "forupdate-wal-B"),
			})
		},
		"pgproxy": func() string {
			return d.table("pgproxy", "pgbench", []column{
				caseOf("work"), countOf("clients"), ratio("direct", "direct", "PgBouncer"), ratio("fenced", "fenced", "PgBouncer"),
				ratio("allowed", "allowed", "PgBouncer"), medians("PgBouncer, per second", "PgBouncer", "per second"),
				medians("p50 / p99 µs: PgBouncer", "PgBouncer", "p50 µs", "p99 µs"), medians("fenced", "fenced", "p50 µs", "p99 µs"),
			})
		},
		"pgproxy-cpu": func() string {
			return d.table("pgproxy", "pgbench", []column{
				caseOf("work"), countOf("clients"), cpu("direct: server", "direct", server),
				cpu("PgBouncer: proxy / server", "PgBouncer", proxy, server),
				cpu("fenced: proxy / server", "fenced", proxy, server), cpu("allowed: proxy / server", "allowed", proxy, server),
			})
		},
	}
}

func (d *data) tablesOfS3() map[string]func() string {
	return map[string]func() string{
		"s3store": func() string {
			return d.table("s3store", "objects", []column{
				caseOf("work"), sizeIn("size"), ratio("s3store / bare", "s3store", "bare"), medians("bare, per second", "bare", "per second"),
				cpu("CPU µs, bare: client / server", "bare", client, server), cpu("s3store: client / server", "s3store", client, server),
			})
		},
		"s3proxy": func() string {
			return d.table("s3proxy", "objects", []column{
				caseOf("work"), sizeIn("size"), ratio("fenceproxy / nginx", "fenceproxy", "nginx"), ratio("fenceproxy / direct", "fenceproxy", "direct"),
				ratio("relay / direct", "relay", "direct"), ratio("fenceproxy / versitygw", "fenceproxy", "versitygw"), medians("direct, per second", "direct", "per second"),
				cpu("CPU µs of the proxy: fenceproxy", "fenceproxy", proxy), cpu("nginx", "nginx", proxy), cpu("versitygw", "versitygw", proxy),
			})
		},
	}
}

func (d *data) tablesOfLocks() map[string]func() string {
	locks := []line{
		{"handover p50 ms", "handover p50, ms"},
		{"handover p99 ms", "handover p99, ms"},
		{"wait p99 ms", "wait p99, ms"},
		{"requests", "requests per grant"},
		{"fairness", "fairness"},
	}
	return map[string]func() string{
		"locks-alone": func() string {
			return d.locks("alone", 0, []line{{"handover p50 ms", "p50, ms"}, {"handover p99 ms", "p99, ms"}, {"requests", "requests"}})
		},
		"locks-2":  func() string { return d.locks("contended", 2, locks) },
		"locks-10": func() string { return d.locks("contended", 10, locks) },
		"locks-50": func() string { return d.locks("contended", 50, locks) },
		"locks-held": func() string {
			return d.locks("held", 0, []line{{"goroutines", "goroutines"}, {"requests/s", "requests per second"}})
		},
	}
}

func (d *data) tablesOfGrowth() map[string]func() string {
	return map[string]func() string{
		"marks-postgres": func() string { return d.marks("Postgres") },
		"marks-s3":       func() string { return d.marks("S3") },
		"holders-postgres": func() string {
			return d.table("holders", "Postgres", []column{countOf("holders"), ratio("fenced / bare", "fenced", "bare"), cpu("CPU µs: client / server", "fenced", client, server)})
		},
		"holders-s3": func() string {
			return d.table("holders", "S3", []column{
				countOf("holders"), ratio("s3store / bare", "s3store", "bare"), ratio("fenceproxy / bare", "fenceproxy", "bare"),
				cpu("CPU µs of fenceproxy", "fenceproxy", proxy),
			})
		},
		"sessions": func() string {
			return d.table("sessions", "memory", []column{
				countOf("idle sessions"), medians("fenceproxy, MiB", "fenceproxy", "MiB"), medians("PgBouncer, MiB", "PgBouncer", "MiB"),
			})
		},
		"sessions-working": func() string {
			return d.table("sessions", "working", []column{
				countOf("idle sessions"), ratio("fenceproxy / direct", "fenceproxy", "direct"), medians("p50 / p99 µs", "fenceproxy", "p50 µs", "p99 µs"),
				cpu("CPU µs of fenceproxy", "fenceproxy", proxy),
			})
		},
		"scale-postgres": func() string { return d.scale("Postgres") },
		"scale-s3":       func() string { return d.scale("S3") },
	}
}

func (d *data) marks(bench string) string {
	return d.table("marks", bench, []column{
		countOf("marks"), ratio("fenced / bare", "fenced", "bare"), figure("claim, p50 µs", "claim", "p50 µs"), figure("CPU µs of a claim at the server", "claim", "server CPU µs"),
	})
}
