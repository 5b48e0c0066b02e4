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
    'reads every row and out-of-line value and returns those that do not authenticate';
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
