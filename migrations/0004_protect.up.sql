-- fence: tables that refuse stale writes themselves, from any client.

SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);
SELECT pg_catalog.set_config('role', pg_catalog.pg_get_userbyid(nspowner), false)
  FROM pg_catalog.pg_namespace WHERE nspname = 'fence';

-- The token for RESOURCE in a list of tokens, NULL if there is none.
CREATE OR REPLACE FUNCTION fence.token_for(tokens text, resource text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT t.token FROM fence.tokens(tokens) t WHERE t.resource = token_for.resource);
END $$;

-- Refuses on behalf of a protected table: SQLSTATE and the text that names it.
CREATE OR REPLACE FUNCTION fence.refuse_write(code text, resource text, what text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF code = 'TK005' THEN
    RAISE EXCEPTION 'fence: writing % needs a token for "%"', what, resource
      USING ERRCODE = code, HINT = 'Set fence.token to the token of the lock, for example by PGOPTIONS="-c fence.token=...".';
  END IF;
  RAISE EXCEPTION 'fence: a shared token for "%" cannot write %', resource, what
    USING ERRCODE = code, HINT = 'Acquire the lock exclusively to write.';
END $$;

-- The trigger of protected tables; its argument is the resource. The first write of a transaction checks, the others see
-- by a setting that ends with the transaction, or with the savepoint that is rolled back, that it has. No SET search_path
-- but every name qualified: it runs once per statement.
CREATE OR REPLACE FUNCTION fence.guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  tokens pg_catalog.text := pg_catalog.current_setting('fence.token', true);
  passed pg_catalog.text := pg_catalog.concat(TG_ARGV[0], '=', tokens, '@', pg_catalog.transaction_timestamp());
  token  pg_catalog.text;
BEGIN
  IF pg_catalog.current_setting('fence.checked', true) OPERATOR(pg_catalog.=) passed THEN
    RETURN NULL;
  END IF;
  token := fence.token_for(tokens, TG_ARGV[0]);
  IF token IS NULL THEN
    PERFORM fence.refuse_write('TK005', TG_ARGV[0], pg_catalog.concat(TG_TABLE_SCHEMA, '.', TG_TABLE_NAME));
  END IF;
  PERFORM fence.check(token);
  IF token OPERATOR(pg_catalog.~~) 'ft1:s:%' THEN
    PERFORM fence.refuse_write('TK008', TG_ARGV[0], pg_catalog.concat(TG_TABLE_SCHEMA, '.', TG_TABLE_NAME));
  END IF;
  PERFORM pg_catalog.set_config('fence.checked', passed, true);
  RETURN NULL;
END $$;

-- TAB and every partition and child of it: a statement trigger fires only on the table that the statement names.
CREATE OR REPLACE FUNCTION fence.family(tab regclass) RETURNS SETOF regclass LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE f(t) AS (
    SELECT tab::oid UNION SELECT i.inhrelid FROM pg_inherits i JOIN f ON i.inhparent = f.t
  ) SELECT t::regclass FROM f
$$;

-- What TAB is a partition or child of: a statement that names one of these writes rows of TAB past TAB's trigger.
CREATE OR REPLACE FUNCTION fence.ancestors(tab regclass) RETURNS SETOF regclass LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE a(t) AS (
    SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = tab UNION SELECT i.inhparent FROM pg_inherits i JOIN a ON i.inhrelid = a.t
  ) SELECT t::regclass FROM a
$$;

-- The resource that TAB's trigger names, NULL if it has none that is always enabled on writes and on TRUNCATE.
CREATE OR REPLACE FUNCTION fence.resource_of(tab regclass) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT convert_from(substr(g.tgargs, 1, length(g.tgargs) - 1), 'UTF8')
    FROM pg_trigger g
   WHERE g.tgrelid = tab AND g.tgfoid = 'fence.guard()'::regprocedure AND g.tgenabled = 'A' AND g.tgnargs = 1
   GROUP BY g.tgargs
  HAVING bool_or(g.tgtype & 32 <> 0) AND bool_or(g.tgtype & 28 = 28)
$$;

-- From now on TAB and its partitions take writes only under a current exclusive token for RESOURCE. The caller must own
-- TAB. Run it again after a partition was attached; fence.status shows which are missing.
CREATE OR REPLACE FUNCTION fence.protect(tab regclass, resource text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  t     regclass;
  other text;
BEGIN
  IF fence.resource_flaw(resource) IS NOT NULL THEN
    PERFORM fence.malformed(fence.resource_flaw(resource));
  END IF;
  FOR t IN SELECT f FROM fence.family(tab) f LOOP
    other := fence.resource_of(t);
    IF other <> resource THEN
      RAISE EXCEPTION 'fence: table % is protected for "%" already', t, other
        USING ERRCODE = 'duplicate_object', HINT = format('First run: SELECT fence.unprotect(%L)', t);
    END IF;
    IF (SELECT relkind FROM pg_class WHERE oid = t) NOT IN ('r', 'p') THEN
      RAISE EXCEPTION 'fence: % is not a table', t USING ERRCODE = 'TK007', HINT = 'Protect the tables beneath it.';
    END IF;
    EXECUTE format('CREATE OR REPLACE TRIGGER "!fence" BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH STATEMENT EXECUTE FUNCTION fence.guard(%L)', t, resource);
    EXECUTE format('CREATE OR REPLACE TRIGGER "!fence_truncate" BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION fence.guard(%L)', t, resource);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER "!fence", ENABLE ALWAYS TRIGGER "!fence_truncate"', t);
  END LOOP;
  SELECT a INTO t FROM fence.family(tab) f, fence.ancestors(f) a WHERE fence.resource_of(a) IS DISTINCT FROM resource LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'fence: rows of % can be written through %, which is not protected for "%"', tab, t, resource
      USING ERRCODE = 'TK007', HINT = format('Run instead: SELECT fence.protect(%L, %L)', t, resource);
  END IF;
END $$;

CREATE OR REPLACE FUNCTION fence.unprotect(tab regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  t regclass;
BEGIN
  FOR t IN SELECT f FROM fence.family(tab) f LOOP
    EXECUTE format('DROP TRIGGER IF EXISTS "!fence" ON %s', t);
    EXECUTE format('DROP TRIGGER IF EXISTS "!fence_truncate" ON %s', t);
  END LOOP;
END $$;

-- Every protected table with its partitions, its children and what it is one of, those included that were attached later
-- and are not protected.
CREATE OR REPLACE VIEW fence.status AS
  SELECT DISTINCT f.member AS relation, pg_catalog.convert_from(pg_catalog.substr(g.tgargs, 1, pg_catalog.length(g.tgargs) - 1), 'UTF8') AS resource,
         coalesce(fence.resource_of(f.member) = pg_catalog.convert_from(pg_catalog.substr(g.tgargs, 1, pg_catalog.length(g.tgargs) - 1), 'UTF8'), false) AS protected
    FROM pg_catalog.pg_trigger g, LATERAL (SELECT fence.family(g.tgrelid) UNION SELECT fence.ancestors(g.tgrelid)) AS f(member)
   WHERE g.tgfoid = 'fence.guard()'::pg_catalog.regprocedure AND g.tgnargs = 1;

DO $$
BEGIN
  IF fence.version() < 4 THEN
    CREATE OR REPLACE FUNCTION fence.version() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 4;
  END IF;
END $$;

SELECT fence.seal();
GRANT EXECUTE ON FUNCTION fence.guard(), fence.token_for(text, text), fence.refuse_write(text, text, text), fence.family(regclass),
  fence.ancestors(regclass), fence.resource_of(regclass), fence.resource_flaw(text), fence.malformed(text), fence.protect(regclass, text), fence.unprotect(regclass) TO PUBLIC;
GRANT SELECT ON fence.status TO PUBLIC;
RESET ROLE;
RESET search_path;
