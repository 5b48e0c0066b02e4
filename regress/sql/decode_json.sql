-- Decoding: the json format.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\setenv OWN true
\! "$PG_ABS_SRCDIR"/lib/decode types "format=json skip-empty-xacts=1"
\! SORTED=true "$PG_ABS_SRCDIR"/lib/decode dml "format=json skip-empty-xacts=1 include-types=0"
\! "$PG_ABS_SRCDIR"/lib/decode identities "format=json skip-empty-xacts=1"
\! "$PG_ABS_SRCDIR"/lib/decode history "format=json skip-empty-xacts=1 include-xids=0"
\! "$PG_ABS_SRCDIR"/lib/decode messages "format=json skip-empty-xacts=1"
\! "$PG_ABS_SRCDIR"/lib/decode switches "format=json skip-empty-xacts=1 include-lsn=1 include-timestamp=1" "format=json skip-empty-xacts=1 only-local=1" "format=json skip-empty-xacts=1 include-rewrites=1"
\! TWO_PHASE=true "$PG_ABS_SRCDIR"/lib/decode prepared "format=json skip-empty-xacts=1 include-timestamp=1"
\setenv PGOPTIONS '-c debug_logical_replication_streaming=immediate'
\! "$PG_ABS_SRCDIR"/lib/decode messages "format=json skip-empty-xacts=1 stream-changes=1"
\! TWO_PHASE=true "$PG_ABS_SRCDIR"/lib/decode prepared "format=json skip-empty-xacts=1 stream-changes=1"
\setenv PGOPTIONS ''

-- Every kind of line, of every kind of value.
CREATE EXTENSION IF NOT EXISTS pg_vault_tde;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN price AS numeric(10, 2);
CREATE DOMAIN flag AS bool;
CREATE TABLE v (id int PRIMARY KEY, i2 smallint, i8 bigint, o oid, f4 real, f8 float8, n numeric, p price, yes bool, f flag, t text, d date,
    at timestamptz, i interval, b bytea, j json, jb jsonb, m mood, a int[], "Odd ""name" text, c regclass) USING encrypted_heap;
CREATE TABLE w (id int, "name" text, x text STORAGE EXTERNAL) USING encrypted_heap;
ALTER TABLE w REPLICA IDENTITY FULL;
CREATE TABLE none (id int) USING encrypted_heap;
SELECT 'created' FROM pg_create_logical_replication_slot('regress_vault', 'pg_vault_tde', false, true);
INSERT INTO v VALUES (1, -32768, 9223372036854775807, 4294967295, 1.1, 1e300, 12345678901234567890.12345678901234567890, 1.5, true, false,
    E'tab\t line\n "quoted" \\ \u00e4 \x01\x1f', '2024-02-29', '2024-02-29 12:00+02', '1 mon 2 days 03:04:05', '\x00ff', '{"a":  1}', '{"a":  1}',
    'ok', '{1,NULL}', 'odd', 'pg_class');
INSERT INTO v (id, f4, f8, n, p, at) VALUES (2, 'NaN', '-Infinity', 'NaN', 'NaN', 'infinity'), (3, '-0', 'Infinity', '-Infinity', NULL, '0044-03-15 BC');
INSERT INTO v (id, f8, n) VALUES (4, 1e-7, 0.00), (5, 123456789012345680, 1e-20), (6, 0.1, 1e20);
UPDATE v SET id = 20, t = NULL WHERE id = 2;
UPDATE v SET t = 'x' WHERE id = 3;
DELETE FROM v WHERE id = 4;
INSERT INTO w VALUES (1, NULL, repeat('x', 3000));
UPDATE w SET name = 'n';
DELETE FROM w;
ALTER TABLE w REPLICA IDENTITY DEFAULT, ADD PRIMARY KEY (id), DROP COLUMN name;
INSERT INTO w VALUES (1, repeat('y', 3000));
UPDATE w SET id = 2;
INSERT INTO none VALUES (1);
DELETE FROM none;
BEGIN; TRUNCATE v, none RESTART IDENTITY CASCADE; SELECT pg_logical_emit_message(true, 'pre"fix', 'con"tent') IS NOT NULL; COMMIT;
SELECT pg_logical_emit_message(false, 'bytes', '\x00ff0a'::bytea) IS NOT NULL, pg_logical_emit_message(false, '', '') IS NOT NULL;
BEGIN; INSERT INTO none VALUES (2); PREPARE TRANSACTION 'a"b'; COMMIT PREPARED 'a"b';
BEGIN; INSERT INTO none VALUES (3); PREPARE TRANSACTION 'c'; ROLLBACK PREPARED 'c';

