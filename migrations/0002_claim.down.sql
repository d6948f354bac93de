-- fence: away with claims, evictions and adoptions. The marks stay.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);
SELECT pg_catalog.set_config('role', pg_catalog.pg_get_userbyid(nspowner), false)
  FROM pg_catalog.pg_namespace WHERE nspname = 'fence';
DROP FUNCTION IF EXISTS fence.claim(text, interval, boolean), fence.adopt(text, text, interval, boolean), fence.evict(text, bigint),
  fence.blockers(text), fence.holders(text), fence.terminate(int), fence.limit_waits(timestamptz), fence.still_blocked(text, interval),
  fence.make_way(text, bigint, int, interval, boolean), fence.lock_claims(text, bigint, interval, boolean, timestamptz),
  fence.end_admissions(fence.marks, interval, boolean, timestamptz), fence.in_step(fence.marks), fence.own_transaction(text),
  fence.claim_key(text), fence.presence_of(bigint), fence.sequence_of(int);
DO $$
BEGIN
  IF to_regprocedure('fence.version()') IS NOT NULL THEN
    IF fence.version() > 1 THEN
      CREATE OR REPLACE FUNCTION fence.version() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 1;
    END IF;
  END IF;
END $$;
RESET ROLE;
RESET search_path;
