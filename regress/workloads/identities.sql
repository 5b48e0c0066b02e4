-- Which old rows are logged: every replica identity, for changes of key columns and of others, and for deletions.
CREATE FUNCTION change(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('INSERT INTO %1$I VALUES (''v1'', 1, 10, ''u1'', 0), (''v2'', 2, 20, ''u2'', 0), (''v3'', 3, 30, ''u3'', NULL)', name);
    EXECUTE format('UPDATE %1$I SET n = n + 1 WHERE id = 1', name);
    EXECUTE format('UPDATE %1$I SET v = repeat(v, 10) WHERE id = 1', name); -- what the key columns lie behind
    EXECUTE format('UPDATE %1$I SET id = id + 100, n = 7 WHERE id = 2', name); -- the primary key
    EXECUTE format('UPDATE %1$I SET u = u || ''!'' WHERE id = 1', name); -- a unique one
    EXECUTE format('UPDATE %1$I SET id = id, u = u, k = k WHERE id = 3', name); -- to the same value
    EXECUTE format('UPDATE %1$I SET k = k + 1 WHERE id = 3', name); -- one column of a unique key of two
    EXECUTE format('UPDATE %1$I SET (v, id, k, u, n) = (NULL, 4, 40, '''', NULL) WHERE id = 3', name);
    EXECUTE format('DELETE FROM %1$I WHERE id = 4', name);
    EXECUTE format('DELETE FROM %1$I', name);
END $$;
-- (the key columns in the middle, some behind a column of variable length)
CREATE TABLE shape (v text, id int NOT NULL, k int NOT NULL, u text NOT NULL, n int);

CREATE TABLE keyless (LIKE shape);
SELECT change('keyless');
CREATE TABLE keyed (LIKE shape, PRIMARY KEY (id));
SELECT change('keyed');
CREATE TABLE wide_key (LIKE shape, PRIMARY KEY (u, id));
SELECT change('wide_key');
CREATE TABLE unique_only (LIKE shape, UNIQUE (id));
SELECT change('unique_only');

CREATE TABLE by_index (LIKE shape, PRIMARY KEY (id));
CREATE UNIQUE INDEX by_index_u ON by_index (u);
ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_u;
SELECT change('by_index');
CREATE TABLE by_index_of_two (LIKE shape);
CREATE UNIQUE INDEX by_index_of_two_ku ON by_index_of_two (u, k) INCLUDE (n);
ALTER TABLE by_index_of_two REPLICA IDENTITY USING INDEX by_index_of_two_ku;
SELECT change('by_index_of_two');

CREATE TABLE whole (LIKE shape, PRIMARY KEY (id));
ALTER TABLE whole REPLICA IDENTITY FULL;
SELECT change('whole');
CREATE TABLE whole_keyless (LIKE shape);
ALTER TABLE whole_keyless REPLICA IDENTITY FULL;
SELECT change('whole_keyless');

CREATE TABLE none (LIKE shape, PRIMARY KEY (id));
ALTER TABLE none REPLICA IDENTITY NOTHING;
SELECT change('none');

-- the identity's index dropped, made again, replaced
DROP INDEX by_index_u;
SELECT change('by_index');
ALTER TABLE by_index REPLICA IDENTITY DEFAULT;
SELECT change('by_index');
ALTER TABLE keyed DROP CONSTRAINT keyed_pkey;
SELECT change('keyed');
ALTER TABLE keyed ADD PRIMARY KEY (k);
SELECT change('keyed');

-- a deferrable primary key is no identity; nor is anything else than what is written
CREATE TABLE postponed (LIKE shape, PRIMARY KEY (id) DEFERRABLE);
SELECT change('postponed');

-- changed between two changes of one transaction, and undone
BEGIN;
INSERT INTO keyed VALUES ('v', 1, 1, 'u', 1), ('w', 2, 2, 'x', 2);
ALTER TABLE keyed REPLICA IDENTITY FULL;
UPDATE keyed SET n = 2;
SAVEPOINT s;
ALTER TABLE keyed REPLICA IDENTITY NOTHING;
UPDATE keyed SET n = 3;
DELETE FROM keyed WHERE id = 1;
ROLLBACK TO s;
DELETE FROM keyed WHERE id = 1;
ALTER TABLE keyed REPLICA IDENTITY DEFAULT;
UPDATE keyed SET k = 5;
COMMIT;

-- partitions have identities of their own
CREATE TABLE parted (LIKE shape, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (100) TO (200);
ALTER TABLE parted_2 REPLICA IDENTITY FULL;
SELECT change('parted');

-- keys of every width and passing
CREATE TABLE by_text (id text PRIMARY KEY, n int);
CREATE TABLE by_numeric (n int, id numeric PRIMARY KEY);
CREATE TABLE by_uuid (n int, id uuid PRIMARY KEY, m int);
CREATE TABLE by_name (id name, n bool, PRIMARY KEY (n, id));
INSERT INTO by_text VALUES ('', 1), (repeat('k', 200), 2);
INSERT INTO by_numeric VALUES (1, 'NaN'), (2, 1.50);
INSERT INTO by_uuid VALUES (1, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 1);
INSERT INTO by_name VALUES ('n', true), ('', false);
UPDATE by_text SET n = n + 1;
UPDATE by_text SET id = id || 'x';
UPDATE by_numeric SET id = 1.5 WHERE n = 2; -- equal, but not the same
UPDATE by_numeric SET n = 3;
UPDATE by_uuid SET m = NULL;
UPDATE by_uuid SET id = 'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11';
UPDATE by_name SET n = NOT n;
DELETE FROM by_text;
DELETE FROM by_numeric;
DELETE FROM by_uuid;
DELETE FROM by_name;
