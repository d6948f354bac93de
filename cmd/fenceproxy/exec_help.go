package main

const execLong = `Waits for a lock, runs a program while it holds it, and releases it when the
program and all that it started have ended. Clients in the program carry the
fencing token without knowing of it:

  FENCE_TOKEN        the token
  PGOPTIONS          what it says already, and "-c fence.token=…": psql, pgbench
                     and all others that libpq or pgx connect, unless they are
                     given options of their own (options= in a URL)
  AWS_SESSION_TOKEN  the token too, with --s3: the aws command and every SDK

A table that fence.protect guards admits what such a client writes once the
token is claimed, which --claim does before the program starts, and refuses it
with TK001 when somebody else has the lock. --claim takes

  postgres://user:password@host/database
  s3://BUCKET?endpoint=URL            also region, cacert, virtual-host=true; the
                                      environment (AWS_…) has what is left out, and
                                      the keys, as for 'fenceproxy s3'

A bucket's objects are fenced for 'fenceproxy s3', which takes the token from
FENCE_TOKEN, and for Go programs that hand it to package stores/s3; --s3 is for
clients of a proxy in front of the store that reads it there, which fenceproxy is
not yet; a store itself may refuse it.

Lock services:

  etcd://h1:2379,h2:2379/prefix       etcds:// with TLS
  redis://h:6379/0                    rediss:// with TLS
  redis+sentinel://h1:26379,h2:26379/0?master=NAME
  redis+cluster://h1:6379,h2:6379
  zk://h1:2181,h2:2181/path

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

const execExample = `  export FENCE_LOCK=etcd://etcd1:2379,etcd2:2379,etcd3:2379
  DB=postgres://app@db.example/app
  fenceproxy exec --resource orders --claim $DB -- psql $DB -f nightly.sql
  fenceproxy exec --resource orders --claim $DB --wait 30s -- pgbench -n -f load.sql $DB
  fenceproxy exec --resource reports --claim "s3://app?endpoint=https://s3.example" -- ./nightly.sh
  fenceproxy exec --resource orders --shared -- sh -c 'echo "reading with $FENCE_TOKEN"; psql $DB'
  mkfifo hold; fenceproxy exec --resource orders --print <hold >token &
  exec 3>hold     # now it waits, prints the token, and holds until exec 3>&-`
