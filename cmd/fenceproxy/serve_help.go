package main

const serveLong = `Stands between clients of Postgres and their server, and lets nothing be
committed under a fencing token that is no longer current. Clients need not know
of it: they connect here instead, by psql, any driver or an ORM, log in to the
server as ever, and carry their token in the setting fence.token:

  PGOPTIONS='-c fence.token=ft1:x:42:9f8c2ab1:k3v9:orders' psql -h PROXY …

which 'fenceproxy exec' does for any program. The proxy claims a token for its
client before the client's first statement, and checks it with each statement
or, in a transaction, with its COMMIT, in the same round trip. Whatever a stale
token writes is refused (TK001 and others; docs/operations.md has them all).
Sessions without a token may read, unless --untokened says something else. The
database must have the schema fence: 'fenceproxy migrate up'.

With --config everything is in a YAML file; docs/operations.md explains each key
and docs/examples/fenceproxy.yaml has them all. One listener can be had by flags.

  SIGTERM, SIGINT  take no more clients, let each session end its transaction,
                   and exit; the second one, or the end of shutdown_timeout, cuts
                   those that are left
  SIGHUP           read the file and the certificates again. Sessions stay. If
                   there is a mistake it is logged, and nothing changes

Nothing is printed; the log goes to standard error, a line for each refusal,
and has neither tokens' holders nor passwords in it.`

const serveExample = `  fenceproxy serve --config /etc/fenceproxy/fenceproxy.yaml --check
  fenceproxy serve --config /etc/fenceproxy/fenceproxy.yaml
  fenceproxy serve --postgres-listen 127.0.0.1:6432 --postgres-upstream 127.0.0.1:5432
  fenceproxy serve --postgres-listen /run/fenceproxy --postgres-upstream db.example:5432 \
    --postgres-upstream-tls verify-full --untokened deny --admin-listen :9187`
