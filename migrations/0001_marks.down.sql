-- fence: away with all of it. The marks are gone for good, and tables that were protected take every write.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);
SELECT pg_catalog.set_config('role', pg_catalog.pg_get_userbyid(nspowner), false)
  FROM pg_catalog.pg_namespace WHERE nspname = 'fence';
DROP SCHEMA IF EXISTS fence CASCADE;
RESET ROLE;
DO $$
BEGIN
  DROP ROLE IF EXISTS fence_owner;
EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
  RAISE NOTICE 'fence: the role fence_owner stays, since another database uses it or you may not drop it';
END $$;
RESET search_path;
