-- fence: the check that goes with every write.

SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);
SELECT pg_catalog.set_config('role', pg_catalog.pg_get_userbyid(nspowner), false)
  FROM pg_catalog.pg_namespace WHERE nspname = 'fence';

-- Does this transaction say that it began under EPOCH (fence.presence_of)? Whoever knows that has seen the claim return.
CREATE OR REPLACE FUNCTION fence.began_under(seq oid, epoch bigint) RETURNS boolean LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (
    SELECT FROM pg_locks l
     WHERE l.pid = pg_backend_pid() AND l.granted AND l.locktype = 'advisory' AND l.mode = 'ShareLock' AND l.objsubid = 2
       AND l.classid = seq AND l.objid::bigint = fence.presence_of(epoch))
$$;

-- One token against its mark. Reading the sequence locks it to the end of the top transaction, so that a newer claim
-- waits, and sees the newest claim at every isolation level. BEGUN, if not null, is when the caller's transaction began:
-- one that is older than the claim may have read what an older holder changed since, and is refused (I9). The server's clock
-- tells, unless the transaction says that it has begun under this very claim: then the clock was set back, or is another server's.
CREATE OR REPLACE FUNCTION fence.verify(token text, begun timestamptz, OUT seq oid, OUT epoch bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  m       fence.marks;
  t       record;
  verdict text;
BEGIN
  SELECT * INTO t FROM fence.parse(token);
  SELECT * INTO m FROM fence.marks k WHERE k.resource = t.resource;
  IF m.id IS NULL THEN
    PERFORM fence.refuse('TK004', t.resource, t.number, m);
  END IF;
  seq := fence.sequence_of(m.id);
  epoch := pg_sequence_last_value(seq::regclass);
  IF m.epoch IS DISTINCT FROM epoch THEN
    SELECT * INTO m FROM fence.marks k WHERE k.resource = t.resource;  -- READ COMMITTED: now as new as the lock
  END IF;
  verdict := fence.judge(m.generation, m.issuer, m.writer, m.holder, m.reader, t.mode, t.number, t.holder, t.issuer);
  IF m.epoch IS DISTINCT FROM epoch AND current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
    -- The snapshot is older than the newest claim or adoption.
    IF verdict IS NULL AND fence.claimed(m.writer, m.reader, t.mode, t.number) THEN
      verdict := 'TK001';
    END IF;
    IF verdict IS NULL OR verdict = 'TK003' THEN
      RAISE EXCEPTION 'fence: "%" was claimed after this transaction took its snapshot', t.resource
        USING ERRCODE = 'serialization_failure', HINT = 'Run the transaction again.';
    END IF;
  ELSIF m.epoch IS DISTINCT FROM epoch THEN
    verdict := coalesce(verdict, 'TK004');  -- row and sequence were restored apart; the next claim mends it
  END IF;
  IF verdict IS NOT NULL THEN
    PERFORM fence.refuse(verdict, t.resource, t.number, m);
  END IF;
  IF NOT fence.claimed(m.writer, m.reader, t.mode, t.number) OR m.since >= begun AND NOT fence.began_under(seq, epoch) THEN
    PERFORM fence.refuse('TK004', t.resource, t.number, m);
  END IF;
  IF t.mode = 's' AND pg_current_xact_id_if_assigned() IS NOT NULL THEN
    PERFORM fence.refuse('TK008', t.resource, t.number, m);
  END IF;
END $$;

-- The tokens of a list, each for another resource.
CREATE OR REPLACE FUNCTION fence.tokens(list text) RETURNS TABLE (token text, resource text)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT l.token, p.resource FROM unnest(string_to_array(list, ',')) AS l(token), fence.parse(l.token) AS p;
  IF (SELECT count(DISTINCT p.resource) <> count(*)
        FROM unnest(string_to_array(list, ',')) AS l(token), fence.parse(l.token) AS p) THEN
    PERFORM fence.malformed('two tokens for one resource');
  END IF;
END $$;

CREATE OR REPLACE FUNCTION fence.no_token() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'fence: no token'
    USING ERRCODE = 'TK005', HINT = 'Set fence.token to the token of the lock, for example by PGOPTIONS="-c fence.token=...".';
END $$;

CREATE OR REPLACE FUNCTION fence.verify_all(tokens text, begun timestamptz, OUT seq oid, OUT epoch bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF coalesce(tokens, '') = '' THEN
    PERFORM fence.no_token();
  ELSIF strpos(tokens, ',') = 0 THEN
    SELECT v.seq, v.epoch INTO seq, epoch FROM fence.verify(tokens, begun) v;
  ELSE
    PERFORM fence.verify(t.token, begun) FROM fence.tokens(tokens) t;
  END IF;
END $$;

-- Is TOKEN current? Returns its ticket (NULLs for a list of several tokens) or raises the refusal. Holds the resource to
-- the end of the transaction: best called last, in the same message as COMMIT. With the ticket, a later check of the same
-- token is one comparison: pg_sequence_last_value(seq::regclass) = epoch, or else fence.check() again.
CREATE OR REPLACE FUNCTION fence.check(token text, OUT seq oid, OUT epoch bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  SELECT v.seq, v.epoch INTO check.seq, check.epoch FROM fence.verify_all(token, transaction_timestamp()) v;
END $$;

-- fence.check() for whoever makes sure that the claim had returned before the transaction began, as pgstore does, and
-- so need not trust the server's clock for it.
CREATE OR REPLACE FUNCTION fence.ticket(token text, OUT seq oid, OUT epoch bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  SELECT v.seq, v.epoch INTO ticket.seq, ticket.epoch FROM fence.verify_all(token, NULL) v;
END $$;

-- fence.check() of the setting fence.token; always true, or raises.
CREATE OR REPLACE FUNCTION fence.check() RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM fence.verify_all(current_setting('fence.token', true), transaction_timestamp());
  RETURN true;
END $$;

-- The whole fence rests on one thing that the manual does not promise: that pg_sequence_last_value() locks the sequence
-- it reads. Raises unless this server still does.
CREATE SEQUENCE IF NOT EXISTS fence.selftest_seq MINVALUE 0 NO CYCLE;
SELECT pg_catalog.setval('fence.selftest_seq', 0);
CREATE OR REPLACE FUNCTION fence.selftest() RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF pg_sequence_last_value('fence.selftest_seq') IS DISTINCT FROM 0 OR NOT EXISTS (
    SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND granted AND locktype = 'relation'
       AND relation = 'fence.selftest_seq'::regclass AND mode = 'RowExclusiveLock') THEN
    RAISE EXCEPTION 'fence: pg_sequence_last_value() takes no lock on this server, so nothing can be fenced here'
      USING ERRCODE = 'TK007', HINT = 'Please report it with the output of SELECT version().';
  END IF;
  RETURN true;
END $$;
SELECT fence.selftest();

DO $$
BEGIN
  IF fence.version() < 3 THEN
    CREATE OR REPLACE FUNCTION fence.version() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 3;
  END IF;
END $$;

SELECT fence.seal();
GRANT EXECUTE ON FUNCTION fence.check(text), fence.check(), fence.ticket(text), fence.selftest() TO PUBLIC;
RESET ROLE;
RESET search_path;
