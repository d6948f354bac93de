package execute

const longHelp = `Waits for a lock, runs a program while it holds it, and releases it when the
program and all that it started have ended. Clients in the program carry the
fencing token without knowing of it:

  FENCE_TOKEN        the token
  PGOPTIONS          what it says already, and "-c fence.token=…": psql, pgbench
                     and all others that libpq or pgx connect, unless they are
                     given options of their own (options= in a URL)
  AWS_SESSION_TOKEN  the token too, with --s3 URL: every SDK of Amazon's signs it
  AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL   then the URL, that of 'fenceproxy serve'
                     in front of S3

A table that fence.protect guards admits what such a client writes once the
token is claimed, which --claim does before the program starts, and refuses it
with TK001 when somebody else has the lock. --claim takes

  postgres://user:password@host/database
  s3://BUCKET?endpoint=URL            also region, cacert, virtual-host=true; the
                                      environment (AWS_…) has what is left out, and
                                      the keys, as for 'fenceproxy s3'

In a bucket --claim is for 'fenceproxy s3', which takes the token from
FENCE_TOKEN, and for Go programs that hand it to package stores/s3. Clients that
--s3 sends to the proxy need none: it claims for them. AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY must be set to what the proxy knows the client by, since a
client that has keys from elsewhere (a profile, a role) takes the session token
from there too; AWS_PROFILE is unset. Not all clients read the endpoint:

  aws 2.13 and 1.29, boto3 1.28, the SDKs for JavaScript v3, Go v2, Java v2, Rust
  and others, of 2024 and later
                    nothing is to be done; those that put the bucket into the
                    host need path style, or the proxy that host ('domains')
  those of before, the SDKs for Go v1 and Java v1, minio-go, mc
                    hand it on by the program's own option, as in
                    aws --endpoint-url "$AWS_ENDPOINT_URL_S3" s3 ls
  rclone            RCLONE_S3_ENDPOINT="$AWS_ENDPOINT_URL_S3" RCLONE_S3_ENV_AUTH=true
                    and no keys in its own file
  s3cmd             --host HOST:PORT --host-bucket HOST:PORT, --no-ssl for http,
                    and no keys in its own file

Only the proxy may have the right to write in the store: who goes past it is not
fenced.

Lock services:

  etcd://h1:2379,h2:2379/prefix       etcds:// with TLS
  redis://h:6379/0                    rediss:// with TLS
  redis+sentinel://h1:26379,h2:26379/0?master=NAME
  redis+cluster://h1:6379,h2:6379
  zk://h1:2181,h2:2181/path

None but Redis gives every --ttl: etcd none below 2s, ZooKeeper none below 4s or
above 40s, unless their own settings have other bounds, and both then take the
nearest. 'fenceproxy doctor lock --ttl' says what comes of one.

Each takes user:password@ in front of the hosts, and the parameters tls, cacert,
cert and key (names of files); those of Redis also issuer (the name of its
numbers, "redis" by default), prefix and replicas; redis+sentinel also
sentinel-user and sentinel-password. Whoever uses one lock must use the same
prefix and issuer. ps shows passwords in --lock and --claim: set FENCE_LOCK, and
PGPASSWORD.

The program is over before the lease can be: a fifth of the lease's time (at
most 10 s) before that its process group gets SIGTERM, and then everything that
it started SIGKILL, whether the lock service answers or not, and also if this
process hangs or is stopped. If the lease is lost earlier, the end begins at
once. What the program leaves running when it exits gets SIGTERM, and after as
long SIGKILL. If this process is killed, everything is. Out of reach are
processes that others start on the program's behalf (a container engine, cron),
and those of another user (sudo), which are waited for.

Signals that this process gets (INT, TERM, HUP, QUIT, USR1, USR2, WINCH, TSTP,
CONT) go to the program's group. In a terminal that group is in the foreground:
psql and Ctrl-C, Ctrl-Z and fg work as without exec.

A claim that is refused as stale or duplicate although the lock is held means
that Redis has lost its numbers: the lock is then acquired anew above the mark.
In any other lock service that is an error.

The exit code is the program's own, 128+n if signal n ended it, 126 or 127 if it
could not be run; 75 if the lock, or a claim, was not to be had in time, 76 if
the lease was lost, 69 if the lock service does not answer. See 'fenceproxy help
exit-codes'. Of what exec itself has to say, the last line of standard error
begins with "fenceproxy: ".`

const examples = `  export FENCE_LOCK=etcd://etcd1:2379,etcd2:2379,etcd3:2379
  DB=postgres://app@db.example/app
  fenceproxy exec --resource orders --claim $DB -- psql $DB -f nightly.sql
  fenceproxy exec --resource orders --claim $DB --wait 30s -- pgbench -n -f load.sql $DB
  fenceproxy exec --resource reports --claim "s3://app?endpoint=https://s3.example" -- ./nightly.sh
  fenceproxy exec --resource reports --s3 http://127.0.0.1:9100 -- aws s3 sync out s3://app/out  # aws 2.13 or later
  fenceproxy exec --resource orders --shared -- sh -c 'echo "reading with $FENCE_TOKEN"; psql $DB'
  mkfifo hold; fenceproxy exec --resource orders --print <hold >token &
  exec 3>hold     # now it waits, prints the token, and holds until exec 3>&-`
