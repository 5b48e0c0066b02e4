-- Indexes of constraints that are encrypted without being asked: all of what can be done with them.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/twin constraints

-- They are encrypted, and marked as such; on PostgreSQL 17 none is.
SELECT current_setting('server_version_num')::int >= 180000 AS unique_too \gset
SELECT count(*) > 12 AS several, count(*) FILTER (WHERE a.amname <> CASE WHEN :'unique_too' THEN 'encrypted_btree' ELSE 'btree' END) AS others,
    count(*) FILTER (WHERE (i.reloptions @> '{deduplicate_items=OFF}') IS DISTINCT FROM nullif(:'unique_too', false)) AS not_marked
FROM pg_constraint c JOIN pg_class i ON i.oid = c.conindid JOIN pg_am a ON a.oid = i.relam
WHERE c.connamespace = 'encrypted'::regnamespace AND c.contype IN ('p', 'u') AND i.relname !~ '^moved_part'; -- an attached index has the parent's method
SELECT t.oid::regclass, v.* FROM pg_class t, vault_tde.verify(t.oid) v WHERE relnamespace = 'encrypted'::regnamespace AND relkind = 'r' AND vault_tde.is_encrypted(t.oid);

-- The catalogs say of an index that a change of type has made what they say of one that was made with that type.
CREATE TABLE changed (i int, t varchar(5), n numeric, UNIQUE (i, t, n) INCLUDE (t)) USING encrypted_heap;
CREATE TABLE made (i int, t varchar(5), n numeric) USING encrypted_heap;
SET pg_vault_tde.encrypt_indexes = on;
ALTER TABLE changed DROP CONSTRAINT changed_i_t_n_t1_key, ADD CONSTRAINT changed_key UNIQUE (i, t, n) INCLUDE (t);
ALTER TABLE changed ALTER i TYPE bigint, ALTER t TYPE text, ALTER n TYPE float8;
ALTER TABLE made ALTER i TYPE bigint, ALTER t TYPE text, ALTER n TYPE float8;
ALTER TABLE made ADD CONSTRAINT made_key UNIQUE (i, t, n) INCLUDE (t);
CREATE VIEW catalogs AS
SELECT i.relname AS index, replace(concat_ws(', ', c.relam, c.reloptions, c.relnatts, x.indkey, x.indclass, x.indcollation, x.indoption, x.indisunique, x.indisvalid,
    (SELECT string_agg(to_jsonb(a)::text, ', ' ORDER BY attnum) FROM (SELECT a.* FROM pg_attribute a WHERE a.attrelid = i.oid) a),
    (SELECT string_agg(concat(pg_describe_object(refclassid, refobjid, refobjsubid), deptype), ', ' ORDER BY refobjid) FROM pg_depend WHERE objid = i.oid)),
    i.oid::text, 'itself') AS row
FROM pg_class i JOIN pg_class c USING (oid) JOIN pg_index x ON x.indexrelid = i.oid;
SELECT replace(a.row, 'changed', 'made') = b.row AS same, a.row ~ 'encrypted_btree' = :'unique_too' AS is_encrypted
FROM catalogs a, catalogs b WHERE a.index = 'changed_key' AND b.index = 'made_key';
-- So it is with a table that is moved: the indexes that can be encrypted are, and go back with it.
SELECT c.relname, CASE WHEN a.amname = 'btree' AND NOT :'unique_too' AND x.indisunique AND c.relname !~ '^moved_part' THEN 'encrypted_btree' ELSE a.amname END AS method
FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid JOIN pg_am a ON a.oid = c.relam
WHERE x.indrelid::regclass::text ~ '^encrypted.(refers_)?moved' ORDER BY 1;
CREATE TABLE original (i int PRIMARY KEY, t varchar(20), n name, d numeric, u char(4) UNIQUE) USING heap;
CREATE UNIQUE INDEX original_lower ON original (lower(t), n DESC, (d + 1)) INCLUDE (u) WHERE i > 3;
CREATE INDEX original_n ON original (n, u, t);
CREATE TABLE copy (LIKE original INCLUDING ALL) USING encrypted_heap;
CREATE TABLE before AS SELECT * FROM catalogs WHERE index ~ '^original';
ALTER TABLE original SET ACCESS METHOD encrypted_heap;
SELECT count(*) > 0 AS several, count(*) FILTER (WHERE NOT EXISTS (SELECT FROM catalogs b WHERE b.index ~ '^copy' AND replace(b.row, 'copy', 'original') = a.row)) AS others
FROM catalogs a WHERE a.index ~ '^original';
ALTER TABLE original SET ACCESS METHOD heap;
SELECT count(*) > 0 AS several, count(*) FILTER (WHERE NOT EXISTS (SELECT FROM before b WHERE b.index = a.index AND b.row = a.row)) AS others
FROM catalogs a WHERE a.index ~ '^original';
DROP TABLE original, copy, before;

-- What remains in the clear is said, or forbidden.
CREATE TABLE original (i int, p point) USING heap;
CREATE INDEX original_p ON original USING gist (p);
SET client_min_messages = notice;
SET pg_vault_tde.plaintext_indexes = error;
ALTER TABLE original SET ACCESS METHOD encrypted_heap;
SET pg_vault_tde.plaintext_indexes = notice;
ALTER TABLE original SET ACCESS METHOD encrypted_heap, ADD COLUMN x int, SET ACCESS METHOD encrypted_heap;
ALTER TABLE original SET ACCESS METHOD encrypted_heap;
SET client_min_messages = warning;
DROP TABLE original;
DROP VIEW catalogs;
DROP TABLE changed, made;
DROP SCHEMA encrypted, heap CASCADE;
