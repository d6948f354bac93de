-- fence: away with what proxies check by. Those that run refuse every statement of a session with a token from here on.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);
SELECT pg_catalog.set_config('role', pg_catalog.pg_get_userbyid(nspowner), false)
  FROM pg_catalog.pg_namespace WHERE nspname = 'fence';
DROP DOMAIN IF EXISTS fence.holds_token, fence.holds_ticket, fence.bound_token, fence.leaves, fence.enters, fence.present, fence.refusal;
DROP FUNCTION IF EXISTS fence.enter(text), fence.leave(text), fence.unbound(), fence.raise_refusal(text), fence.known_policy(text);
DO $$
BEGIN
  IF to_regprocedure('fence.version()') IS NOT NULL THEN
    IF fence.version() > 4 THEN
      CREATE OR REPLACE FUNCTION fence.version() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 4;
    END IF;
  END IF;
END $$;
RESET ROLE;
RESET search_path;
