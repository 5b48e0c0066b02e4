/* pg_vault_tde--1.0.sql */

-- complain if the script is sourced in psql rather than through CREATE EXTENSION
\echo Use "CREATE EXTENSION pg_vault_tde" to load this file. \quit

GRANT USAGE ON SCHEMA vault_tde TO PUBLIC;

-- The data keys, wrapped by a key provider. Rows are written by this extension's functions only. Not an ordinary table but a
-- materialized view: no publication contains it, FOR ALL TABLES included, and no SQL statement changes its rows. What it is
-- a view of is its own content, so that REFRESH keeps it. It is an ordinary heap on disk, so its rows reach standbys and
-- backups. They are not dumped: a restored database gets keys of its own, and pg_upgrade brings the relation's file along.
CREATE FUNCTION vault_tde.data_keys_rows()
    RETURNS TABLE (generation int, key_id uuid, provider text, wrapped bytea, kek_version int, created_at timestamptz)
    LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'vault_tde_data_keys_rows';
REVOKE ALL ON FUNCTION vault_tde.data_keys_rows() FROM PUBLIC;

CREATE MATERIALIZED VIEW vault_tde.data_keys
    USING heap WITH (user_catalog_table = true)
    AS SELECT generation, key_id, provider, wrapped, kek_version, created_at FROM vault_tde.data_keys_rows();
COMMENT ON MATERIALIZED VIEW vault_tde.data_keys IS
    'wrapped data keys of this database; without them encrypted tables cannot be read';

CREATE FUNCTION vault_tde.generations_in_use() RETURNS TABLE (relation regclass, generation int, tuples bigint)
    LANGUAGE C STRICT STABLE PARALLEL RESTRICTED COST 100000 AS 'MODULE_PATHNAME', 'vault_tde_generations_in_use';
COMMENT ON FUNCTION vault_tde.generations_in_use() IS
    'reads all encrypted relations and counts their tuples by key generation (NULL: it cannot be told)';
REVOKE ALL ON FUNCTION vault_tde.generations_in_use() FROM PUBLIC;

-- The column "relations" costs reading all encrypted relations, if it is asked for.
CREATE VIEW vault_tde.keys AS
    SELECT generation, key_id, provider, created_at, generation = max(generation) OVER () AS is_current,
           (SELECT count(*) FROM vault_tde.generations_in_use() u WHERE u.generation = k.generation) AS relations
    FROM vault_tde.data_keys k;
COMMENT ON VIEW vault_tde.keys IS 'key generations of this database; the current one encrypts, all decrypt';

CREATE FUNCTION vault_tde.encrypted_toast_handler(internal) RETURNS table_am_handler
    LANGUAGE C STRICT AS 'MODULE_PATHNAME';
CREATE ACCESS METHOD encrypted_toast TYPE TABLE HANDLER vault_tde.encrypted_toast_handler;
COMMENT ON ACCESS METHOD encrypted_toast IS 'for the TOAST tables of encrypted tables only';

CREATE FUNCTION vault_tde.encrypted_heap_handler(internal) RETURNS table_am_handler
    LANGUAGE C STRICT AS 'MODULE_PATHNAME';
CREATE ACCESS METHOD encrypted_heap TYPE TABLE HANDLER vault_tde.encrypted_heap_handler;
COMMENT ON ACCESS METHOD encrypted_heap IS 'heap table access method whose rows are encrypted';

-- TOAST tables have no dependency on their access method. Tables depend on encrypted_heap, so let that depend on
-- encrypted_toast: then DROP EXTENSION ... CASCADE has dropped all tables before it.
INSERT INTO pg_catalog.pg_depend (classid, objid, objsubid, refclassid, refobjid, refobjsubid, deptype)
    SELECT 'pg_catalog.pg_am'::regclass, h.oid, 0, 'pg_catalog.pg_am'::regclass, t.oid, 0, 'n'
    FROM pg_catalog.pg_am h, pg_catalog.pg_am t
    WHERE h.amname = 'encrypted_heap' AND t.amname = 'encrypted_toast';

CREATE FUNCTION vault_tde.rotate_key() RETURNS int
    LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'vault_tde_rotate_key';
