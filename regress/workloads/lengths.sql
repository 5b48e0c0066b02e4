-- Rows of every length around the thresholds of TOAST, by INSERT, COPY, UPDATE, upsert, VACUUM FULL and CLUSTER. (Decoding may
-- differ here: a value that lies out of line in the encrypted row only is left out of an UPDATE that does not change it.)
-- (md5 makes text that does not compress.)
CREATE FUNCTION noise(length int, seed text) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql AS
    $$ SELECT left(string_agg(md5(seed || i), ''), length) FROM generate_series(0, length / 32) i $$;

-- Lengths around the thresholds by INSERT, COPY, UPDATE, upsert, each of a value that compresses and of one that does not.
CREATE TABLE lengths (n int, way text, x text, y text, PRIMARY KEY (n, way));
INSERT INTO lengths SELECT n, 'insert', noise(n, 'i'), 'y' FROM generate_series(1900, 2100) n;
INSERT INTO lengths SELECT n, 'external', noise(n, 'e'), NULL FROM generate_series(3900, 4100, 3) n;
INSERT INTO lengths SELECT n, 'chunks', noise(n, 'c'), NULL FROM generate_series(1960 * 4 - 20, 1960 * 4 + 20) n;
INSERT INTO lengths SELECT n, 'chunks', noise(n, 'c'), NULL FROM generate_series(1996 * 3 - 10, 1996 * 3 + 10) n;
INSERT INTO lengths SELECT n, 'two', noise(n / 2, 'x'), noise(n / 2, 'y') FROM generate_series(1900, 2100) n;
INSERT INTO lengths SELECT n, 'compressible', repeat('x', n), repeat('y', 20) FROM generate_series(1900, 2100, 10) n;
INSERT INTO lengths SELECT n, 'update', 'short', 'y' FROM generate_series(1900, 2100) n;
UPDATE lengths SET x = noise(n, 'u') WHERE way = 'update';
INSERT INTO lengths SELECT n, 'insert', noise(n, 'upsert'), 'y' FROM generate_series(1900, 2100) n ON CONFLICT (n, way) DO UPDATE SET x = excluded.x, y = 'upserted';
COPY lengths FROM PROGRAM 'awk ''BEGIN { srand(1); for (n = 1900; n <= 2100; n++) { s = ""; while (length(s) < n) s = s sprintf("%06x", rand() * 16777216); print n "\tcopy\t" substr(s, 1, n) "\ty" } }''';
SELECT way, count(*), sum(length(x)), sum(length(y)), md5(string_agg(x, '' ORDER BY n)) FROM lengths GROUP BY way ORDER BY way;
UPDATE lengths SET y = y || '!' WHERE n % 10 = 0;
UPDATE lengths SET x = x || '!' WHERE n % 10 = 1;
DELETE FROM lengths WHERE n % 10 = 2;
VACUUM FULL lengths;
SELECT way, count(*), sum(length(x)), sum(length(y)), md5(string_agg(x, '' ORDER BY n)) FROM lengths GROUP BY way ORDER BY way;
CLUSTER lengths USING lengths_pkey;
SELECT way, count(*), sum(length(x)), sum(length(y)), md5(string_agg(x, '' ORDER BY n)) FROM lengths GROUP BY way ORDER BY way;
SELECT n, way FROM lengths LIMIT 5;
