-- Functions for workloads with out-of-line values.

-- n bytes that differ with the seed: not compressible, or well compressible
CREATE FUNCTION noise(n int, seed int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT left(string_agg(translate(encode(sha512((seed * 100000 + i)::text::bytea), 'base64'), E'\n=', ''), ''), n) FROM generate_series(0, n / 86) i
$$;
CREATE FUNCTION pattern(n int, seed int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT left(repeat('pattern ' || seed || ' ', n / 10 + 1), n)
$$;

CREATE FUNCTION toast_table(name regclass) RETURNS regclass LANGUAGE sql AS $$
    SELECT reltoastrelid::regclass FROM pg_class WHERE oid = name
$$;

-- The number of values in a table's TOAST table, compared with what its rows point to: "unused" values that no row points to,
-- "lost" ones that a row points to in vain, "broken" ones whose chunks are not numbered from 0. All should be 0. (The
-- number of values itself may differ between twins near the threshold.)
CREATE FUNCTION toasted(name regclass, OUT unused bigint, OUT lost bigint, OUT broken bigint) LANGUAGE plpgsql AS $$
DECLARE
    pointers text;
BEGIN
    SELECT string_agg(format('SELECT pg_column_toast_chunk_id(%I) AS id FROM %s', attname, name), ' UNION ALL ') INTO pointers
    FROM pg_attribute WHERE attrelid = name AND attnum > 0 AND NOT attisdropped AND attlen = -1;
    EXECUTE format('
        WITH used AS MATERIALIZED (SELECT id FROM (%s) x WHERE id IS NOT NULL),
             stored AS MATERIALIZED (SELECT chunk_id AS id, count(*) AS chunks, min(chunk_seq) AS first, max(chunk_seq) AS last FROM %s GROUP BY 1)
        SELECT (SELECT count(*) FROM stored WHERE id NOT IN (SELECT id FROM used)),
               (SELECT count(*) FROM used WHERE id NOT IN (SELECT id FROM stored)),
               (SELECT count(*) FROM stored WHERE first <> 0 OR last <> chunks - 1)', pointers, toast_table(name))
    INTO unused, lost, broken;
END $$;
