-- Decoding: LSNs, and some of the tables only. That the tables chosen are wal2json's is in t/040_json.pl.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\setenv OWN true
\! "$PG_ABS_SRCDIR"/lib/decode tables "skip-empty-xacts=1 add-tables=twin.a" "skip-empty-xacts=1 filter-tables=twin.a" "skip-empty-xacts=1 filter-tables=*.b,twin.parts_2" "skip-empty-xacts=1 add-tables=twin.* filter-tables=*.A\\,b\\.\\*" "skip-empty-xacts=1 add-tables=nothing.*" "skip-empty-xacts=1 include-rewrites=1 add-tables=twin.b" "include-lsn=1" "include-lsn=1 include-timestamp=1 skip-empty-xacts=1" "skip-empty-xacts=1 format=json add-tables=*.b,*.parts_1 include-lsn=1"
\! TWO_PHASE=true "$PG_ABS_SRCDIR"/lib/decode prepared "include-lsn=1 skip-empty-xacts=1"
\setenv PGOPTIONS '-c debug_logical_replication_streaming=immediate'
\! "$PG_ABS_SRCDIR"/lib/decode tables "skip-empty-xacts=1 stream-changes=1 filter-tables=twin.a" "skip-empty-xacts=1 stream-changes=1 format=json add-tables=*.b"
\! UNBLOCKED=true "$PG_ABS_SRCDIR"/lib/decode tables "skip-empty-xacts=1 stream-changes=1 include-lsn=1"
\setenv PGOPTIONS ''

-- What it looks like.
CREATE EXTENSION IF NOT EXISTS pg_vault_tde;
CREATE TABLE a (id int PRIMARY KEY, x text STORAGE EXTERNAL) USING encrypted_heap;
CREATE TABLE b (id int PRIMARY KEY, x text) USING encrypted_heap;
SELECT 'created' FROM pg_create_logical_replication_slot('regress_vault', 'pg_vault_tde', false, true);
INSERT INTO a VALUES (1, 'one');
BEGIN; INSERT INTO b VALUES (1, 'one'); TRUNCATE a, b; SELECT pg_logical_emit_message(true, 'prefix', 'content') IS NOT NULL; COMMIT;
INSERT INTO a VALUES (2, 'two');
CREATE FUNCTION lines(VARIADIC options text[]) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT regexp_replace(data, '(lsn:?) [\dA-F]+/[\dA-F]+', '\1 LSN', 'g')
    FROM pg_logical_slot_peek_changes('regress_vault', NULL, NULL, VARIADIC '{include-xids,0,skip-empty-xacts,1}' || options)
$$;
SELECT lines('include-lsn', '1');
SELECT lines('filter-tables', 'public.a');
SELECT lines('add-tables', 'public.a');
SELECT lines('add-tables', 'public.*', 'filter-tables', 'public.a, *.b');
SELECT lines('filter-tables', '  ');
SELECT lines('add-tables', '');
-- the LSN of a line is that of the change
SELECT count(*) AS changes, count(*) FILTER (WHERE data LIKE format('%%(lsn %s)', lsn)) AS same
FROM pg_logical_slot_peek_changes('regress_vault', NULL, NULL, 'include-lsn', '1', 'skip-empty-xacts', '1') WHERE data LIKE 'table %';

-- Wrong ones.
SELECT lines('add-tables', 'a');
SELECT lines('add-tables', 'public.a,');
SELECT lines('filter-tables', 'public.a,,public.b');
SELECT lines('filter-tables', '.a');
SELECT lines('filter-tables', 'public.');
SELECT lines('filter-tables', 'public.a.b');
SELECT lines('filter-tables', 'public.a*');
SELECT lines('filter-tables', 'public.a b');
SELECT lines('filter-tables', 'public.a\');
SELECT lines('filter-tables', 'public.a', 'filter-tables', 'public.b');
SELECT lines('include-lsn', 'perhaps');
SELECT lines('include-lsn', '1', 'include-lsn', '1');
SELECT lines('format', 'xml');
SELECT lines('format', 'text', 'format', 'json');
SELECT lines('format', 'JSON');
SELECT lines('include-types', '1');
SELECT lines('format-version', '2');
-- The slot is as it was.
SELECT lines('add-tables', 'public.a', 'format', 'text');
SELECT pg_drop_replication_slot('regress_vault');
DROP TABLE a, b;
DROP FUNCTION lines;
DROP SCHEMA encrypted, heap CASCADE;
