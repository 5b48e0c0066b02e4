-- Rows of unusual shape.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/twin shapes

-- The largest row is where the two differ: an encrypted row is 34 bytes longer.
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    RETURN 'stored';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLERRM;
END $$;
CREATE TABLE encrypted.largest (t text STORAGE PLAIN) USING encrypted_heap;
CREATE TABLE heap.largest (t text STORAGE PLAIN);
SELECT side, length, pg_temp.try(format('INSERT INTO %s.largest VALUES (repeat(''x'', %s))', side, length))
FROM (VALUES ('heap', 8132), ('heap', 8133), ('encrypted', 8132 - 34), ('encrypted', 8133 - 34)) v (side, length);
INSERT INTO encrypted.largest VALUES ('short');
SELECT pg_temp.try('UPDATE encrypted.largest SET t = repeat(''y'', 8098) WHERE t = ''short''');
SELECT pg_temp.try('UPDATE encrypted.largest SET t = t || ''z''');
SELECT length(t), left(t, 1) FROM encrypted.largest ORDER BY t;
-- also by COPY, which stores many rows at once
\getenv outputs PG_ABS_BUILDDIR
\set copied :outputs '/results/largest.copy'
COPY (SELECT repeat(chr(96 + n), 8098) FROM generate_series(1, 9) n) TO :'copied';
COPY encrypted.largest FROM :'copied';
SELECT count(*), min(length(t)), count(DISTINCT t) FROM encrypted.largest WHERE t <> repeat('y', 8098);

DROP SCHEMA encrypted, heap CASCADE;
