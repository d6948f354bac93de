-- fence: what a resource remembers of the tokens it has seen, and the rule that judges a token by it.
--
-- PostgreSQL 14-18. Run the numbered files in order, by `fenceproxy migrate up`, any other runner, or psql:
--     psql --single-transaction -v ON_ERROR_STOP=1 -f 0001_marks.up.sql
-- They may be run again. They need CREATE on the database, not a superuser. Everything belongs to the role fence_owner,
-- which cannot log in; without CREATEROLE, have it made first (CREATE ROLE fence_owner NOLOGIN; GRANT fence_owner TO you),
-- otherwise the objects are yours. Eviction alone needs a grant from an administrator:
--     GRANT pg_signal_backend, pg_read_all_stats TO fence_owner;

-- Names mean what PostgreSQL means by them, also where others may create what fits better in the caller's search_path.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);

-- The runner runs this statement by itself, before it does or reads anything else in the schema.
DO $$
DECLARE
  what text;
BEGIN
  WITH trusted AS (
    SELECT r.oid FROM pg_roles r WHERE r.rolsuper OR r.rolname IN ('fence_owner', current_user)
  ), held AS (
    SELECT d.classid, d.objid, d.objsubid FROM pg_depend d JOIN pg_namespace n ON n.oid = d.refobjid
     WHERE d.refclassid = 'pg_namespace'::regclass AND n.nspname = 'fence'
  )
  SELECT w INTO what FROM (
    SELECT 'belongs to ' || pg_get_userbyid(n.nspowner) FROM pg_namespace n
     WHERE n.nspname = 'fence' AND n.nspowner NOT IN (SELECT oid FROM trusted)
    UNION ALL
    SELECT 'lets ' || CASE a.grantee WHEN 0 THEN 'everybody' ELSE pg_get_userbyid(a.grantee) END || ' create in it' FROM pg_namespace n, aclexplode(n.nspacl) a
     WHERE n.nspname = 'fence' AND a.privilege_type = 'CREATE' AND a.grantee NOT IN (SELECT oid FROM trusted)
    UNION ALL
    SELECT 'has ' || pg_describe_object(h.classid, h.objid, h.objsubid) || ' of ' || pg_get_userbyid(o.refobjid)
      FROM held h
      JOIN pg_shdepend o ON o.classid = h.classid AND o.objid = h.objid AND o.deptype = 'o' AND o.refclassid = 'pg_authid'::regclass
       AND o.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
     WHERE o.refobjid NOT IN (SELECT oid FROM trusted)
    UNION ALL
    SELECT 'has ' || pg_describe_object(h.classid, h.objid, h.objsubid) || ' and no marks' FROM held h
     WHERE NOT EXISTS (SELECT FROM held k JOIN pg_class c ON c.oid = k.objid WHERE k.classid = 'pg_class'::regclass AND c.relname = 'marks')
       AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = h.objid AND h.classid = 'pg_class'::regclass AND c.relname IN ('migrations', 'migrations_id_seq'))
  ) AS found(w) LIMIT 1;
  IF what IS NOT NULL THEN
    RAISE EXCEPTION 'fence: there is a schema fence that %: what is in it would run with the rights of %', what, current_user
      USING ERRCODE = 'insufficient_privilege',
            HINT = 'If it is not the fence, drop or rename it. If it is, let its owner do this, or give what it names to the role fence_owner.';
  END IF;
END $$;

DO $$
DECLARE
  owner name;
