# What programs do with psycopg 3. Each step prints what comes of it.
import logging
import os
import threading

import psycopg
from psycopg import IsolationLevel


def step(name, f):
    try:
        print(name, "->", f(), flush=True)
    except psycopg.Error as e:
        print(name, "!!", type(e).__name__, e.sqlstate, repr(str(e)), flush=True)


conn = psycopg.connect("", autocommit=True)


def run(sql, args=None, **more):
    cur = conn.execute(sql, args, **more)
    return (cur.statusmessage, cur.fetchall() if cur.description else None)


def prepared():
    return [run("UPDATE accounts SET balance = balance + 1 WHERE id = %s", (1 + i % 3,), prepare=True) for i in range(8)]


def block():
    with conn.transaction():
        run("INSERT INTO accounts VALUES (%s, %s, %s)", (7, "seven", 700))
        try:
            with conn.transaction():
                run("INSERT INTO accounts VALUES (1, 'one', 0)")
        except psycopg.errors.UniqueViolation:
            pass
        return run("SELECT count(*) FROM accounts")


def failed_block():
    with conn.transaction():
        run("INSERT INTO accounts VALUES (8, 'eight', 800)")
        run("SELECT 1/0")


# Whether the error of a pipeline comes before its end is a matter of time; psycopg warns where it does.
logging.getLogger("psycopg").setLevel(logging.ERROR)


def pipeline():
    with conn.pipeline():
        cursors = [conn.execute("INSERT INTO entries (account, amount) VALUES (%s, %s) RETURNING amount", (1, i)) for i in range(20)]
        cursors.append(conn.execute("SELECT count(*) FROM accounts"))
        return [c.fetchone()[0] for c in cursors]


def pipeline_blocks():
    with conn.pipeline():
        with conn.transaction():
            conn.execute("INSERT INTO entries (account, amount) VALUES (2, 1)")
        with conn.transaction():
            conn.execute("INSERT INTO entries (account, amount) VALUES (3, 1)")
            with conn.transaction():
                conn.execute("INSERT INTO entries (account, amount) VALUES (4, 1)")
        return conn.execute("SELECT count(*) FROM entries").fetchone()


def bad_pipeline():
    with conn.pipeline():
        conn.execute("INSERT INTO entries (account, amount) VALUES (2, 2)")
        conn.execute("SELECT 1/0")
        conn.execute("INSERT INTO entries (account, amount) VALUES (2, 3)")


def executemany():
    with conn.cursor() as cur:
        cur.executemany("INSERT INTO entries (account, amount) VALUES (%s, %s)", [(5, i) for i in range(100)])
        return cur.rowcount


def server_cursor():
    with conn.transaction(), conn.cursor("portal") as cur:
        cur.itersize = 2
        cur.execute("SELECT id FROM accounts ORDER BY id")
        return [row[0] for row in cur]


def stream():
    with conn.cursor() as cur:
        return [row[0] for row in cur.stream("SELECT id FROM accounts ORDER BY id")]


def copy():
    with conn.cursor() as cur:
        with cur.copy("COPY accounts FROM STDIN") as c:
            for i in range(1000, 2000):
                c.write_row((i, "copied", i))
        with cur.copy("COPY (SELECT * FROM accounts WHERE id >= 1000) TO STDOUT (FORMAT binary)") as c:
            return sum(len(data) for data in c)


def abandoned_copy():
    with conn.cursor() as cur, cur.copy("COPY accounts FROM STDIN") as c:
        c.write_row((3000, "copied", 0))
        raise psycopg.DataError("changed my mind")


def two_phase(name, commit):
    conn.autocommit = False
    try:
        conn.tpc_begin(conn.xid(1, name, os.environ["PGDATABASE"]))
        run("INSERT INTO entries (amount, note) VALUES (1, %s)", (name,))
        conn.tpc_prepare()
        conn.tpc_commit() if commit else conn.tpc_rollback()
        conn.autocommit = True
    except psycopg.Error:
        conn.close()  # there is no other way out of a two-phase transaction that failed
        reconnect()
        raise


def reconnect():
    global conn
    conn = psycopg.connect("", autocommit=True)


def level(isolation, deferrable=False):
    conn.isolation_level, conn.read_only, conn.deferrable = isolation, deferrable, deferrable
    try:
        with conn.transaction():
            return run("SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only'), count(*) FROM accounts")
    finally:
        conn.isolation_level = conn.read_only = conn.deferrable = None


def notify():
    heard = []
    conn.add_notify_handler(lambda n: heard.append((n.channel, n.payload)))
    run("LISTEN news")
    run("NOTIFY news, 'some'")
    return heard


def notices():
    said = []
    conn.add_notice_handler(lambda d: said.append((d.severity, d.message_primary, d.message_hint)))
    return run("SELECT shout('x')"), said


def cancelled():
    ask = threading.Timer(0.2, conn.cancel)
    ask.start()
    try:
        conn.execute("SELECT pg_sleep(60)")
    finally:
        ask.cancel()
        ask.join()  # the server signals a cancel twice: once it has hung up, the next statement is safe
        conn.rollback()


step("select", lambda: run("SELECT * FROM accounts ORDER BY id"))
step("insert", lambda: run("INSERT INTO accounts VALUES (%s, %s, %s) RETURNING id", (6, "six", 600)))
step("several", lambda: run("INSERT INTO entries (amount) VALUES (1); SELECT count(*) FROM entries"))
step("prepared", prepared)
step("block", block)
step("failed block", failed_block)
step("pipeline", pipeline)
step("pipeline with blocks", pipeline_blocks)
step("pipeline with an error", bad_pipeline)
step("executemany", executemany)
step("server cursor", server_cursor)
step("stream", stream)
step("copy", copy)
step("abandoned copy", abandoned_copy)
step("two-phase", lambda: two_phase("kept", True))
step("two-phase, undone", lambda: two_phase("undone", False))
step("serializable, deferrable", lambda: level(IsolationLevel.SERIALIZABLE, True))
step("repeatable read", lambda: level(IsolationLevel.REPEATABLE_READ))
step("deferred constraint", lambda: run("INSERT INTO entries (account) VALUES (404)"))
step("binary", lambda: conn.execute("SELECT content FROM (VALUES (%b::bytea)) AS t (content)", (b"\0\1",), binary=True).fetchone())
step("cancelled", cancelled)
step("raise", lambda: run("SELECT breaks('x')"))
step("notices", notices)
step("notify", notify)
step("call", lambda: run("CALL pay(%s, %s, %s)", (5, 4, 10)))
step("vacuum", lambda: run("VACUUM accounts"))


def late():
    with conn.transaction():
        run("INSERT INTO accounts VALUES (50, 'fifty', 5000)")
        print("claim?", flush=True)
        input()


step("late block", late)
step("late insert", lambda: run("INSERT INTO accounts VALUES (51, 'fifty-one', 5100)"))
step("late prepared", prepared)
step("late pipeline", pipeline)
step("late pipeline with blocks", pipeline_blocks)
step("late copy", copy)
step("late two-phase", lambda: two_phase("late", True))
step("late read", lambda: level(IsolationLevel.SERIALIZABLE))
