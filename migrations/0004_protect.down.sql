-- fence: away with the triggers. Tables that were protected take every write from here on.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);
SELECT pg_catalog.set_config('role', pg_catalog.pg_get_userbyid(nspowner), false)
  FROM pg_catalog.pg_namespace WHERE nspname = 'fence';
DROP VIEW IF EXISTS fence.status;
DROP FUNCTION IF EXISTS fence.protect(regclass, text), fence.unprotect(regclass), fence.resource_of(regclass), fence.family(regclass), fence.ancestors(regclass),
  fence.token_for(text, text), fence.refuse_write(text, text, text);
DROP FUNCTION IF EXISTS fence.guard() CASCADE;
DO $$
BEGIN
  IF to_regprocedure('fence.version()') IS NOT NULL THEN
    IF fence.version() > 3 THEN
      CREATE OR REPLACE FUNCTION fence.version() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 3;
    END IF;
  END IF;
END $$;
RESET ROLE;
RESET search_path;
