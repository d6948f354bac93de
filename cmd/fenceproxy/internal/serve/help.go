package serve

const longHelp = `Stands between clients of Postgres, or of S3, and their server, and lets nothing
be written under a fencing token that is no longer current. Clients need not know
of it: they connect here instead, by any driver, tool or SDK, and carry their
token where they have room for it, which 'fenceproxy exec' does for any program:

  Postgres  log in to the server as ever, with the token in the setting fence.token:
            PGOPTIONS='-c fence.token=ft1:x:42:9f8c2ab1:k3v9:orders' psql -h PROXY …
  S3        sign with keys that the proxy has for them, and the token as session
            token:  AWS_SESSION_TOKEN=ft1:x:42:9f8c2ab1:k3v9:orders aws s3 cp …

The proxy claims a token for its client before the client's first statement, or
first write, and checks it with everything that is written, in the same round
trip. Whatever a stale token writes is refused (Postgres: TK001 and others, S3:
412 FenceTokenStale and others; docs/operations.md has them all). Clients without
a token may read, unless --untokened says something else. A database must have
the schema fence: 'fenceproxy migrate up'. A store must honour conditions
('fenceproxy doctor s3'), and nobody else may write there.

With --config everything is in a YAML file; docs/operations.md explains each key
and docs/examples/fenceproxy.yaml has them all. One listener can be had by flags.
One for S3 has its secrets, which ps would show in flags, from the environment:

  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY   the proxy's own at the store; with
                    AWS_REGION, and AWS_CA_BUNDLE, as for the aws command
  FENCEPROXY_S3_ACCESS_KEY, FENCEPROXY_S3_SECRET_KEY   what its clients sign with:
                    made up by you, the second of 16 bytes or more

  SIGTERM, SIGINT  take no more clients, let each session end its transaction and
                   each request be answered, and exit; the second one, or the end
                   of shutdown_timeout, cuts those that are left
  SIGHUP           read the file and the certificates again. Sessions stay. If
                   there is a mistake it is logged, and nothing changes

Nothing is printed; the log goes to standard error, a line for each refusal,
and has neither tokens' holders nor passwords in it.`

const examples = `  fenceproxy serve --config /etc/fenceproxy/fenceproxy.yaml --check
  fenceproxy serve --config /etc/fenceproxy/fenceproxy.yaml
  fenceproxy serve --postgres-listen 127.0.0.1:6432 --postgres-upstream 127.0.0.1:5432
  fenceproxy serve --postgres-listen /run/fenceproxy --postgres-upstream db.example:5432 \
    --postgres-upstream-tls verify-full --untokened deny --admin-listen :9187
  fenceproxy serve --s3-listen 127.0.0.1:9100 --s3-upstream https://s3.example --s3-bucket app`
