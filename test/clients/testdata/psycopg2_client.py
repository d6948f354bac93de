# What programs do with psycopg2. Each step prints what comes of it.
import io
import os
import threading

import psycopg2
import psycopg2.errors
import psycopg2.extensions as ext
import psycopg2.extras


def step(name, f):
    try:
        print(name, "->", f(), flush=True)
    except psycopg2.Error as e:
        print(name, "!!", type(e).__name__, e.pgcode, repr(str(e)), flush=True)


conn = psycopg2.connect("")


def run(sql, args=None):
    with conn, conn.cursor() as cur:
        cur.execute(sql, args)
        return (cur.statusmessage, cur.fetchall() if cur.description else None)


def twice():
    with conn, conn.cursor() as cur:
        cur.execute("INSERT INTO accounts VALUES (%s, %s, %s)", (7, "seven", 700))
        cur.execute("INSERT INTO accounts VALUES (%s, %s, %s)", (7, "seven", 700))


def savepoint():
    with conn, conn.cursor() as cur:
        cur.execute("SAVEPOINT a")
        try:
            cur.execute("INSERT INTO accounts VALUES (1, 'one', 0)")
        except psycopg2.errors.UniqueViolation:
            cur.execute("ROLLBACK TO SAVEPOINT a")
        cur.execute("INSERT INTO accounts VALUES (8, 'eight', 800) RETURNING owner")
        return cur.fetchone()


def copy():
    with conn, conn.cursor() as cur:
        cur.copy_expert("COPY accounts FROM STDIN", io.StringIO("".join(f"{i}\tcopied\t{i}\n" for i in range(1000, 3000))))
        out = io.StringIO()
        cur.copy_expert("COPY (SELECT * FROM accounts WHERE id >= 1000 ORDER BY id) TO STDOUT", out)
        return cur.rowcount, len(out.getvalue())


def bad_copy():
    with conn, conn.cursor() as cur:
        cur.copy_expert("COPY accounts FROM STDIN", io.StringIO("4000\ta\tb\n" * 1000))


def server_cursor():
    with conn, conn.cursor("portal") as cur:
        cur.itersize = 300
        cur.execute("SELECT id FROM accounts ORDER BY id")
        return sum(row[0] for row in cur)


def many():
    with conn, conn.cursor() as cur:
        psycopg2.extras.execute_values(cur, "INSERT INTO entries (account, amount) VALUES %s", [(1 + i % 5, i) for i in range(250)])
        cur.executemany("UPDATE accounts SET balance = balance + %s WHERE id = %s", [(1, 1), (2, 2)])
        return cur.rowcount


def large_object():
    with conn:
        lo = conn.lobject(0, "wb")
        lo.write(b"0123456789" * 1000)
        lo.close()
        again = conn.lobject(lo.oid, "rb")
        again.seek(5)
        return again.read(10)


def two_phase(name, commit):
    conn.tpc_begin(conn.xid(1, name, os.environ["PGDATABASE"]))
    try:
        with conn.cursor() as cur:
            cur.execute("INSERT INTO entries (amount, note) VALUES (1, %s)", (name,))
        conn.tpc_prepare()
        conn.tpc_commit() if commit else conn.tpc_rollback()
    except psycopg2.Error:
        conn.close()  # there is no other way out of a two-phase transaction that failed
        reconnect()
        raise


def reconnect():
    global conn
    conn = psycopg2.connect("")


def level(isolation, **more):
    conn.set_session(isolation_level=isolation, **more)
    try:
        return run("SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only'), count(*) FROM accounts")
    finally:
        conn.set_session(isolation_level="DEFAULT", readonly=False, deferrable=False)


def notify():
    conn.autocommit = True
    try:
        run_plain("LISTEN news")
        run_plain("NOTIFY news, 'some'")
        conn.poll()
        return [n.payload for n in conn.notifies], conn.notices
    finally:
        conn.autocommit = False


def run_plain(sql):
    with conn.cursor() as cur:
        cur.execute(sql)


def autocommit():
    conn.autocommit = True
    try:
        run_plain("UPDATE accounts SET owner = 'auto' WHERE id = 2")
        run_plain("CALL pay(5, 4, 10)")
        run_plain("VACUUM accounts")
    finally:
        conn.autocommit = False


def cancelled():
    ask = threading.Timer(0.2, conn.cancel)
    ask.start()
    try:
        with conn.cursor() as cur:
            cur.execute("SELECT pg_sleep(60)")
    finally:
        ask.cancel()
        ask.join()  # the server signals a cancel twice: once it has hung up, the next statement is safe
        conn.rollback()


step("select", lambda: run("SELECT * FROM accounts ORDER BY id"))
step("insert", lambda: run("INSERT INTO accounts VALUES (%s, %s, %s) RETURNING id", (6, "six", 600)))
step("twice", twice)
step("syntax", lambda: run("SELECT FROM WHERE"))
step("savepoint", savepoint)
step("copy", copy)
step("bad copy", bad_copy)
step("server cursor", server_cursor)
step("many", many)
step("large object", large_object)
step("two-phase", lambda: two_phase("kept", True))
step("two-phase, undone", lambda: two_phase("undone", False))
step("serializable, deferrable", lambda: level("SERIALIZABLE", readonly=True, deferrable=True))
step("repeatable read", lambda: level("REPEATABLE READ"))
step("deferred constraint", lambda: run("INSERT INTO entries (account) VALUES (404)"))
step("cancelled", cancelled)
step("raise", lambda: run("SELECT breaks('x')"))
step("notice", lambda: (run("SELECT shout('x')"), conn.notices[-1:]))
step("notify", notify)
step("autocommit", autocommit)


def late():
    with conn, conn.cursor() as cur:
        cur.execute("INSERT INTO accounts VALUES (50, 'fifty', 5000)")
        print("claim?", flush=True)
        input()


step("late block", late)
step("late insert", lambda: run("INSERT INTO accounts VALUES (51, 'fifty-one', 5100)"))
step("late copy", copy)
step("late large object", large_object)
step("late two-phase", lambda: two_phase("late", True))
step("late autocommit", autocommit)
step("late read", lambda: level("SERIALIZABLE"))
