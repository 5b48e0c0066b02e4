-- Values out of line as decoding meets them: with every replica identity, unchanged, in sub-transactions that are kept or undone, big, and
-- of columns that are no more.
CREATE FUNCTION noise(length int, seed text) RETURNS text IMMUTABLE LANGUAGE sql AS
    $$ SELECT left(string_agg(md5(seed || i), ''), length) FROM generate_series(0, length / 32) i $$;
CREATE TABLE shape (v text, id int NOT NULL, big text STORAGE EXTERNAL NOT NULL, more text);
CREATE FUNCTION change(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('INSERT INTO %I VALUES (''v'', 1, noise(4000, ''a''), noise(9000, ''b'')), (NULL, 2, noise(3000, ''c''), NULL), (''v3'', 3, ''short'', ''short'')', name);
    EXECUTE format('UPDATE %I SET v = v || ''!''', name);
    EXECUTE format('UPDATE %I SET big = noise(5000, ''d'') WHERE id = 1', name);
    EXECUTE format('UPDATE %I SET more = ''in line now'' WHERE id = 1', name);
    EXECUTE format('UPDATE %I SET more = noise(4000, ''out again'') WHERE id = 1', name);
    EXECUTE format('UPDATE %I SET id = id + 10', name);
    EXECUTE format('UPDATE %I SET id = id + 10, big = noise(4500, ''e''), v = NULL', name);
    EXECUTE format('DELETE FROM %I WHERE id = 21', name);
    EXECUTE format('DELETE FROM %I', name);
END $$;
CREATE TABLE keyless (LIKE shape INCLUDING STORAGE);
SELECT change('keyless');
CREATE TABLE keyed (LIKE shape INCLUDING STORAGE, PRIMARY KEY (id));
SELECT change('keyed');
CREATE TABLE whole (LIKE shape INCLUDING STORAGE, PRIMARY KEY (id));
ALTER TABLE whole REPLICA IDENTITY FULL;
SELECT change('whole');
CREATE TABLE none (LIKE shape INCLUDING STORAGE, PRIMARY KEY (id));
ALTER TABLE none REPLICA IDENTITY NOTHING;
SELECT change('none');
-- an identity column that is compressed, out of line, or both, if only it fits into its index
CREATE TABLE big_key (id text, v text, PRIMARY KEY (id));
INSERT INTO big_key VALUES (repeat('key', 4000), 'v'), (noise(2500, 'key'), noise(3000, 'v'));
UPDATE big_key SET v = 'w';
UPDATE big_key SET id = id || '!';
DELETE FROM big_key;

-- sub-transactions
CREATE TABLE t (id int PRIMARY KEY, x text, y text);
BEGIN;
INSERT INTO t VALUES (1, noise(5000, 'kept'), 'y');
SAVEPOINT a;
INSERT INTO t VALUES (2, noise(5000, 'undone'), 'y');
UPDATE t SET x = noise(6000, 'undone') WHERE id = 1;
SAVEPOINT b;
UPDATE t SET x = noise(7000, 'undone') WHERE id = 1;
RELEASE b;
ROLLBACK TO a;
INSERT INTO t VALUES (2, noise(5000, 'kept, too'), noise(5000, 'y'));
UPDATE t SET y = noise(4000, 'changed') WHERE id = 1;
SAVEPOINT c;
UPDATE t SET x = noise(8000, 'kept in c') WHERE id = 1;
RELEASE c;
UPDATE t SET id = 3 WHERE id = 2;
COMMIT;
DO $$
BEGIN
    FOR i IN 10..30 LOOP
        BEGIN
            INSERT INTO t VALUES (i, noise(4000, 'block ' || i), NULL);
            UPDATE t SET y = noise(4000, 'block y ' || i) WHERE id = i;
            IF i % 3 = 0 THEN RAISE 'undo'; END IF;
        EXCEPTION WHEN raise_exception THEN
            INSERT INTO t VALUES (i, noise(3500, 'handler ' || i), NULL);
        END;
    END LOOP;
END $$;
INSERT INTO t VALUES (10, noise(5000, 'ignored')) ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (10, noise(5000, 'upserted')) ON CONFLICT (id) DO UPDATE SET x = excluded.x || 'and more';
INSERT INTO t VALUES (10, noise(5000, 'duplicate')); -- an error
-- several rows of one statement, and many chunks: more than one message
INSERT INTO t SELECT i, noise(2500 + i, 'many ' || i), repeat('compressible', i * 10) FROM generate_series(100, 140) i;
INSERT INTO t VALUES (200, noise(2500000, 'two and a half MiB'), noise(1048576, 'just one'));
UPDATE t SET id = 201 WHERE id = 200;
UPDATE t SET y = noise(1048577, 'a little more') WHERE id = 201;
COPY t (id, x) FROM PROGRAM 'awk ''BEGIN { srand(1); for (n = 300; n < 320; n++) { s = ""; while (length(s) < 3000) s = s sprintf("%06x", rand() * 16777216); print n "\t" s } }''';

-- columns added and dropped, rewrites, generations of the key
ALTER TABLE t ADD COLUMN z text DEFAULT 'z';
UPDATE t SET z = noise(3000, 'z' || id) WHERE id < 20;
UPDATE t SET y = 'y' WHERE id < 20;
ALTER TABLE t DROP COLUMN x;
UPDATE t SET y = 'without x' WHERE id BETWEEN 100 AND 105;
DELETE FROM t WHERE id BETWEEN 100 AND 102;
SELECT count(vault_tde.rotate_key());
UPDATE t SET y = noise(3000, 'new key') WHERE id BETWEEN 11 AND 15;
UPDATE t SET id = -id WHERE id BETWEEN 11 AND 15;
ALTER TABLE t REPLICA IDENTITY FULL;
UPDATE t SET z = 'zz' WHERE id < 0;
DELETE FROM t WHERE id = -11;
VACUUM FULL t;
UPDATE t SET z = z || 'after vacuum' WHERE id < 0;
ALTER TABLE t ALTER COLUMN id TYPE bigint;
DELETE FROM t WHERE id < 0;
-- a prepared transaction; one that is undone
BEGIN;
INSERT INTO t VALUES (400, noise(5000, 'prepared'), 'z');
PREPARE TRANSACTION 'regress_vault_values';
COMMIT PREPARED 'regress_vault_values';
BEGIN;
INSERT INTO t VALUES (401, noise(500000, 'never'), 'z');
ROLLBACK;
-- truncated and dropped since
TRUNCATE t;
INSERT INTO t VALUES (500, noise(5000, 'after truncate'), NULL);
CREATE TABLE gone AS SELECT noise(10000, 'gone') AS x;
DROP TABLE gone;
