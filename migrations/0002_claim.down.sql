-- fence: away with claims, evictions and adoptions. The marks stay.
DROP FUNCTION IF EXISTS fence.claim(text, interval, boolean), fence.adopt(text, text, interval, boolean), fence.evict(text, bigint),
  fence.blockers(text), fence.holders(text), fence.terminate(int), fence.limit_waits(timestamptz), fence.still_blocked(text, interval),
  fence.make_way(text, bigint, int, interval, boolean), fence.lock_claims(text, bigint, interval, boolean, timestamptz),
  fence.end_admissions(fence.marks, interval, boolean, timestamptz), fence.in_step(fence.marks), fence.own_transaction(text),
  fence.claim_key(text), fence.presence_of(bigint), fence.sequence_of(int);
CREATE OR REPLACE FUNCTION fence.version() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 1;
