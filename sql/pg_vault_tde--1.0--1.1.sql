/* pg_vault_tde--1.0--1.1.sql */

-- complain if the script is sourced in psql rather than through ALTER EXTENSION
\echo Use "ALTER EXTENSION pg_vault_tde UPDATE TO '1.1'" to load this file. \quit

-- What was encrypted and decrypted in this database since a reset. Entries of relations that are gone may be among it.
CREATE FUNCTION vault_tde.relation_counters() RETURNS TABLE (relid oid, n_tup_encrypted bigint, n_tup_decrypted bigint,
        auth_failures bigint, auth_last_failure timestamptz, stats_reset timestamptz)
    LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'vault_tde_relation_counters';

-- One row for each encrypted table, its TOAST table, and each encrypted index; tablerelid is the table in each of them.
CREATE VIEW vault_tde.stat_relations AS
    SELECT c.oid AS relid, n.nspname AS schemaname, c.relname,
           CASE c.relkind WHEN 't' THEN 'toast' WHEN 'i' THEN 'index' ELSE 'table' END AS kind,
           COALESCE(x.indrelid, o.oid, c.oid) AS tablerelid,
           COALESCE(s.n_tup_encrypted, 0) AS n_tup_encrypted,
           COALESCE(s.n_tup_decrypted, 0) AS n_tup_decrypted,
           COALESCE(s.auth_failures, 0) AS auth_failures,
           s.auth_last_failure,
           s.stats_reset
    FROM pg_catalog.pg_class c
        JOIN pg_catalog.pg_am a ON a.oid = c.relam AND a.amname IN ('encrypted_heap', 'encrypted_toast', 'encrypted_btree')
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        LEFT JOIN vault_tde.relation_counters() s ON s.relid = c.oid
        LEFT JOIN pg_catalog.pg_index x ON x.indexrelid = c.oid
        LEFT JOIN pg_catalog.pg_class o ON o.reltoastrelid = c.oid
    WHERE c.relkind IN ('r', 'm', 't', 'i');
COMMENT ON VIEW vault_tde.stat_relations IS
    'rows, out-of-line chunks and index keys of this database that were encrypted, decrypted, or did not authenticate';
GRANT SELECT ON vault_tde.stat_relations TO PUBLIC;

-- The table of counters itself: entries, and those that had to make room for others, with what these had counted.
CREATE FUNCTION vault_tde.counters_info(OUT entries int, OUT max_entries int, OUT dealloc bigint,
        OUT n_tup_encrypted bigint, OUT n_tup_decrypted bigint, OUT auth_failures bigint, OUT stats_reset timestamptz)
    LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'vault_tde_counters_info';

CREATE VIEW vault_tde.stat_relations_info AS SELECT * FROM vault_tde.counters_info();
COMMENT ON VIEW vault_tde.stat_relations_info IS
    'how full the server''s table of counters is, and what was counted by entries that had to make room for others';
GRANT SELECT ON vault_tde.stat_relations_info TO PUBLIC;

CREATE FUNCTION vault_tde.stat_reset() RETURNS void
    LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'vault_tde_stat_reset';
COMMENT ON FUNCTION vault_tde.stat_reset() IS 'sets all counters of this database in vault_tde.stat_relations to zero';
REVOKE ALL ON FUNCTION vault_tde.stat_reset() FROM PUBLIC;

CREATE FUNCTION vault_tde.stat_reset(relation regclass) RETURNS void
    LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'vault_tde_stat_reset_relation';
COMMENT ON FUNCTION vault_tde.stat_reset(regclass) IS 'sets the counters of one relation in vault_tde.stat_relations to zero';
REVOKE ALL ON FUNCTION vault_tde.stat_reset(regclass) FROM PUBLIC;