CREATE FUNCTION lines(VARIADIC options text[]) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT regexp_replace(replace(data, repeat('x', 2990), '…'), repeat('y', 2990), '…')
    FROM pg_logical_slot_peek_changes('regress_vault', NULL, NULL, VARIADIC '{format,json,skip-empty-xacts,1}' || options)
$$;
SELECT lines('include-xids', '0', 'include-types', '0');
SELECT lines FROM lines('include-xids', '0') WHERE lines LIKE '%update%' AND lines LIKE '%"v"%' LIMIT 1;
SELECT regexp_replace(regexp_replace(lines, '"xid":\d+', '"xid":XID'), '"[\dA-F]+/[\dA-F]+"', '"LSN"', 'g') AS lines
    FROM lines('include-lsn', '1', 'include-types', '0', 'add-tables', '*.none');
-- all of it is JSON, and what PostgreSQL makes of it is what there was
SELECT count(*) AS lines, count(*) FILTER (WHERE lines IS JSON OBJECT WITH UNIQUE KEYS) AS objects FROM lines('include-lsn', '1', 'include-timestamp', '1');
SELECT r.*, pg_typeof(new -> 'n') FROM lines('include-xids', '0'), LATERAL (SELECT lines::jsonb -> 'new' AS new) x, jsonb_to_record(new) AS r(id int, n numeric, f8 float8, f4 real, b bytea, at timestamptz)
    WHERE lines LIKE '%"table":"v"%' AND new IS NOT NULL ORDER BY id;
-- times are those of the transaction, in UTC
SELECT count(*) AS ends, count(*) FILTER (WHERE (lines::json ->> 'timestamp')::timestamptz BETWEEN now() - interval '1 hour' AND clock_timestamp() AND lines LIKE '%+00"%') AS recent
    FROM lines('include-timestamp', '1') WHERE lines LIKE '%"commit%';
-- The session's settings do not matter, and are as they were afterwards.
CREATE TABLE before AS SELECT row_number() OVER () AS n, lines FROM lines('include-lsn', '1');
SET datestyle = 'SQL, DMY'; SET timezone = 'Asia/Kathmandu'; SET intervalstyle = sql_standard; SET extra_float_digits = -5; SET bytea_output = escape;
SET quote_all_identifiers = on; SET search_path = public, pg_temp;
CREATE TABLE after AS SELECT row_number() OVER () AS n, lines FROM lines('include-lsn', '1');
SELECT count(*) AS lines, count(*) FILTER (WHERE before.lines = after.lines) AS same FROM before LEFT JOIN after USING (n);
SELECT string_agg(setting, ' | ' ORDER BY name) FROM pg_settings WHERE name IN ('DateStyle', 'TimeZone', 'IntervalStyle', 'extra_float_digits', 'bytea_output', 'quote_all_identifiers', 'search_path');
-- An ERROR of an output function leaves the settings as they were. (The value's label is gone.)
CREATE TABLE e (id int PRIMARY KEY, m mood) USING encrypted_heap;
INSERT INTO e VALUES (1, 'sad');
SELECT 'created' FROM pg_create_logical_replication_slot('regress_vault_error', 'pg_vault_tde');
SET allow_system_table_mods = on;
DELETE FROM pg_enum WHERE enumtypid = 'mood'::regtype AND enumlabel = 'sad';
UPDATE e SET id = 2;
BEGIN;
SET LOCAL datestyle = 'German';
SAVEPOINT s;
\set VERBOSITY sqlstate
SELECT data FROM pg_logical_slot_get_changes('regress_vault_error', NULL, NULL, 'format', 'json');
\set VERBOSITY default
ROLLBACK TO s;
SHOW datestyle;
SHOW search_path;
COMMIT;
SELECT pg_drop_replication_slot('regress_vault_error');
DROP TABLE e;
RESET ALL;
SET client_min_messages = warning;
SELECT pg_drop_replication_slot('regress_vault');
DROP TABLE v, w, none, before, after;
DROP FUNCTION lines;
DROP DOMAIN price, flag;
DROP TYPE mood;
DROP SCHEMA encrypted, heap CASCADE;