COMMENT ON FUNCTION vault_tde.rotate_key() IS 'makes a new data key, which encrypts from the commit on; returns its generation';
REVOKE ALL ON FUNCTION vault_tde.rotate_key() FROM PUBLIC;

CREATE FUNCTION vault_tde.rewrap_keys() RETURNS int
    LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'vault_tde_rewrap_keys';
COMMENT ON FUNCTION vault_tde.rewrap_keys() IS
    'wraps all data keys anew, by the key provider that is configured now; returns their number';
REVOKE ALL ON FUNCTION vault_tde.rewrap_keys() FROM PUBLIC;

CREATE PROCEDURE vault_tde.reencrypt(relation regclass, batch_size int DEFAULT 1000)
    LANGUAGE C AS 'MODULE_PATHNAME', 'vault_tde_reencrypt';
COMMENT ON PROCEDURE vault_tde.reencrypt(regclass, int) IS
    'encrypts what is under older key generations under the current one, in batches that are each a transaction';
REVOKE ALL ON PROCEDURE vault_tde.reencrypt(regclass, int) FROM PUBLIC;

CREATE FUNCTION vault_tde.reencrypt_progress() RETURNS TABLE (pid int, datid oid, relid oid, phase text,
        blocks_total bigint, blocks_done bigint, tuples_done bigint)
    LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'vault_tde_reencrypt_progress';

CREATE VIEW vault_tde.stat_progress_reencrypt AS
    SELECT p.pid, p.datid, d.datname, p.relid, p.phase, p.blocks_total, p.blocks_done, p.tuples_done
    FROM vault_tde.reencrypt_progress() p LEFT JOIN pg_catalog.pg_database d ON d.oid = p.datid;
COMMENT ON VIEW vault_tde.stat_progress_reencrypt IS 'calls of vault_tde.reencrypt() that are running in this server';
GRANT SELECT ON vault_tde.stat_progress_reencrypt TO PUBLIC;

CREATE FUNCTION vault_tde.verify(relation regclass, OUT ctid tid, OUT problem text) RETURNS SETOF record
    LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE COST 100000 AS 'MODULE_PATHNAME', 'vault_tde_verify';
COMMENT ON FUNCTION vault_tde.verify(regclass) IS
    'reads every row, out-of-line value and index entry and returns those that do not authenticate or do not fit together';
REVOKE ALL ON FUNCTION vault_tde.verify(regclass) FROM PUBLIC;

CREATE FUNCTION vault_tde.retire_key(generation int) RETURNS void
    LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'vault_tde_retire_key';
COMMENT ON FUNCTION vault_tde.retire_key(int) IS 'forgets the data key of a generation that nothing needs any more';
REVOKE ALL ON FUNCTION vault_tde.retire_key(int) FROM PUBLIC;

CREATE FUNCTION vault_tde.is_encrypted(relation regclass) RETURNS bool
    LANGUAGE C STRICT STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'vault_tde_is_encrypted';
COMMENT ON FUNCTION vault_tde.is_encrypted(regclass) IS
    'whether the relation''s own rows are stored encrypted; NULL if it stores none';

CREATE FUNCTION vault_tde.status() RETURNS TABLE (item text, value text, ok bool)
    LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'vault_tde_status';
COMMENT ON FUNCTION vault_tde.status() IS 'whether everything that encryption and decoding need is set up';
REVOKE ALL ON FUNCTION vault_tde.status() FROM PUBLIC;

CREATE FUNCTION vault_tde.cipher_speed(payload int) RETURNS TABLE (encrypt_ns float8, decrypt_ns float8)
    LANGUAGE C STRICT VOLATILE PARALLEL SAFE ROWS 1 AS 'MODULE_PATHNAME', 'vault_tde_cipher_speed';
COMMENT ON FUNCTION vault_tde.cipher_speed(int) IS 'nanoseconds that a row of so many bytes takes to encrypt and to decrypt';
REVOKE ALL ON FUNCTION vault_tde.cipher_speed(int) FROM PUBLIC;

-- a warning now, rather than an error when the first replication slot is made
CREATE FUNCTION vault_tde.check_output_plugin_libraries() RETURNS void
    LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'vault_tde_check_output_plugin_libraries';
