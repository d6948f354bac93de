-- fence: away with the triggers. Tables that were protected take every write from here on.
DROP VIEW IF EXISTS fence.status;
DROP FUNCTION IF EXISTS fence.protect(regclass, text), fence.unprotect(regclass), fence.resource_of(regclass), fence.family(regclass), fence.ancestors(regclass),
  fence.token_for(text, text), fence.refuse_write(text, text, text);
DROP FUNCTION IF EXISTS fence.guard() CASCADE;
CREATE OR REPLACE FUNCTION fence.version() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 3;
