-- The extension's objects, who may use them, and the functions that say how things are.
SET client_min_messages = warning;
\set home :DBNAME
CREATE DATABASE regress_vault_extension;
\connect regress_vault_extension
SET client_min_messages = warning;
SET pg_vault_tde.encrypt_indexes = off;

-- without it
CREATE TABLE t (id int) USING encrypted_heap;
CREATE EXTENSION pg_vault_tde VERSION '0.1';
CREATE EXTENSION pg_vault_tde SCHEMA public;

CREATE EXTENSION pg_vault_tde;
SELECT extversion, extnamespace::regnamespace, extrelocatable FROM pg_extension WHERE extname = 'pg_vault_tde';
SELECT amname, amtype, amhandler FROM pg_am WHERE oid >= 16384 ORDER BY 1;
SELECT pg_describe_object(classid, objid, 0) FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e' AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pg_vault_tde')
    AND classid NOT IN ('pg_opclass'::regclass, 'pg_opfamily'::regclass) -- index_types.sql looks at these
ORDER BY pg_describe_object(classid, objid, 0) COLLATE "C";

-- The whole world may use encrypted tables and ask what is encrypted; only a superuser, unless told otherwise, the rest.
SELECT p.oid::regprocedure AS function, has_function_privilege('public', p.oid, 'EXECUTE') AS everyone, prosecdef
FROM pg_proc p WHERE pronamespace = 'vault_tde'::regnamespace AND prorettype NOT IN ('table_am_handler'::regtype, 'index_am_handler'::regtype)
ORDER BY p.oid::regprocedure::text COLLATE "C";
CREATE ROLE regress_vault_user;
GRANT CREATE ON SCHEMA public TO regress_vault_user;
SET ROLE regress_vault_user;
SELECT * FROM vault_tde.data_keys;
SELECT * FROM vault_tde.keys;
SELECT vault_tde.rotate_key();
SELECT * FROM vault_tde.status();
SELECT * FROM vault_tde.cipher_speed(100);
CREATE TABLE t (id int PRIMARY KEY, x text) USING encrypted_heap; -- makes the first key
INSERT INTO t VALUES (1, 'one');
SELECT * FROM t;
SELECT vault_tde.is_encrypted('t');
RESET ROLE;
SELECT generation, provider, is_current, created_at <= now() AS past, key_id IS NOT NULL AS has_id FROM vault_tde.keys;
GRANT EXECUTE ON FUNCTION vault_tde.rotate_key() TO regress_vault_user;
SET ROLE regress_vault_user;
SELECT vault_tde.rotate_key();
RESET ROLE;

-- what is encrypted
CREATE TABLE h (id int);
CREATE TABLE p (id int) PARTITION BY LIST (id) USING encrypted_heap;
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2) USING heap;
CREATE VIEW v AS SELECT 1;
CREATE MATERIALIZED VIEW m USING encrypted_heap AS SELECT * FROM t;
CREATE SEQUENCE s;
SELECT r, vault_tde.is_encrypted(r::regclass) FROM unnest('{t,t_pkey,h,p,p1,p2,v,m,s,pg_class,vault_tde.data_keys}'::text[]) r;
SELECT vault_tde.is_encrypted(reltoastrelid) FROM pg_class WHERE oid = 't'::regclass;
SELECT vault_tde.is_encrypted(NULL);
SELECT vault_tde.is_encrypted(1);
SELECT vault_tde.is_encrypted('no_such_table');

-- the access method of TOAST tables is for these alone
CREATE TABLE wrong (id int) USING encrypted_toast;
CREATE TABLE wrong USING encrypted_toast AS SELECT 1;
CREATE MATERIALIZED VIEW wrong USING encrypted_toast AS SELECT 1;
ALTER TABLE h SET ACCESS METHOD encrypted_toast;
SET default_table_access_method = encrypted_toast;
CREATE TABLE wrong (id int);
RESET default_table_access_method;

-- the speed of encryption, of rows from empty to large
SELECT payload, encrypt_ns > 0 AND encrypt_ns < 1e6 AS encrypt, decrypt_ns > 0 AND decrypt_ns < 1e6 AS decrypt
FROM unnest('{0,1,100,65536}'::int[]) payload, vault_tde.cipher_speed(payload);
SELECT vault_tde.cipher_speed(-1);
SELECT vault_tde.cipher_speed(65537);
SELECT * FROM vault_tde.cipher_speed(NULL);

-- the state; nothing in it is secret: neither the key file's content, nor its name
SELECT item, CASE WHEN item IN ('OpenSSL', 'AES acceleration', 'keys in shared memory', 'output_plugin_libraries') THEN '...' ELSE value END AS value,
    ok OR item = 'AES acceleration' AS ok
FROM vault_tde.status() WHERE item NOT LIKE 'rows encrypted%'; -- as far as the statistics know by now
SELECT count(*) FROM vault_tde.status() WHERE value ~* '[0-9a-f]{32}';
SELECT count(*) FROM pg_settings WHERE name LIKE 'pg_vault_tde.%' AND setting ~* '[0-9a-f]{32}';
SELECT name, vartype, context FROM pg_settings WHERE name LIKE 'pg_vault_tde.%' ORDER BY name COLLATE "C";
SET pg_vault_tde.no_such_setting = 1;
SET pg_vault_tde.key_file = '/elsewhere';

-- what it calls its own in shared memory bears its name
SELECT count(*) > 0 FROM pg_shmem_allocations WHERE name LIKE 'pg_vault_tde%';
SELECT count(*) FROM pg_shmem_allocations WHERE name ILIKE '%vault%' AND name NOT LIKE 'pg_vault_tde%';

-- dropped with the tables, and made again
DROP EXTENSION pg_vault_tde;
DROP EXTENSION pg_vault_tde CASCADE;
SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'm', 't') ORDER BY 1;
CREATE EXTENSION pg_vault_tde;
CREATE TABLE t (id int) USING encrypted_heap;
INSERT INTO t VALUES (1);
SELECT * FROM t;
SELECT count(*) FROM vault_tde.keys;

\connect :home
DROP DATABASE regress_vault_extension;
DROP ROLE regress_vault_user;
