package page

// charts are all plots of the page.
func charts() []chart {
	const by = "throughput / "
	s3 := ways("relay", "nginx", "versitygw", "fenceproxy")
	locks := ways("redislock", "redsync", "bsm/redislock, 5 ms", "etcdlock", "concurrency.Mutex", "zklock", "zk.Lock")
	return []chart{
		{
			file: "postgres.svg", title: "A fenced transaction and hand-written fences", x: "goroutines", y: by + "bare pgx",
			part: "postgres", bench: "InTx", what: "goroutines", value: unitsOverBare,
			lines: []line{{"fenced", "pgstore"}, {"lean", "pgstore, lean"}, {"column", "column of the row"}, {"upsert", "upsert"}, {"forupdate", "SELECT FOR UPDATE"}},
		},
		{
			file: "pgproxy.svg", title: "An update through proxies, fsync on", x: "clients", y: by + "direct", part: "pgproxy", bench: "pgbench",
			what: "update-fsync", lines: []line{{"PgBouncer", "PgBouncer"}, {"fenced", "fenceproxy, fenced"}, {"allowed", "fenceproxy, without a token"}}, value: perSecondBy("direct"),
		},
		{
			file: "s3store.svg", title: "PUT by the library", x: "size of an object", y: by + "bare minio-go", part: "s3store", bench: "objects", what: "PUT",
			lines: ways("s3store"), value: perSecondBy("bare"), bytes: true,
		},
		{
			file: "s3proxy-put.svg", title: "PUT through proxies", x: "size of an object", y: by + "direct", part: "s3proxy", bench: "objects", what: "PUT",
			lines: s3, value: perSecondBy("direct"), bytes: true,
		},
		{
			file: "s3proxy-get.svg", title: "GET through proxies", x: "size of an object", y: by + "direct", part: "s3proxy", bench: "objects", what: "GET",
			lines: s3, value: perSecondBy("direct"), bytes: true,
		},
		{
			file: "locks-handover.svg", title: "From a release to the next holder", x: "contenders", y: "handover, p50 in ms", part: "locks", bench: "contended",
			lines: locks, value: quantity("handover p50 ms"), logY: true,
		},
		{
			file: "locks-requests.svg", title: "Requests for a grant", x: "contenders", y: "requests", part: "locks", bench: "contended",
			lines: locks, value: quantity("requests"), logY: true,
		},
		{
			file: "marks.svg", title: "A claim, by what is remembered", x: "resources with a mark", y: "claim, p50 in µs", part: "marks", bench: "Postgres",
			lines: []line{{"claim", "Postgres"}}, value: quantity("p50 µs"), more: []more{{"S3", line{"claim", "S3"}}},
		},
		{
			file: "marks-writes.svg", title: "A fenced write, by what is remembered", x: "resources with a mark", y: by + "bare", part: "marks", bench: "Postgres",
			lines: []line{{"fenced", "Postgres"}}, value: perSecondBy("bare"), more: []more{{"S3", line{"fenced", "S3"}}},
		},
		{
			file: "holders.svg", title: "A fenced write, by holders of one process", x: "holders", y: by + "bare", part: "holders", bench: "S3",
			lines: []line{{"s3store", "s3store"}, {"fenceproxy", "fenceproxy for S3"}}, value: perSecondBy("bare"), more: []more{{"Postgres", line{"fenced", "pgstore"}}},
		},
		{
			file: "sessions.svg", title: "Memory of idle sessions", x: "sessions", y: "resident memory, MiB", part: "sessions", bench: "memory",
			lines: ways("fenceproxy", "PgBouncer"), value: quantity("MiB"), logY: true,
		},
	}
}
