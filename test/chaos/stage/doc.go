// Package stage is the servers, proxies, links and worker processes of a chaos run.
//
//	worker ─┬─ link ──────────────────────────── Postgres
//	        ├─ link ── fenceproxy serve ── link ─┤
//	        ├─ TLS, link ── fenceproxy ──── link ─┤
//	        ├─ link ── fenceproxy ── PgBouncer ──┤
//	        ├─ link ── PgBouncer ── fenceproxy ──┘
//	        ├─ link ── versitygw
//	        └─ link ── etcd, Redis, ZooKeeper
//
// A Stage lasts for a test; each Round on it has resources of its own, and workers
// that come and go, and ends with what the checks need: Cases.
package stage
