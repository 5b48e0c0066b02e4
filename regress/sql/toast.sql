-- TOAST tables of encrypted tables, and the access method that is only for them.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_vault_tde;
CREATE SCHEMA toast;
SET search_path = toast;
SET default_table_access_method = encrypted_heap;

CREATE TABLE t (id int, a text STORAGE EXTERNAL);
CREATE TEMP TABLE temporary (a text);
CREATE UNLOGGED TABLE unlogged (a text);
CREATE MATERIALIZED VIEW materialized AS SELECT 'x'::text AS a;
CREATE TABLE partitioned (a text) PARTITION BY LIST (a);
CREATE TABLE partition PARTITION OF partitioned DEFAULT;
CREATE TABLE moved (a text) USING heap;
ALTER TABLE moved SET ACCESS METHOD encrypted_heap;
CREATE TABLE moved_back (a text);
ALTER TABLE moved_back SET ACCESS METHOD heap;
CREATE TABLE narrow (a int, b numeric(10, 2));
ALTER TABLE narrow ADD COLUMN c varchar(100);
CREATE TABLE widened (a int);
ALTER TABLE widened ADD COLUMN b text;
CREATE TABLE plain (a text STORAGE PLAIN);
SELECT c.relname, am.amname, tam.amname AS toast FROM pg_class c JOIN pg_am am ON am.oid = c.relam
    LEFT JOIN pg_class t ON t.oid = c.reltoastrelid LEFT JOIN pg_am tam ON tam.oid = t.relam
WHERE c.oid IN ('t'::regclass, 'temporary'::regclass, 'unlogged'::regclass, 'materialized'::regclass, 'partition'::regclass,
    'moved'::regclass, 'moved_back'::regclass, 'narrow'::regclass, 'widened'::regclass, 'plain'::regclass) ORDER BY 1;
-- not in need of a TOAST table as plaintext, but as ciphertext
CREATE TABLE nearly (a varchar(2000));
CREATE TABLE nearly_heap (a varchar(2000)) USING heap;
CREATE TABLE latin (a int, b varchar(250), c varchar(240));
SELECT relname, reltoastrelid <> 0 AS toast FROM pg_class WHERE oid IN ('nearly'::regclass, 'nearly_heap'::regclass, 'latin'::regclass) ORDER BY 1;

-- The longest value that is kept in line: rows may have the same length as stored, of which 34 bytes are of the encryption.
CREATE TABLE threshold (id int, a text STORAGE EXTERNAL);
CREATE TABLE threshold_heap (id int, a text STORAGE EXTERNAL) USING heap;
INSERT INTO threshold SELECT n, repeat('x', n) FROM generate_series(1900, 2100) n;
INSERT INTO threshold_heap SELECT n, repeat('x', n) FROM generate_series(1900, 2100) n;
SELECT (SELECT max(id) FROM threshold WHERE pg_column_toast_chunk_id(a) IS NULL) AS encrypted,
       (SELECT max(id) FROM threshold_heap WHERE pg_column_toast_chunk_id(a) IS NULL) AS heap;

-- encrypted_toast is not for tables that a user makes
CREATE TABLE wrong (a int) USING encrypted_toast;
CREATE TEMP TABLE wrong (a int) USING encrypted_toast;
CREATE TABLE wrong USING encrypted_toast AS SELECT 1;
CREATE MATERIALIZED VIEW wrong USING encrypted_toast AS SELECT 1;
DO $$
BEGIN
    ALTER TABLE t SET ACCESS METHOD encrypted_toast;
EXCEPTION WHEN wrong_object_type THEN
    RAISE WARNING '%', regexp_replace(SQLERRM, 'pg_temp_\d+', 'transient'); -- named after the table's OID
END $$;
CREATE TABLE wrong PARTITION OF partitioned FOR VALUES IN ('a') USING encrypted_toast;
SET default_table_access_method = encrypted_toast;
CREATE TABLE wrong (a text);
SELECT 1 AS a INTO wrong;
SET default_table_access_method = encrypted_heap;
SELECT to_regclass('wrong'), to_regclass('pg_temp.wrong');

-- What is stored: chunks of at most TOAST_MAX_CHUNK_SIZE bytes, 29 of which are not the value's.
INSERT INTO t SELECT n, repeat('plaintext ', n / 10) FROM unnest(ARRAY[2500, 5900, 5910]) n;
SELECT reltoastrelid::regclass AS toast FROM pg_class WHERE oid = 't'::regclass \gset
SELECT id, chunk_seq, length(chunk_data), position('plaintext' IN chunk_data) AS plaintext, position('\x00000000'::bytea IN chunk_data) AS zeros
FROM :toast JOIN t ON chunk_id = pg_column_toast_chunk_id(a) ORDER BY 1, 2;
-- equal values do not look equal
INSERT INTO t SELECT id, a FROM t;
SELECT count(*), count(DISTINCT chunk_data) FROM :toast;
-- the same in a table's copy, and after every rewrite
CREATE TEMP TABLE before AS SELECT chunk_data FROM :toast;
VACUUM FULL t;
SELECT count(*) FROM :toast JOIN before USING (chunk_data);

DROP SCHEMA toast CASCADE;
