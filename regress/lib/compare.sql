-- Compares each table of schema "encrypted" with its namesake in schema "heap".
CREATE FUNCTION pg_temp.compare(name text, OUT rows bigint, OUT missing bigint, OUT surplus bigint) LANGUAGE plpgsql AS $$
BEGIN
    -- as text, since not every type has an equality; ONLY, since partitions and children are compared by themselves
    EXECUTE format($q$
        WITH e AS (SELECT t::text FROM ONLY encrypted.%1$I t), h AS (SELECT t::text FROM ONLY heap.%1$I t)
        SELECT (SELECT count(*) FROM e),
               (SELECT count(*) FROM (TABLE h EXCEPT ALL TABLE e) x),
               (SELECT count(*) FROM (TABLE e EXCEPT ALL TABLE h) x)
    $q$, name) INTO rows, missing, surplus;
END $$;

SELECT e.relname AS "table", ea.amname AS "one", ha.amname AS "other", c.rows, c.missing, c.surplus
FROM pg_class e
    LEFT JOIN pg_class h ON h.relname = e.relname AND h.relnamespace = 'heap'::regnamespace
    LEFT JOIN pg_am ea ON ea.oid = e.relam
    LEFT JOIN pg_am ha ON ha.oid = h.relam,
    LATERAL pg_temp.compare(e.relname::text) c
WHERE e.relnamespace = 'encrypted'::regnamespace AND e.relkind IN ('r', 'm')
ORDER BY e.relname COLLATE "C";
