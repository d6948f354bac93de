-- For psql -1: all of it, or nothing.
INSERT INTO accounts VALUES (6, 'six', 600);
\copy accounts FROM 'testdata/accounts.csv' WITH (FORMAT csv)
SAVEPOINT a;
DELETE FROM accounts;
ROLLBACK TO a;
SELECT count(*) FROM accounts;
\prompt claim? x
