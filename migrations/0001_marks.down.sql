-- fence: away with all of it. The marks are gone for good, and tables that were protected take every write.
DROP SCHEMA IF EXISTS fence CASCADE;
DO $$
BEGIN
  DROP ROLE IF EXISTS fence_owner;
EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
  RAISE NOTICE 'fence: the role fence_owner stays, since another database uses it or you may not drop it';
END $$;
