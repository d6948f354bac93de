-- fence: a new holder's first act, and what may stand in its way.

SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);
SELECT pg_catalog.set_config('role', pg_catalog.pg_get_userbyid(nspowner), false)
  FROM pg_catalog.pg_namespace WHERE nspname = 'fence';

CREATE OR REPLACE FUNCTION fence.sequence_of(id int) RETURNS regclass LANGUAGE sql STABLE
RETURN to_regclass('fence.s_' || id);

-- Open transactions that pgstore began for an epoch of a sequence say so by a shared advisory lock on
-- (the sequence's oid, the low 32 bits of the epoch): so one can be found before it has reached its check.
CREATE OR REPLACE FUNCTION fence.presence_of(epoch bigint) RETURNS bigint LANGUAGE sql IMMUTABLE
RETURN epoch & 4294967295;

-- Claims of one resource come one at a time: each holds this advisory lock until its transaction ends.
CREATE OR REPLACE FUNCTION fence.claim_key(resource text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN hashtextextended(resource, 7203410::bigint);

-- Who holds what a claim of this resource has to wait for (a transaction that passed a check, or that merely read the
-- sequence; another claim), or row locks under an epoch that has ended. A claim may be ended only once it idles, left
-- open by its client: one that is at work ends by itself.
CREATE OR REPLACE FUNCTION fence.holders(resource text) RETURNS TABLE (
  pid int, gid text, usename name, state text, xact_start timestamptz, evictable boolean, claiming boolean
) LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  WITH m AS (
    SELECT fence.claim_key(holders.resource) AS key, k.epoch, fence.sequence_of(k.id)::oid AS seq
      FROM (SELECT) AS always LEFT JOIN fence.marks k ON k.resource = holders.resource
  ), held AS (
    SELECT l.pid, l.virtualtransaction, bool_or(l.locktype = 'advisory' AND l.objsubid = 1) AS claiming
      FROM pg_locks l, m
     WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND (l.locktype = 'relation' AND l.relation = m.seq AND l.mode NOT IN ('AccessShareLock', 'RowShareLock')
         OR l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid = m.seq AND l.mode = 'ShareLock'
            AND l.objid::bigint <> fence.presence_of(m.epoch)
         OR l.locktype = 'advisory' AND l.objsubid = 1
            AND l.classid = (m.key >> 32 & 4294967295)::oid AND l.objid = (m.key & 4294967295)::oid)
     GROUP BY l.pid, l.virtualtransaction
  )
  SELECT h.pid, p.gid, a.usename, a.state, coalesce(a.xact_start, p.prepared),
         coalesce(NOT r.rolsuper
           AND (pg_has_role(current_user, r.oid, 'USAGE') OR pg_has_role(current_user, 'pg_signal_backend', 'USAGE'))
           AND (NOT h.claiming OR a.state LIKE 'idle%' AND a.state_change < clock_timestamp() - interval '50 ms'), false),
         h.claiming
    FROM held h
    LEFT JOIN pg_stat_activity a ON a.pid = h.pid
    LEFT JOIN pg_roles r ON r.oid = a.usesysid
    LEFT JOIN pg_locks x ON h.pid IS NULL AND x.pid IS NULL AND x.locktype = 'transactionid'
                        AND x.virtualtransaction = h.virtualtransaction
    LEFT JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
$$;

-- What stands in the way of a claim of this resource, for people. A prepared transaction has a gid and no pid.
CREATE OR REPLACE FUNCTION fence.blockers(resource text)
RETURNS TABLE (pid int, gid text, usename name, state text, xact_start timestamptz, evictable boolean)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT h.pid, h.gid, h.usename, h.state, h.xact_start, h.evictable FROM fence.holders(resource) h
$$;

-- Ends the session PID and says whether that was possible.
CREATE OR REPLACE FUNCTION fence.terminate(pid int) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN pg_terminate_backend(pid);
EXCEPTION WHEN insufficient_privilege THEN
  RETURN false;
END $$;

-- Ends the sessions whose open transactions hold the resource under numbers below BELOW, or under an admission that has
-- ended, and returns their pids. What cannot be ended (a prepared transaction, a superuser's session) stays in blockers().
CREATE OR REPLACE FUNCTION fence.evict(resource text, below bigint) RETURNS SETOF int
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  m     fence.marks;
  held  record;
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'fence: fence.evict() needs READ COMMITTED' USING ERRCODE = 'TK007';
  END IF;
  -- List first, then read the mark: while it is below BELOW, nobody on the list can have come with BELOW or more, but for a
  -- claim that has not ended: it may be newer, and if it is at work it ends by itself.
  FOR held IN
    WITH claims AS MATERIALIZED (SELECT h.pid FROM fence.holders(evict.resource) h WHERE h.claiming AND NOT h.evictable AND h.pid IS NOT NULL)
    SELECT l.pid, l.locktype, l.objid::bigint AS presence
      FROM fence.marks k
      JOIN pg_locks l ON l.granted AND l.pid <> pg_backend_pid()
       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND (l.locktype = 'relation' AND l.relation = fence.sequence_of(k.id) AND l.mode = 'RowExclusiveLock'
         OR l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid = fence.sequence_of(k.id)::oid AND l.mode = 'ShareLock')
     WHERE k.resource = evict.resource AND l.pid NOT IN (SELECT c.pid FROM claims c)
     ORDER BY l.pid
  LOOP
    SELECT * INTO m FROM fence.marks k WHERE k.resource = evict.resource;
    IF greatest(m.writer, m.reader) < below OR held.locktype = 'advisory' AND held.presence <> fence.presence_of(m.epoch) THEN
      -- A statement of its own: NULL AND terminate() would call it.
      IF fence.terminate(held.pid) THEN
        RETURN NEXT held.pid;
      END IF;
    END IF;
  END LOOP;
END $$;

CREATE OR REPLACE FUNCTION fence.limit_waits(until timestamptz) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  ms numeric := extract(epoch FROM until - clock_timestamp()) * 1000;
BEGIN
  PERFORM set_config('lock_timeout', greatest(1, least(2147483647, floor(ms)))::text, true);  -- 0 would be no limit
END $$;

CREATE OR REPLACE FUNCTION fence.still_blocked(resource text, wait interval) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  who text;
BEGIN
  SELECT string_agg(CASE
      WHEN b.gid IS NOT NULL THEN format('prepared transaction %L, prepared at %s', b.gid, b.xact_start)
      ELSE format('pid %s, user %s, %s since %s%s', b.pid, coalesce(b.usename, '?'), coalesce(b.state, 'open'),
                  coalesce(b.xact_start::text, '?'), CASE WHEN b.evictable THEN '' ELSE ', not evictable' END)
    END, E'\n' ORDER BY b.pid, b.gid) INTO who FROM fence.blockers(resource) b;
  RAISE EXCEPTION 'fence: the claim of "%" still waits for older transactions after %', resource, wait
    USING ERRCODE = 'lock_not_available', DETAIL = coalesce(who, 'whoever it was has just ended, or holds a lock on fence.marks'),
          HINT = 'Let them end, claim with evict, or end a prepared one by ROLLBACK PREPARED or COMMIT PREPARED.';
END $$;

-- What a claim does when its wait has run out: fails, or with EVICT ends who stands in its way so that it can try again.
-- Sessions need a moment to end, and others come meanwhile, hence up to 40 rounds, which wait 50 ms each.
CREATE OR REPLACE FUNCTION fence.make_way(resource text, below bigint, round int, wait interval, evict boolean) RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT evict OR round >= 40
    OR round > 2 AND (SELECT NOT bool_or(h.evictable OR h.claiming AND h.pid IS NOT NULL) FROM fence.holders(resource) h) THEN  -- NULL: nobody is left
    PERFORM fence.still_blocked(resource, wait);
  END IF;
  IF below IS NULL THEN
    PERFORM fence.terminate(h.pid) FROM fence.holders(resource) h WHERE h.evictable AND NOT h.claiming;
  ELSE
    PERFORM fence.evict(resource, below);
    PERFORM fence.terminate(h.pid) FROM fence.holders(resource) h WHERE h.evictable AND h.claiming;
  END IF;
  RETURN clock_timestamp() + interval '50 ms';
END $$;

-- Makes the caller the only one who claims the resource, to the end of its transaction. Until it is, the others may be
-- newer: only what is below BELOW is ended.
CREATE OR REPLACE FUNCTION fence.lock_claims(resource text, below bigint, wait interval, evict boolean, until timestamptz) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  FOR round IN 1..40 LOOP
    BEGIN
      PERFORM fence.limit_waits(until);
      PERFORM pg_advisory_xact_lock(fence.claim_key(resource));
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      NULL;
    END;
    until := fence.make_way(resource, below, round, wait, evict);
  END LOOP;
END $$;

-- Waits until every transaction that passed a check has ended, and draws the next epoch. From its return to the end of
-- the transaction every check waits. The caller holds the lock of claims, so the mark stays as it is.
CREATE OR REPLACE FUNCTION fence.end_admissions(m fence.marks, wait interval, evict boolean, until timestamptz) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  hex text := replace(gen_random_uuid()::text, '-', '');
BEGIN
  IF fence.sequence_of(m.id) IS NULL THEN
    EXECUTE format('CREATE SEQUENCE fence.s_%s MINVALUE 0', m.id);
    EXECUTE format('REVOKE ALL ON SEQUENCE fence.s_%s FROM PUBLIC', m.id);  -- what default privileges may have given
    EXECUTE format('GRANT SELECT ON SEQUENCE fence.s_%s TO PUBLIC', m.id);
  END IF;
  FOR round IN 1..40 LOOP
    BEGIN
      PERFORM fence.limit_waits(until);
      -- ShareRowExclusive: waits for every checked transaction. A new relfilenode: makes setval transactional.
      EXECUTE format('ALTER SEQUENCE fence.s_%s NO CYCLE', m.id);
      -- 63 of a random UUID's bits, none of the fixed ones (version and variant).
      RETURN ('x' || substr(hex, 1, 12) || substr(hex, 29, 4))::bit(64)::bigint & 9223372036854775807;
    EXCEPTION WHEN lock_not_available THEN
      NULL;
    END;
    until := fence.make_way(m.resource, NULL, round, wait, evict);
  END LOOP;
END $$;

-- Once per grant and store: raises the mark to TOKEN, before its holder reads or writes anything. Waits at most WAIT for
-- the transactions whose admission it ends; then ends their sessions if EVICT, which may take up to 2 s more, and fails
-- with 55P03 and names them otherwise, or if that does not help.
-- Returns the ticket with which a check is one comparison. A token already claimed is claimed again at no cost, or where there
-- is a synchronous standby at that of a record in the log; with EVICT that ends who has begun under an older one meanwhile.
CREATE OR REPLACE FUNCTION fence.claim(
  token text, wait interval DEFAULT '10s', evict boolean DEFAULT false, OUT seq oid, OUT epoch bigint
) LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  t       record;
  m       fence.marks;
  verdict text;
  until   timestamptz := clock_timestamp() + least(greatest(coalesce(wait, '0'), '0'), interval '24 days');
  waits   text := current_setting('lock_timeout');
  settled boolean;
BEGIN
  IF coalesce(token, '') = '' THEN
    RAISE EXCEPTION 'fence: no token to claim' USING ERRCODE = 'TK005';
  END IF;
  SELECT * INTO t FROM fence.parse(token);
  PERFORM fence.own_transaction('fence.claim()');
  evict := coalesce(evict, false);

  FOR attempt IN 1..2 LOOP
    SELECT * INTO m FROM fence.marks k WHERE k.resource = t.resource;
    IF m.id IS NOT NULL THEN
      verdict := fence.judge(m.generation, m.issuer, m.writer, m.holder, m.reader, t.mode, t.number, t.holder, t.issuer);
      IF verdict IS NOT NULL THEN
        PERFORM fence.refuse(verdict, t.resource, t.number, m);        -- before anything is locked
      END IF;
      IF attempt = 2 AND t.mode = 's' AND m.reader > m.writer AND t.number > m.reader AND fence.in_step(m) THEN
        -- A further reader ends nobody's admission and waits for nobody who was admitted.
        UPDATE fence.marks k SET reader = t.number WHERE k.id = m.id RETURNING * INTO m;
      END IF;
      settled := fence.claimed(m.writer, m.reader, t.mode, t.number) AND fence.in_step(m);
      EXIT WHEN settled;
    END IF;
    EXIT WHEN attempt = 2;
    PERFORM fence.lock_claims(t.resource, t.number, wait, evict, until);
  END LOOP;

  IF coalesce(settled, false) AND evict THEN
    -- Who began under an older token since that was claimed can no longer commit either (I4).
    PERFORM fence.evict(t.resource, 0);
  ELSIF NOT coalesce(settled, false) THEN
    IF m.id IS NULL THEN
      INSERT INTO fence.marks (resource) VALUES (t.resource) RETURNING * INTO m;
    END IF;
    epoch := fence.end_admissions(m, wait, evict, until);
    UPDATE fence.marks k SET
        issuer = t.issuer,
        writer = CASE t.mode WHEN 'x' THEN t.number ELSE k.writer END,
        holder = CASE t.mode WHEN 'x' THEN t.holder ELSE k.holder END,
        reader = CASE t.mode WHEN 's' THEN greatest(t.number, k.reader) ELSE k.reader END,
        epoch = claim.epoch, since = clock_timestamp()
     WHERE k.resource = t.resource RETURNING * INTO m;
    PERFORM setval(fence.sequence_of(m.id), epoch);
    IF evict THEN
      -- Whoever is left can no longer commit, but may hold row locks that the new holder needs (I4).
      PERFORM fence.terminate(h.pid) FROM fence.holders(t.resource) h WHERE h.evictable AND NOT h.claiming;
    END IF;
  END IF;

  IF coalesce(settled, false) AND current_setting('synchronous_standby_names') <> '' THEN
    -- Whoever claimed it first may have given up while its COMMIT waited for a standby, which leaves it committed here alone: a
    -- transaction that writes waits for all that came before it.
    PERFORM pg_logical_emit_message(true, 'fence', '');
  END IF;
  -- A claim is durable whatever the session's default (a SET clause of this function would end before the commit).
  IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  PERFORM set_config('lock_timeout', waits, true);
  seq := fence.sequence_of(m.id);
  epoch := m.epoch;
END $$;

-- Do the row and its sequence hold the same epoch? They always do, unless somebody restored one without the other; then
-- the next claim draws a new one.
CREATE OR REPLACE FUNCTION fence.in_step(m fence.marks) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  held bigint;
BEGIN
  IF fence.sequence_of(m.id) IS NULL THEN
    RETURN false;
  END IF;
  FOR attempt IN 1..20 LOOP
    BEGIN
      EXECUTE format('SELECT last_value FROM fence.s_%s', m.id) INTO held;  -- AccessShare: waits for no claim
      RETURN held = m.epoch;
    EXCEPTION WHEN data_corrupted OR undefined_file THEN
      NULL;  -- a claim has just given the sequence another file: "could not read block 0"
    END;
  END LOOP;
  RETURN false;
END $$;

-- Refuses to go on unless the caller stands at the start of a READ COMMITTED transaction of its own.
CREATE OR REPLACE FUNCTION fence.own_transaction(what text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN  -- the same in PostgreSQL
    RAISE EXCEPTION 'fence: % needs READ COMMITTED', what
      USING ERRCODE = 'TK007', HINT = 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT ...; COMMIT';
  END IF;
  IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
    RAISE EXCEPTION 'fence: % needs a transaction of its own, and this one has written already', what
      USING ERRCODE = 'TK007', HINT = 'Call it outside of a transaction block.';
  END IF;
END $$;

-- An operator's act: from now on RESOURCE takes its numbers from ISSUER, and they start again. Waits, ends admissions
-- and is durable as a claim is; logged in fence.adoptions. An issuer that the resource had before cannot come back,
-- since its old tokens would come back with it.
CREATE OR REPLACE FUNCTION fence.adopt(resource text, issuer text, wait interval DEFAULT '10s', evict boolean DEFAULT false)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  m     fence.marks;
  next  bigint;
  until timestamptz := clock_timestamp() + least(greatest(coalesce(wait, '0'), '0'), interval '24 days');
BEGIN
  IF fence.resource_flaw(resource) IS NOT NULL THEN
    PERFORM fence.malformed(fence.resource_flaw(resource));
  END IF;
  IF issuer IS NULL OR NOT fence.valid_id(issuer) THEN
    PERFORM fence.malformed('issuer is not [A-Za-z0-9_-]{0,64}');
  END IF;
  PERFORM fence.own_transaction('fence.adopt()');
  evict := coalesce(evict, false);
  PERFORM fence.lock_claims(resource, 9223372036854775807, wait, evict, until);
  SELECT * INTO m FROM fence.marks k WHERE k.resource = resource;
  IF m.id IS NULL THEN
    INSERT INTO fence.marks (resource) VALUES (resource) RETURNING * INTO m;
  ELSIF issuer = m.issuer AND (m.generation > 0 OR m.writer > 0 OR m.reader > 0)
    OR EXISTS (SELECT FROM fence.adoptions a WHERE a.resource = resource AND issuer IN (a.issuer, a.issuer_before)
                 AND (issuer <> a.issuer_before OR a.generation > 1 OR a.writer > 0 OR a.reader > 0)) THEN
    RAISE EXCEPTION 'fence: issuer "%" has been the issuer of "%" before', issuer, resource
      USING ERRCODE = 'TK003', HINT = 'Give the lock service a new issuer id first: the old one''s tokens must not become current again.';
  END IF;
  next := fence.end_admissions(m, wait, evict, until);
  INSERT INTO fence.adoptions VALUES
    (resource, m.generation + 1, issuer, m.issuer, m.writer, m.holder, m.reader, session_user, clock_timestamp(), pg_current_xact_id());
  UPDATE fence.marks k SET generation = k.generation + 1, issuer = adopt.issuer, writer = 0, holder = '', reader = 0,
         epoch = next, since = clock_timestamp()
   WHERE k.resource = resource;
  PERFORM setval(fence.sequence_of(m.id), next);
  IF evict THEN
    PERFORM fence.terminate(h.pid) FROM fence.holders(resource) h WHERE h.evictable AND NOT h.claiming;
  END IF;
  PERFORM set_config('synchronous_commit', 'on', true);
END $$;

DO $$
BEGIN
  IF fence.version() < 2 THEN
    CREATE OR REPLACE FUNCTION fence.version() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 2;
  END IF;
END $$;

SELECT fence.seal();
RESET ROLE;
RESET search_path;