SELECT vault_tde.check_output_plugin_libraries();
DROP FUNCTION vault_tde.check_output_plugin_libraries();

-- Encrypted indexes. Users see encrypted_btree over their own types; what it stores, and what nbtree sees inside, are keys of
-- one type with an ordinary btree operator class.
CREATE TYPE vault_tde.encrypted_key;
CREATE FUNCTION vault_tde.encrypted_key_in(cstring) RETURNS vault_tde.encrypted_key
    LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'vault_tde_encrypted_key_in';
CREATE FUNCTION vault_tde.encrypted_key_out(vault_tde.encrypted_key) RETURNS cstring
    LANGUAGE C STRICT STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'vault_tde_encrypted_key_out';
CREATE TYPE vault_tde.encrypted_key (
    INPUT = vault_tde.encrypted_key_in, OUTPUT = vault_tde.encrypted_key_out,
    INTERNALLENGTH = VARIABLE, STORAGE = external);
COMMENT ON TYPE vault_tde.encrypted_key IS 'what encrypted indexes store';

CREATE FUNCTION vault_tde.encrypted_key_lt(vault_tde.encrypted_key, vault_tde.encrypted_key) RETURNS bool
    LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'vault_tde_encrypted_key_lt';
CREATE FUNCTION vault_tde.encrypted_key_le(vault_tde.encrypted_key, vault_tde.encrypted_key) RETURNS bool
    LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'vault_tde_encrypted_key_le';
CREATE FUNCTION vault_tde.encrypted_key_eq(vault_tde.encrypted_key, vault_tde.encrypted_key) RETURNS bool
    LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'vault_tde_encrypted_key_eq';
CREATE FUNCTION vault_tde.encrypted_key_ge(vault_tde.encrypted_key, vault_tde.encrypted_key) RETURNS bool
    LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'vault_tde_encrypted_key_ge';
CREATE FUNCTION vault_tde.encrypted_key_gt(vault_tde.encrypted_key, vault_tde.encrypted_key) RETURNS bool
    LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'vault_tde_encrypted_key_gt';
CREATE FUNCTION vault_tde.encrypted_key_cmp(vault_tde.encrypted_key, vault_tde.encrypted_key) RETURNS int
    LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'vault_tde_encrypted_key_cmp';
CREATE FUNCTION vault_tde.encrypted_key_sortsupport(internal) RETURNS void
    LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'vault_tde_encrypted_key_sortsupport';

CREATE OPERATOR vault_tde.< (LEFTARG = vault_tde.encrypted_key, RIGHTARG = vault_tde.encrypted_key,
    FUNCTION = vault_tde.encrypted_key_lt, COMMUTATOR = OPERATOR(vault_tde.>), NEGATOR = OPERATOR(vault_tde.>=),
    RESTRICT = scalarltsel, JOIN = scalarltjoinsel);
CREATE OPERATOR vault_tde.<= (LEFTARG = vault_tde.encrypted_key, RIGHTARG = vault_tde.encrypted_key,
    FUNCTION = vault_tde.encrypted_key_le, COMMUTATOR = OPERATOR(vault_tde.>=), NEGATOR = OPERATOR(vault_tde.>),
    RESTRICT = scalarlesel, JOIN = scalarlejoinsel);
CREATE OPERATOR vault_tde.= (LEFTARG = vault_tde.encrypted_key, RIGHTARG = vault_tde.encrypted_key,
    FUNCTION = vault_tde.encrypted_key_eq, COMMUTATOR = OPERATOR(vault_tde.=),
    RESTRICT = eqsel, JOIN = eqjoinsel, MERGES);
CREATE OPERATOR vault_tde.>= (LEFTARG = vault_tde.encrypted_key, RIGHTARG = vault_tde.encrypted_key,
    FUNCTION = vault_tde.encrypted_key_ge, COMMUTATOR = OPERATOR(vault_tde.<=), NEGATOR = OPERATOR(vault_tde.<),
    RESTRICT = scalargesel, JOIN = scalargejoinsel);
