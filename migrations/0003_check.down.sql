-- fence: away with the check. Nothing is fenced from here on; the marks stay.
DROP FUNCTION IF EXISTS fence.check(text), fence.check(), fence.ticket(text), fence.selftest(), fence.verify_all(text, timestamptz),
  fence.verify(text, timestamptz), fence.tokens(text), fence.no_token();
DROP SEQUENCE IF EXISTS fence.selftest_seq;
CREATE OR REPLACE FUNCTION fence.version() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 2;
