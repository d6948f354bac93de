-- fence: the check as constraints of domains, for a proxy that puts it in front of a client's own message.
--
-- A proxy prepares an empty statement whose parameters have these types, and sends a Bind of it and a Close: the server
-- converts the values in Bind, and so checks there, in the transaction that the client's message goes on with. There are
-- no rows, no Execute and no text of the client's that changes. Each constraint is true or raises.
--
-- Open sessions know the domains by their oids, so a later file changes a constraint by ALTER DOMAIN and drops no domain.

SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);
SELECT pg_catalog.set_config('role', pg_catalog.pg_get_userbyid(nspowner), false)
  FROM pg_catalog.pg_namespace WHERE nspname = 'fence';

-- What the proxy grants to sessions without a token.
CREATE OR REPLACE FUNCTION fence.known_policy(policy text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF policy IS NULL OR policy NOT IN ('read-only', 'deny', 'allow') THEN
    RAISE EXCEPTION 'fence: unknown policy %', quote_nullable(policy)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'It is read-only, deny or allow.';
  END IF;
END $$;

-- Before a transaction's first snapshot, from which on nobody can make it read-write again (but by RESET
-- transaction_read_only before PostgreSQL 16, hence fence.leave()). Not below a savepoint: read-only ends with it.
CREATE OR REPLACE FUNCTION fence.enter(policy text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  tokens text := coalesce(current_setting('fence.token', true), '');
BEGIN
  PERFORM fence.known_policy(policy);
  IF tokens <> '' THEN
    PERFORM fence.check();
  ELSIF policy = 'deny' THEN
    PERFORM fence.no_token();
  END IF;
  IF tokens = '' AND policy = 'read-only' OR strpos(',' || tokens, ',ft1:s:') > 0 THEN
    PERFORM set_config('transaction_read_only', 'on', true);
  END IF;
  RETURN true;
END $$;

-- The last thing before COMMIT: has a transaction written that may not? Whatever took a transaction id counts.
CREATE OR REPLACE FUNCTION fence.leave(policy text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM fence.known_policy(policy);
  IF coalesce(current_setting('fence.token', true), '') <> '' THEN
    RETURN fence.check();
  ELSIF policy <> 'allow' AND pg_current_xact_id_if_assigned() IS NOT NULL THEN
    RAISE EXCEPTION 'fence: this transaction has written without a token'
      USING ERRCODE = 'TK005', HINT = 'Set fence.token before the transaction begins. A write to a temporary table counts, too.';
  END IF;
  RETURN true;
END $$;

CREATE OR REPLACE FUNCTION fence.unbound() RETURNS boolean LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'fence: the token was changed inside of this transaction'
    USING ERRCODE = 'TK004', HINT = 'A token that is set inside of a transaction block counts from the next block on.';
END $$;

-- Raises what the proxy says: 'TK007 message', and a hint after a line feed; '57014 message' if the client has cancelled what the
-- proxy did for it, since clients know a cancel by that code. Anybody may call it, so that is all it does.
CREATE OR REPLACE FUNCTION fence.raise_refusal(said text) RETURNS boolean LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  message text := split_part(substr(said, 7), E'\n', 1);
  hint    text := substr(said, 8 + length(message));
BEGIN
  IF message IS NULL OR message = '' OR said !~ '^(TK0[0-9][0-9]|57014) ' THEN
    RAISE EXCEPTION 'fence: a refusal that does not say why' USING ERRCODE = 'TK007';
  ELSIF hint = '' THEN
    RAISE EXCEPTION '%', message USING ERRCODE = left(said, 5);
  END IF;
  RAISE EXCEPTION '%', message USING ERRCODE = left(said, 5), HINT = hint;
END $$;

-- Every name in a constraint is qualified: it is resolved here, under the search_path of whoever runs this file. A NULL
-- inside, in the value or in the setting, leads to what raises.
--   holds_token   the setting is this token, else fence.check() decides
--   holds_ticket  {sequence, epoch} as fence.claim() gave it: holds the resource to the end of the transaction
--   bound_token   the setting is still the one of the last check before the block
--   leaves        fence.leave(), which a transaction without a token that has not written need not call
--   enters        fence.enter(), which a session without a token that may read need not call
--   present       {sequence, epoch}: eviction finds this transaction from here on (fence.presence_of)
--   refusal       always raises
DO $$
DECLARE
  d record;
BEGIN
  FOR d IN VALUES
    ('holds_token', 'text', $c$CASE WHEN pg_catalog.current_setting('fence.token', true) OPERATOR(pg_catalog.=) VALUE AND VALUE OPERATOR(pg_catalog.<>) ''
      THEN true ELSE fence.check() END$c$),
    ('holds_ticket', 'int8[]', $c$CASE WHEN pg_catalog.pg_sequence_last_value(VALUE[1]::pg_catalog.oid::pg_catalog.regclass) OPERATOR(pg_catalog.=) VALUE[2]
      THEN true ELSE fence.check() END$c$),
    ('bound_token', 'text', $c$CASE WHEN coalesce(pg_catalog.current_setting('fence.token', true), '') OPERATOR(pg_catalog.=) VALUE
      THEN true ELSE fence.unbound() END$c$),
    ('leaves', 'text', $c$CASE WHEN coalesce(pg_catalog.current_setting('fence.token', true), '') OPERATOR(pg_catalog.=) '' AND VALUE OPERATOR(pg_catalog.=) 'read-only'
      AND pg_catalog.pg_current_xact_id_if_assigned() IS NULL THEN true ELSE fence.leave(VALUE) END$c$),
    ('enters', 'text', $c$CASE WHEN coalesce(pg_catalog.current_setting('fence.token', true), '') OPERATOR(pg_catalog.=) '' AND VALUE OPERATOR(pg_catalog.=) 'read-only'
      THEN pg_catalog.set_config('transaction_read_only', 'on', true) IS NOT NULL ELSE fence.enter(VALUE) END$c$),
    ('present', 'int8[]', $c$pg_catalog.pg_advisory_xact_lock_shared(VALUE[1]::pg_catalog.oid::pg_catalog.int4,
      ((VALUE[2] OPERATOR(pg_catalog.<<) 32) OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4) IS NOT NULL$c$),
    ('refusal', 'text', 'fence.raise_refusal(VALUE)')
  LOOP
    IF to_regtype('fence.' || d.column1) IS NULL THEN
      EXECUTE format('CREATE DOMAIN fence.%s AS pg_catalog.%s', d.column1, d.column2);
    ELSE
      EXECUTE format('ALTER DOMAIN fence.%s DROP CONSTRAINT IF EXISTS %1$s_check', d.column1);
    END IF;
    EXECUTE format('ALTER DOMAIN fence.%s ADD CONSTRAINT %1$s_check CHECK (%s)', d.column1, d.column3);
    -- A parameter needs no privilege on its type; a column would, and would stand in the way of the next ALTER DOMAIN.
    EXECUTE format('REVOKE ALL ON DOMAIN fence.%s FROM PUBLIC', d.column1);
  END LOOP;
END $$;

DO $$
BEGIN
  IF fence.version() < 5 THEN
    CREATE OR REPLACE FUNCTION fence.version() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 5;
  END IF;
END $$;

SELECT fence.seal();
GRANT EXECUTE ON FUNCTION fence.enter(text), fence.leave(text), fence.unbound(), fence.raise_refusal(text) TO PUBLIC;
RESET ROLE;
RESET search_path;