CREATE OPERATOR vault_tde.> (LEFTARG = vault_tde.encrypted_key, RIGHTARG = vault_tde.encrypted_key,
    FUNCTION = vault_tde.encrypted_key_gt, COMMUTATOR = OPERATOR(vault_tde.<), NEGATOR = OPERATOR(vault_tde.<=),
    RESTRICT = scalargtsel, JOIN = scalargtjoinsel);

CREATE OPERATOR CLASS vault_tde.encrypted_key_ops DEFAULT FOR TYPE vault_tde.encrypted_key USING btree AS
    OPERATOR 1 vault_tde.<, OPERATOR 2 vault_tde.<=, OPERATOR 3 vault_tde.=, OPERATOR 4 vault_tde.>=, OPERATOR 5 vault_tde.>,
    FUNCTION 1 vault_tde.encrypted_key_cmp(vault_tde.encrypted_key, vault_tde.encrypted_key),
    FUNCTION 2 vault_tde.encrypted_key_sortsupport(internal);

CREATE FUNCTION vault_tde.encrypted_btree_handler(internal) RETURNS index_am_handler
    LANGUAGE C STRICT AS 'MODULE_PATHNAME';
CREATE ACCESS METHOD encrypted_btree TYPE INDEX HANDLER vault_tde.encrypted_btree_handler;
COMMENT ON ACCESS METHOD encrypted_btree IS 'btree index access method whose keys are encrypted';

-- The commands that make, for encrypted_btree, the operator family and class of a type that its default btree class has, with the
-- operators that compare it with other types of the same family that are there already.
CREATE FUNCTION vault_tde.operator_class_commands(type regtype) RETURNS SETOF text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp BEGIN ATOMIC
    WITH source AS (
        SELECT c.opcfamily AS family, c.opcintype AS input, c.opcname, f.opfname,
               NOT EXISTS (
                   SELECT FROM pg_opfamily o JOIN pg_am a ON a.oid = o.opfmethod
                   WHERE a.amname = 'encrypted_btree' AND o.opfname = f.opfname
                       AND o.opfnamespace = 'vault_tde'::regnamespace) AS is_new
        FROM pg_opclass c
            JOIN pg_opfamily f ON f.oid = c.opcfamily
            JOIN pg_am a ON a.oid = c.opcmethod
        WHERE a.amname = 'btree' AND c.opcdefault AND c.opcintype = type
    ), known AS (
        SELECT c.opcintype FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod WHERE a.amname = 'encrypted_btree'
    ), member AS (
        SELECT o.amoplefttype AS l, o.amoprighttype AS r, 1 AS kind, o.amopstrategy AS number,
               format('OPERATOR %s %s (%s, %s)', o.amopstrategy,
                   (SELECT format('%I.%s', n.nspname, p.oprname)
                    FROM pg_operator p JOIN pg_namespace n ON n.oid = p.oprnamespace WHERE p.oid = o.amopopr),
                   format_type(o.amoplefttype, NULL), format_type(o.amoprighttype, NULL)) AS clause
        FROM source s JOIN pg_amop o ON o.amopfamily = s.family
        WHERE o.amoppurpose = 's'
        UNION ALL
        SELECT p.amproclefttype, p.amprocrighttype, 2, p.amprocnum,
               format('FUNCTION %s (%s, %s) %s', p.amprocnum,
                   format_type(p.amproclefttype, NULL), format_type(p.amprocrighttype, NULL), p.amproc::regprocedure)
        FROM source s JOIN pg_amproc p ON p.amprocfamily = s.family
        WHERE p.amprocnum IN (1, 2)
    )
    SELECT format('CREATE OPERATOR FAMILY vault_tde.%I USING encrypted_btree', s.opfname) FROM source s WHERE s.is_new
    UNION ALL
    SELECT format('CREATE OPERATOR CLASS vault_tde.%I DEFAULT FOR TYPE %s USING encrypted_btree FAMILY vault_tde.%I AS %s, '
            'STORAGE vault_tde.encrypted_key', s.opcname, format_type(s.input, NULL), s.opfname,
            (SELECT string_agg(clause, ', ' ORDER BY kind, number)
             FROM member m WHERE m.l = s.input AND m.r = s.input))
    FROM source s
    UNION ALL
    SELECT format('ALTER OPERATOR FAMILY vault_tde.%I USING encrypted_btree ADD %s', s.opfname, clauses)
    FROM source s,
        (SELECT string_agg(clause, ', ' ORDER BY m.l, m.r, kind, number) AS clauses
         FROM source s JOIN member m ON (m.l = s.input) <> (m.r = s.input)
         WHERE m.l IN (TABLE known UNION ALL SELECT s.input) AND m.r IN (TABLE known UNION ALL SELECT s.input)) c
    WHERE clauses IS NOT NULL;
