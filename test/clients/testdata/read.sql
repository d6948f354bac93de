-- What a session without a token may do.
\set VERBOSITY verbose
SELECT * FROM accounts ORDER BY id;
SELECT id,
       nothing FROM accounts;
SELECT 1\; SELECT 1/0\; SELECT 2;
SELECT shout('loud');
SELECT breaks('it');
TABLE accounts LIMIT 1;
WITH a AS (SELECT * FROM accounts) SELECT count(*) FROM a;
VALUES (1), (2);
EXPLAIN (COSTS off) SELECT * FROM accounts;
SHOW transaction_isolation;
SET search_path = public, pg_temp;
SELECT current_setting('search_path');
PREPARE named (int) AS SELECT owner FROM accounts WHERE id = $1;
EXECUTE named (2);
SELECT id, owner FROM accounts \gdesc
COPY accounts TO STDOUT;
\copy (SELECT 1/0) TO STDOUT
\set FETCH_COUNT 2
SELECT id FROM accounts ORDER BY id;
\unset FETCH_COUNT
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT count(*) FROM accounts;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
DECLARE c SCROLL CURSOR FOR SELECT id FROM accounts ORDER BY id;
FETCH 2 FROM c;
SAVEPOINT a;
SELECT 1/0;
ROLLBACK TO a;
FETCH ALL FROM c;
CLOSE c;
COMMIT;
BEGIN;
SELECT 1/0;
COMMIT;
COMMIT;
DO $$ BEGIN PERFORM count(*) FROM accounts; END $$;
LISTEN news;
NOTIFY news, 'some';
SELECT 'and the news';
VACUUM accounts;
ANALYZE accounts;
DISCARD ALL;
SELECT owner FROM accounts WHERE id = 3;
\d accounts
\df shout
