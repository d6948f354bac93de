-- What every client of these tests finds.
CREATE TABLE accounts (id int PRIMARY KEY, owner text NOT NULL, balance numeric NOT NULL CHECK (balance >= 0));
CREATE TABLE entries (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account int REFERENCES accounts DEFERRABLE INITIALLY DEFERRED, amount numeric, note text);
CREATE TABLE blobs (id int PRIMARY KEY, content bytea);
INSERT INTO accounts SELECT i, 'owner ' || i, 100 * i FROM generate_series(1, 5) AS i;
CREATE FUNCTION shout(what text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'shouts %', what USING HINT = 'do not'; RETURN upper(what); END $$;
CREATE FUNCTION breaks(what text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken: %', what USING ERRCODE = 'P0042', DETAIL = 'a detail', HINT = 'a hint'; END $$;
CREATE PROCEDURE pay(sender int, receiver int, amount numeric) LANGUAGE sql AS $$
	UPDATE accounts SET balance = balance - amount WHERE id = sender;
	UPDATE accounts SET balance = balance + amount WHERE id = receiver;
$$;