END;
REVOKE ALL ON FUNCTION vault_tde.operator_class_commands(regtype) FROM PUBLIC;

CREATE FUNCTION vault_tde.add_operator_class(type regtype) RETURNS void
    LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'vault_tde_add_operator_class';
COMMENT ON FUNCTION vault_tde.add_operator_class(regtype) IS
    'lets encrypted_btree index a type that has a default operator class for btree';
REVOKE ALL ON FUNCTION vault_tde.add_operator_class(regtype) FROM PUBLIC;

SELECT vault_tde.add_operator_class(c.opcintype)
FROM pg_catalog.pg_opclass c
    JOIN pg_catalog.pg_am a ON a.oid = c.opcmethod
WHERE a.amname = 'btree' AND c.opcdefault AND c.opcnamespace = 'pg_catalog'::pg_catalog.regnamespace
ORDER BY c.oid;

-- What can still be read of encrypted tables on disk, beside what README.md names: columns that indexes keep in the clear, and
-- columns of which statistics keep sample values.
CREATE VIEW vault_tde.exposed_columns AS
    WITH encrypted AS (
        SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_am a ON a.oid = c.relam WHERE a.amname = 'encrypted_heap'
    ), indexed AS (
        SELECT x.indrelid, x.indexrelid, a.attnum, m.amname <> 'encrypted_btree' AS in_the_clear
        FROM pg_catalog.pg_index x
            JOIN encrypted e ON e.oid = x.indrelid
            JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid AND i.relkind = 'i'
            JOIN pg_catalog.pg_am m ON m.oid = i.relam
            JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE a.attnum = ANY (x.indkey)
            OR EXISTS (SELECT FROM pg_catalog.pg_depend d
                       WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = x.indexrelid
                           AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid = x.indrelid
                           AND d.refobjsubid = a.attnum)
    ), sampled AS (
        SELECT starelid, staattnum FROM pg_catalog.pg_statistic
        WHERE COALESCE(stavalues1, stavalues2, stavalues3, stavalues4, stavalues5) IS NOT NULL
    ), exposed AS (
        SELECT indrelid AS relation, attnum, 'index' AS place, indexrelid::pg_catalog.regclass::text AS object
        FROM indexed WHERE in_the_clear
        UNION ALL
        SELECT s.starelid, s.staattnum, 'statistics', NULL FROM sampled s JOIN encrypted e ON e.oid = s.starelid
        UNION ALL
        SELECT i.indrelid, i.attnum, 'statistics', i.indexrelid::pg_catalog.regclass::text
        FROM indexed i WHERE EXISTS (SELECT FROM sampled s WHERE s.starelid = i.indexrelid)
        UNION ALL
        SELECT x.stxrelid, k.attnum, 'statistics', pg_catalog.format('%I.%I', n.nspname, x.stxname)
        FROM pg_catalog.pg_statistic_ext x
            JOIN encrypted e ON e.oid = x.stxrelid
            JOIN pg_catalog.pg_statistic_ext_data d ON d.stxoid = x.oid AND COALESCE(d.stxdmcv::text, d.stxdexpr::text) IS NOT NULL
            JOIN pg_catalog.pg_namespace n ON n.oid = x.stxnamespace,
            pg_catalog.unnest(x.stxkeys::int2[]) AS k(attnum)
    )
    SELECT x.relation::pg_catalog.regclass AS relation, a.attname AS "column", x.place, x.object
    FROM exposed x JOIN pg_catalog.pg_attribute a ON a.attrelid = x.relation AND a.attnum = x.attnum;
COMMENT ON VIEW vault_tde.exposed_columns IS 'columns of encrypted tables that indexes and statistics keep in the clear, and where';
GRANT SELECT ON vault_tde.exposed_columns TO PUBLIC;
