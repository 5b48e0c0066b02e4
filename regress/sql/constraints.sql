-- Indexes of constraints that are encrypted without being asked: all of what can be done with them.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/twin constraints

-- They are encrypted, and marked as such; on PostgreSQL 17 none is.
SELECT current_setting('server_version_num')::int >= 180000 AS unique_too \gset
SELECT count(*) > 12 AS several, count(*) FILTER (WHERE a.amname <> CASE WHEN :'unique_too' THEN 'encrypted_btree' ELSE 'btree' END) AS others,
    count(*) FILTER (WHERE (i.reloptions @> '{deduplicate_items=OFF}') IS DISTINCT FROM nullif(:'unique_too', false)) AS not_marked
FROM pg_constraint c JOIN pg_class i ON i.oid = c.conindid JOIN pg_am a ON a.oid = i.relam
WHERE c.connamespace = 'encrypted'::regnamespace AND c.contype IN ('p', 'u');
SELECT t.oid::regclass, v.* FROM pg_class t, vault_tde.verify(t.oid) v WHERE relnamespace = 'encrypted'::regnamespace AND relkind = 'r';

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
DROP VIEW catalogs;
DROP TABLE changed, made;
DROP SCHEMA encrypted, heap CASCADE;
