-- For psql -1: all of it, or nothing; here nothing.
INSERT INTO accounts VALUES (7, 'seven', 700);
\prompt claim? x
INSERT INTO accounts VALUES (7, 'seven', 700);
INSERT INTO accounts VALUES (8, 'eight', 800);