BEGIN
  IF current_setting('server_version_num')::int < 140000 THEN
    RAISE EXCEPTION 'fence: PostgreSQL 14 or newer is needed' USING ERRCODE = '0A000';
  END IF;
  IF current_setting('server_encoding') <> 'UTF8' THEN
    RAISE EXCEPTION 'fence: the database must be encoded in UTF8, since names of resources are' USING ERRCODE = '0A000';
  END IF;
  SELECT pg_get_userbyid(nspowner) INTO owner FROM pg_namespace WHERE nspname = 'fence';
  IF to_regclass('fence.marks') IS NULL THEN
    BEGIN
      BEGIN
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'fence_owner') THEN
          CREATE ROLE fence_owner NOLOGIN;
        END IF;
      EXCEPTION WHEN duplicate_object OR unique_violation THEN
        NULL;  -- another database of this cluster was faster
      END;
      -- To act as a role took membership, and takes the option SET of it since PostgreSQL 16.
      IF current_setting('server_version_num')::int < 160000 THEN
        IF NOT pg_has_role('fence_owner', 'MEMBER') THEN
          EXECUTE format('GRANT fence_owner TO %I', current_user);
        END IF;
      ELSIF NOT pg_has_role('fence_owner', 'SET') THEN
        EXECUTE format('GRANT fence_owner TO %I WITH SET TRUE', current_user);
      END IF;
      owner := 'fence_owner';
    EXCEPTION WHEN insufficient_privilege THEN
      owner := current_user;
      RAISE WARNING 'fence: % may not use the role fence_owner, so the marks will belong to % itself', owner, owner
        USING HINT = 'An administrator can run: CREATE ROLE fence_owner NOLOGIN; GRANT fence_owner TO ' || quote_ident(current_user);
    END;
    IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'fence') THEN
      IF EXISTS (SELECT FROM pg_class WHERE relname = 'migrations' AND relnamespace = to_regnamespace('fence')) THEN  -- the runner's
        EXECUTE format('GRANT USAGE, CREATE ON SCHEMA fence TO %I', owner);
        EXECUTE format('ALTER TABLE fence.migrations OWNER TO %I', owner);
      END IF;
      EXECUTE format('ALTER SCHEMA fence OWNER TO %I', owner);
    ELSE
      EXECUTE format('CREATE SCHEMA fence AUTHORIZATION %I', owner);
    END IF;
  END IF;

  -- Only to a role that this file chose.
  IF owner IN ('fence_owner', current_user)
    AND NOT (pg_has_role(owner, 'pg_signal_backend', 'USAGE') AND pg_has_role(owner, 'pg_read_all_stats', 'USAGE')) THEN
    BEGIN
      EXECUTE format('GRANT pg_signal_backend, pg_read_all_stats TO %I', owner);
    EXCEPTION
      WHEN unique_violation THEN
        NULL;  -- another database of this cluster was faster
      WHEN insufficient_privilege THEN
        RAISE NOTICE 'fence: eviction is not possible until an administrator runs: GRANT pg_signal_backend, pg_read_all_stats TO %', quote_ident(owner);
    END;
  END IF;
END $$;

SELECT pg_catalog.set_config('role', pg_catalog.pg_get_userbyid(nspowner), false)
  FROM pg_catalog.pg_namespace WHERE nspname = 'fence';

GRANT USAGE ON SCHEMA fence TO PUBLIC;

-- A row is the mark of one resource. Its sequence fence.s_<id> holds the same epoch: 63 random bits, drawn anew
-- whenever somebody's admission ends and never used twice. What a check compares is the sequence: that one built-in
-- read locks it to the end of the transaction and sees past every snapshot.
CREATE TABLE IF NOT EXISTS fence.marks (
  resource   text COLLATE "C" PRIMARY KEY,
  id         int GENERATED ALWAYS AS IDENTITY UNIQUE,
  generation int    NOT NULL DEFAULT 0,      -- adoptions so far
  issuer     text   NOT NULL DEFAULT '',
  writer     bigint NOT NULL DEFAULT 0,      -- highest exclusive number, and its holder
  holder     text   NOT NULL DEFAULT '',
  reader     bigint NOT NULL DEFAULT 0,      -- highest shared number
  epoch      bigint NOT NULL DEFAULT 0,
  since      timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()  -- from here on no older write can be applied
) WITH (fillfactor = 50);

-- Every adoption there ever was: the log, and the memory of issuers that may not come back.
CREATE TABLE IF NOT EXISTS fence.adoptions (
  resource      text COLLATE "C" NOT NULL,
  generation    int         NOT NULL,        -- the one that began
  issuer        text        NOT NULL,        -- its issuer, and the mark that it ended:
  issuer_before text        NOT NULL,
  writer        bigint      NOT NULL,
  holder        text        NOT NULL,
  reader        bigint      NOT NULL,
  adopted_by    name        NOT NULL,
  adopted_at    timestamptz NOT NULL,
  xid           xid8        NOT NULL,
  PRIMARY KEY (resource, generation)
);

REVOKE ALL ON fence.marks, fence.adoptions FROM PUBLIC;  -- what default privileges may have given

-- A mark never goes down, whoever writes it, but by an adoption that is logged in the same transaction (I6).
CREATE OR REPLACE FUNCTION fence.keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_TABLE_NAME = 'marks' AND TG_OP = 'UPDATE' THEN
    IF NEW.resource = OLD.resource AND NEW.id = OLD.id AND NEW.generation = OLD.generation
      AND NEW.reader >= OLD.reader
      AND (NEW.writer > OLD.writer OR NEW.writer = OLD.writer AND NEW.holder = OLD.holder)
      AND (NEW.issuer = OLD.issuer OR OLD.generation = 0 AND OLD.writer = 0 AND OLD.reader = 0) THEN
      RETURN NEW;
    END IF;
    IF NEW.resource = OLD.resource AND NEW.id = OLD.id AND NEW.generation = OLD.generation + 1 AND EXISTS (
      SELECT FROM fence.adoptions a
       WHERE a.resource = NEW.resource AND a.generation = NEW.generation AND a.issuer = NEW.issuer
         AND a.xid = pg_current_xact_id()) THEN
      RETURN NEW;
    END IF;
  END IF;
  RAISE EXCEPTION 'fence: % on fence.% is refused: a mark never goes down', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'TK007', HINT = 'fence.adopt() is the only way to start the numbers of a resource again.';
