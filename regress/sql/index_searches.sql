-- Searches in encrypted indexes on numbers, which open fewer keys than nbtree asks about, against btree on heap.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\setenv PGOPTIONS '-c pg_vault_tde.encrypt_indexes=on'
\! "$PG_ABS_SRCDIR"/lib/twin searches
SELECT count(*) FILTER (WHERE amname = 'encrypted_btree') AS encrypted, count(*) FILTER (WHERE amname = 'btree') AS btree
FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
WHERE indrelid IN ('encrypted.n'::regclass, 'encrypted.u'::regclass);
SELECT count(*) AS tables, sum((SELECT count(*) FROM vault_tde.verify(t))) AS faults
FROM unnest('{encrypted.n,encrypted.u}'::regclass[]) t;
DROP SCHEMA encrypted, heap CASCADE;
