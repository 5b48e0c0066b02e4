-- Builds that sort more rows than the tests of types do: in memory, where words beside the rows decide, with abbreviations and
-- after those were given up, and merged from several tapes, where keys are decrypted again.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_vault_tde;
CREATE SCHEMA index_builds;
SET search_path = index_builds, public;
SET max_parallel_maintenance_workers = 0;

SELECT setseed(0.5);
CREATE TABLE h USING heap AS SELECT i AS id, (random() * 1e9)::int AS number, i % 7 AS few, md5(i::text) COLLATE "C" AS words,
    ('a common beginning, ' || (random() * 1e6)::int) COLLATE "C" AS beginning, 'Words ' || (random() * 1e6)::int AS language,
    (random() * 1e6)::numeric(12, 4) AS decimal, md5((i / 2)::text)::uuid AS uuid, decode(md5(i::text), 'hex') AS bytes,
    CASE WHEN random() < 0.1 THEN NULL ELSE '10.0.0.0'::inet + (i * 7919 % 100000) END AS address,
    (ARRAY['x', 'y', repeat('z', 300)])[1 + i % 3] || i AS long, CASE i WHEN 20000 THEN 17 ELSE i END AS once
FROM generate_series(1, 30000) i;
CREATE TABLE e USING encrypted_heap AS SELECT * FROM h;

-- The order of the index and the order of a sort, which needs no index.
CREATE FUNCTION differs(columns text, memory text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    answers text[];
    answer text;
    names text := regexp_replace(columns, ' (DESC|NULLS FIRST)', '', 'g');
BEGIN
    PERFORM set_config('maintenance_work_mem', memory, true);
    EXECUTE format('CREATE INDEX i ON e USING encrypted_btree (%s)', columns);
    FOR indexed IN 0..1 LOOP
        PERFORM set_config('enable_seqscan', CASE indexed WHEN 1 THEN 'off' ELSE 'on' END, true);
        PERFORM set_config('enable_sort', CASE indexed WHEN 1 THEN 'off' ELSE 'on' END, true);
        PERFORM set_config('enable_indexscan', CASE indexed WHEN 1 THEN 'on' ELSE 'off' END, true);
        PERFORM set_config('enable_bitmapscan', 'off', true);
        FOR answer IN EXECUTE format('EXPLAIN SELECT %s FROM e ORDER BY %s', names, columns) LOOP
            answers := answers || (answer ~ 'Index')::text;
            EXIT;
        END LOOP;
        EXECUTE format('SELECT md5(string_agg(q::text, E''\n'')) FROM (SELECT %s FROM %s ORDER BY %s) q',
            names, CASE indexed WHEN 1 THEN 'e' ELSE 'h' END, columns) INTO answer;
        answers := answers || answer;
    END LOOP;
    DROP INDEX i;
    RETURN answers IS DISTINCT FROM ARRAY['false', answers[2], 'true', answers[2]];
END $$;

SELECT columns, memory FROM
    unnest(ARRAY['1MB', '256MB']) memory,
    unnest(ARRAY['number', 'number DESC', 'few, number', 'words', 'beginning', 'beginning DESC', 'language', 'decimal', 'uuid', 'bytes', 'address',
        'address DESC NULLS FIRST', 'long', 'few, beginning', 'beginning, number DESC', 'words, few']) columns
WHERE differs(columns, memory);

-- A duplicate is found while sorting in memory and while merging.
SET maintenance_work_mem = '256MB';
CREATE UNIQUE INDEX ON e USING encrypted_btree (once);
CREATE UNIQUE INDEX ON e USING encrypted_btree (('a common beginning, ' || once));
CREATE UNIQUE INDEX ON e USING encrypted_btree (words);
CREATE UNIQUE INDEX ON e USING encrypted_btree (once, id);
SET maintenance_work_mem = '1MB';
CREATE UNIQUE INDEX ON e USING encrypted_btree (once);
CREATE UNIQUE INDEX ON e USING encrypted_btree (('a common beginning, ' || once));
CREATE UNIQUE INDEX ON e USING encrypted_btree (words);
CREATE UNIQUE INDEX ON e USING encrypted_btree (once, id);
SELECT * FROM vault_tde.verify('e');
DROP SCHEMA index_builds CASCADE;