END $$;
CREATE OR REPLACE TRIGGER keep BEFORE UPDATE OR DELETE ON fence.marks FOR EACH ROW EXECUTE FUNCTION fence.keep();
CREATE OR REPLACE TRIGGER keep_all BEFORE TRUNCATE ON fence.marks FOR EACH STATEMENT EXECUTE FUNCTION fence.keep();
CREATE OR REPLACE TRIGGER keep BEFORE UPDATE OR DELETE ON fence.adoptions FOR EACH ROW EXECUTE FUNCTION fence.keep();
CREATE OR REPLACE TRIGGER keep_all BEFORE TRUNCATE ON fence.adoptions FOR EACH STATEMENT EXECUTE FUNCTION fence.keep();
ALTER TABLE fence.marks ENABLE ALWAYS TRIGGER keep, ENABLE ALWAYS TRIGGER keep_all;
ALTER TABLE fence.adoptions ENABLE ALWAYS TRIGGER keep, ENABLE ALWAYS TRIGGER keep_all;

-- The rule. NULL admits; otherwise the SQLSTATE of the refusal.
CREATE OR REPLACE FUNCTION fence.judge(
  generation int, issuer text, writer bigint, holder text, reader bigint,  -- the mark
  mode text, number bigint, t_holder text, t_issuer text                   -- the token
) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
  WHEN issuer <> t_issuer AND (writer <> 0 OR reader <> 0 OR generation <> 0) THEN 'TK003'
  WHEN mode = 's' AND number = writer THEN 'TK002'
  WHEN mode = 's' AND number < writer THEN 'TK001'
  WHEN mode = 's' THEN NULL
  WHEN number = reader OR number = writer AND t_holder <> holder THEN 'TK002'
  WHEN number < writer OR number < reader THEN 'TK001'
END;

