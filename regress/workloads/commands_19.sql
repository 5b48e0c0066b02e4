-- Commands of PostgreSQL 19 that come to the access method in ways of their own.
-- ON CONFLICT DO SELECT, with and without locks
CREATE TABLE u (id int PRIMARY KEY, a text, big text);
ALTER TABLE u ALTER big SET STORAGE EXTERNAL;
INSERT INTO u SELECT i, 'old ' || i, repeat(md5(i::text), 150) FROM generate_series(1, 20) i;
INSERT INTO u VALUES (3, 'new', 'x'), (21, 'new', 'y') ON CONFLICT (id) DO SELECT RETURNING id, a, length(big);
INSERT INTO u VALUES (4, 'new', 'x'), (22, 'new', 'y') ON CONFLICT (id) DO SELECT FOR UPDATE RETURNING id, a, md5(big);
INSERT INTO u VALUES (5, 'new', 'x'), (6, 'new', 'x') ON CONFLICT (id) DO SELECT WHERE u.id = 6 RETURNING id, a, md5(big), xmax = 0 AS no_lock;
BEGIN;
UPDATE u SET a = 'changed' WHERE id = 7;
INSERT INTO u VALUES (7, 'new', 'x') ON CONFLICT (id) DO SELECT FOR SHARE RETURNING old.a, new.a, length(big);
ROLLBACK;
SELECT count(*), sum(hashtext(u::text)) FROM u;

-- parallel TID range scans
CREATE TABLE many AS SELECT i AS id, repeat('x', 100) AS x FROM generate_series(1, 20000) i;
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT count(*), sum(id), sum(length(x)) FROM many WHERE ctid < '(100000,0)';
RESET max_parallel_workers_per_gather;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;

-- pages that a reader finds all visible
SELECT count(*), max(x) FROM many;
SELECT count(*), max(x) FROM many;
DELETE FROM many WHERE id % 100 = 0;
SELECT count(*), sum(id) FROM many;
CREATE INDEX many_id ON many (id);
VACUUM many;
SELECT count(*) FROM many WHERE id BETWEEN 50 AND 350;
