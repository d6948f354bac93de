\set VERBOSITY verbose
\pset null '(null)'
-- Single statements, and errors of every kind of place.
SELECT * FROM accounts ORDER BY id;
INSERT INTO accounts VALUES (6, 'six', 600) RETURNING *;
INSERT INTO accounts VALUES (6, 'again', 0);
\echo :ERROR :SQLSTATE :ROW_COUNT :LAST_ERROR_SQLSTATE
\echo :LAST_ERROR_MESSAGE
INSERT INTO accounts VALUES (7, 'seven', -1);
INSERT INTO accounts VALUES (7, NULL, 1);
SELECT id,
       nothing FROM accounts;
SELEC 1;
SELECT 'unterminated;
';
\errverbose
SELECT shout('loud');
SELECT breaks('it');
UPDATE accounts SET balance = balance + 1 WHERE id = 6;
\echo :SQLSTATE :ROW_COUNT
-- Several statements in one message.
INSERT INTO accounts VALUES (8, 'eight', 800)\; SELECT count(*) FROM accounts\; SELECT 'last' AS word;
INSERT INTO accounts VALUES (9, 'nine', 900)\; SELECT 1/0;
SELECT count(*) FROM accounts;
BEGIN\; INSERT INTO accounts VALUES (9, 'nine', 900)\; COMMIT;
-- Blocks: isolation, savepoints, failure, constraints that fail at COMMIT.
BEGIN ISOLATION LEVEL SERIALIZABLE;
SHOW transaction_isolation;
SAVEPOINT a;
INSERT INTO accounts VALUES (9, 'nine', 900);
ROLLBACK TO a;
INSERT INTO accounts VALUES (10, 'ten', 1000);
COMMIT;
BEGIN;
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
INSERT INTO entries (account, amount) VALUES (10, 1);
SELECT 1/0;
SELECT 'in a failed block';
COMMIT;
BEGIN;
INSERT INTO entries (account, amount) VALUES (404, 1);
COMMIT;
\echo :SQLSTATE
COMMIT;
ROLLBACK;
BEGIN READ ONLY;
DELETE FROM entries;
ROLLBACK;
\set ON_ERROR_ROLLBACK on
BEGIN;
INSERT INTO accounts VALUES (11, 'eleven', 1100);
INSERT INTO accounts VALUES (11, 'eleven', 1100);
INSERT INTO accounts VALUES (12, 'twelve', 1200);
COMMIT;
\set ON_ERROR_ROLLBACK off
\set AUTOCOMMIT off
UPDATE accounts SET owner = 'without autocommit' WHERE id = 12;
COMMIT;
\set AUTOCOMMIT on
-- COPY, by the server's and by psql's command, and data that is wrong.
COPY accounts FROM STDIN;
20	twenty	2000
21	twenty-one	2100
\.
COPY accounts FROM STDIN;
22	twenty-two	2200
23	not a number	x
\.
\copy accounts FROM 'testdata/accounts.csv' WITH (FORMAT csv)
\copy (SELECT * FROM accounts WHERE id >= 20 ORDER BY id) TO STDOUT WITH (FORMAT csv)
\copy nowhere FROM 'testdata/accounts.csv'
-- What else psql has.
SELECT id, owner, balance AS how_much FROM accounts \gdesc
SELEC \gdesc
SELECT count(*) AS counted FROM accounts \gset
\echo :counted
SELECT format('UPDATE accounts SET balance = balance + 1 WHERE id = %s', i) FROM generate_series(1, 2) AS i \gexec
CREATE SEQUENCE ticks;
INSERT INTO entries (amount) SELECT 1 / (3 - nextval('ticks')) \watch 0.01
\set FETCH_COUNT 2
SELECT id FROM accounts ORDER BY id;
SELECT 10 / (3 - i) FROM generate_series(1, 5) AS i;
\unset FETCH_COUNT
\lo_import testdata/accounts.csv
SELECT convert_from(lo_get(:LASTOID), 'UTF8');
PREPARE named (int) AS SELECT owner FROM accounts WHERE id = $1;
EXECUTE named (20);
DEALLOCATE ALL;
EXECUTE named (20);
DISCARD ALL;
SELECT owner FROM accounts WHERE id = 20;
CALL pay(5, 4, 10);
CALL pay(5, 4, 1000000);
DO $$ BEGIN UPDATE accounts SET owner = 'done' WHERE id = 3; END $$;
LISTEN news;
NOTIFY news, 'some';
SELECT 'and the news';
CREATE TEMP TABLE scratch AS SELECT 1 AS one;
VACUUM accounts;
ANALYZE accounts;
EXPLAIN (COSTS off) SELECT * FROM accounts WHERE id = 1;
-- Until here this session held the newest claim.
BEGIN;
INSERT INTO accounts VALUES (50, 'fifty', 5000);
\prompt claim? x
COMMIT;
\echo :SQLSTATE
INSERT INTO accounts VALUES (51, 'fifty-one', 5100);
BEGIN ISOLATION LEVEL REPEATABLE READ;
INSERT INTO accounts VALUES (52, 'fifty-two', 5200);
PREPARE TRANSACTION :'DBNAME';
\copy accounts FROM 'testdata/late.csv' WITH (FORMAT csv)
CALL pay(1, 2, 1);
\echo :SQLSTATE