-- Of a token that the rule admits: has it been claimed?
CREATE OR REPLACE FUNCTION fence.claimed(writer bigint, reader bigint, mode text, number bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE mode WHEN 'x' THEN number = writer ELSE number <= reader END;

CREATE OR REPLACE FUNCTION fence.malformed(flaw text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'fence: malformed token: %', flaw
    USING ERRCODE = 'TK006', HINT = 'A token reads ft1:<x|s>:<number>:<holder>:<issuer>:<resource>.';
END $$;

-- Raises the refusal CODE of a token, with the mark in a DETAIL that programs can read.
CREATE OR REPLACE FUNCTION fence.refuse(code text, resource text, number bigint, m fence.marks) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  said text;
  hint text;
BEGIN
  CASE code
    WHEN 'TK001' THEN
      said := format('fence: stale token %s for "%s": a newer one has been admitted', number, resource);
      hint := 'The lock is lost. Acquire it again and start over from what is stored now.';
    WHEN 'TK002' THEN
      said := format('fence: duplicate token %s for "%s": the number was handed out twice', number, resource);
      hint := 'The lock service lost its counter. Acquire the lock again, above the mark.';
    WHEN 'TK003' THEN
      said := format('fence: token %s for "%s" comes from a foreign issuer', number, resource);
      hint := 'The resource takes its numbers from one lock service only; an operator can change it with fence.adopt().';
    WHEN 'TK004' THEN
      said := format('fence: token %s for "%s" was not claimed before this transaction began', number, resource);
      hint := 'Call fence.claim() in a transaction of its own, right after the lock was granted and before anything is read.';
    WHEN 'TK005' THEN
      said := format('fence: no token for "%s"', resource);
      hint := 'Set fence.token to the token of the lock, for example by PGOPTIONS="-c fence.token=...".';
    WHEN 'TK008' THEN
      said := format('fence: shared token %s for "%s" cannot write', number, resource);
      hint := 'Acquire the lock exclusively to write.';
  END CASE;
  IF m.id IS NULL THEN
    RAISE EXCEPTION '%', said USING ERRCODE = code, HINT = hint;
  END IF;
  RAISE EXCEPTION '%', said USING ERRCODE = code, HINT = hint, DETAIL = format(
    'mark: generation=%s writer=%s holder=%s reader=%s issuer=%s', m.generation, m.writer, m.holder, m.reader, m.issuer);
END $$;

-- What is wrong with the name of a resource; NULL if nothing is.
CREATE OR REPLACE FUNCTION fence.resource_flaw(resource text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
  WHEN resource IS NULL OR resource = '' THEN 'resource is empty'
  WHEN octet_length(resource) > 255 THEN 'resource is longer than 255 bytes'
  WHEN resource ~ ('[' || chr(1) || '-' || chr(31) || chr(127) || '-' || chr(159) || ']') THEN 'resource has a control character'
END;

-- Is ID of the alphabet of holders and issuers?
CREATE OR REPLACE FUNCTION fence.valid_id(id text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN octet_length(id) <= 64
   AND translate(id, '-_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz', '') = '';

-- Decodes the resource of a token, which percent-encodes just what must be.
CREATE OR REPLACE FUNCTION fence.unescape(escaped text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF escaped ~ '%(?![0-9A-F][0-9A-F])' THEN
    PERFORM fence.malformed('percent-encoding is not two upper-case hex digits');
  END IF;
  IF escaped ~ '%(2[DEF]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE])' THEN
    PERFORM fence.malformed('resource encodes a character that needs no encoding');
  END IF;
  RETURN (SELECT convert_from(decode(string_agg(coalesce(m[1], encode(convert_to(m[2], 'UTF8'), 'hex')), '' ORDER BY n), 'hex'), 'UTF8')
            FROM regexp_matches(escaped, '%(..)|([^%]+)', 'g') WITH ORDINALITY AS r(m, n));
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
  PERFORM fence.malformed('resource is not UTF-8');
END $$;

-- Reads the text form of one token, exactly as strictly as everything else that reads it: one text per token.
-- No regular expression on the common path: it is part of every check that has no ticket.
CREATE OR REPLACE FUNCTION fence.parse(
  token text, OUT resource text, OUT number bigint, OUT mode text, OUT holder text, OUT issuer text
) LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  part text[] := string_to_array(token, ':');
BEGIN
  IF part[1] IS DISTINCT FROM 'ft1' OR cardinality(part) <> 6 THEN
    PERFORM fence.malformed('not of the text form');
  END IF;
  mode := part[2];
  holder := part[4];
  issuer := part[5];
  resource := part[6];
  IF mode NOT IN ('x', 's') THEN
    PERFORM fence.malformed('mode is neither x nor s');
  END IF;
  IF length(part[3]) NOT BETWEEN 1 AND 19 OR ltrim(part[3], '0123456789') <> '' OR left(part[3], 1) = '0'
    OR length(part[3]) = 19 AND part[3] COLLATE "C" > '9223372036854775807' THEN
    PERFORM fence.malformed('number is not a decimal above 0 and below 2^63 without sign or leading zero');
  END IF;
  number := part[3]::bigint;
  IF NOT (fence.valid_id(holder) AND fence.valid_id(issuer)) THEN
    PERFORM fence.malformed('holder or issuer is not [A-Za-z0-9_-]{0,64}');
  END IF;
  IF translate(resource, '-./_~%0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz', '') <> '' THEN
    PERFORM fence.malformed('resource has a byte that must be percent-encoded');
  END IF;
  IF strpos(resource, '%') > 0 THEN
    resource := fence.unescape(resource);
  END IF;
  IF fence.resource_flaw(resource) IS NOT NULL THEN
    PERFORM fence.malformed(fence.resource_flaw(resource));
  END IF;
END $$;

DO $$
BEGIN
  IF to_regprocedure('fence.version()') IS NULL THEN  -- a file that runs again does not turn the version back
    CREATE FUNCTION fence.version() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 1;
  END IF;
END $$;

-- Takes every function from PUBLIC that is not named here. PostgreSQL gives it new ones by itself.
CREATE OR REPLACE FUNCTION fence.seal() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  f regprocedure;
BEGIN
  FOR f IN
    SELECT p.oid FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
     WHERE p.pronamespace = 'fence'::regnamespace AND a.grantee = 0
       AND p.proname NOT IN ('version', 'check', 'ticket', 'selftest', 'guard', 'token_for', 'refuse_write', 'family', 'ancestors', 'resource_of',
                             'resource_flaw', 'malformed', 'protect', 'unprotect', 'enter', 'leave', 'unbound', 'raise_refusal')
  LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
  END LOOP;
END $$;
SELECT fence.seal();
GRANT EXECUTE ON FUNCTION fence.version() TO PUBLIC;
RESET ROLE;
RESET search_path;
