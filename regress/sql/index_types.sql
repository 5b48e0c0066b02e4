-- Encrypted indexes on each built-in type against btree on heap: the same random data, with NULLs, duplicates and extremes, the
-- same rows in the same order for every operator in both directions and for random ranges over several columns.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_vault_tde;
-- INDEX_TWIN_ROWS=50000 for a long run
\set rows 400
\getenv rows INDEX_TWIN_ROWS
CREATE SCHEMA index_types;
SET search_path = index_types, public;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy', 'ecstatic');
CREATE TYPE pair AS (x int, y text);
CREATE DOMAIN short AS varchar(20) CHECK (length(VALUE) < 20);
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);

-- A random value of each type; r() is small, so that there are duplicates, s() a text.
CREATE FUNCTION r(n int) RETURNS int LANGUAGE sql VOLATILE AS 'SELECT floor(random() * n)::int';
CREATE FUNCTION s() RETURNS text LANGUAGE sql VOLATILE AS
    $$SELECT repeat(chr(97 + r(26)), r(4)) || CASE r(6) WHEN 0 THEN '' WHEN 1 THEN 'É' WHEN 2 THEN 'z' WHEN 3 THEN 'Ab ' ELSE r(99)::text END$$;
CREATE TABLE kinds (name text, type text, value text, extremes text[]);
INSERT INTO kinds VALUES
    ('boolean', 'boolean', 'r(2) = 1', '{}'),
    ('"char"', '"char"', 'chr(32 + r(90))::"char"', '{}'),
    ('int2', 'int2', 'r(300) - 150', '{-32768,32767,0}'),
    ('int4', 'int4', 'r(1000) - 500', '{-2147483648,2147483647}'),
    ('int8', 'int8', '(r(1000) - 500) * 10000000000', '{-9223372036854775808,9223372036854775807}'),
    ('oid', 'oid', 'r(1000)::oid', '{0,4294967295}'),
    ('oidvector', 'oidvector', $$(r(9) || ' ' || r(9))::oidvector$$, '{""}'),
    ('float4', 'float4', '(r(1000) - 500) / 7.0', '{NaN,Infinity,-Infinity,-0}'),
    ('float8', 'float8', '(r(1000) - 500) / 7.0', '{NaN,Infinity,-Infinity,-0,1e-300}'),
    ('numeric', 'numeric', '(r(1000) - 500) * 1.000001 ^ r(3)', '{NaN,Infinity,-Infinity,0.000,123456789012345678901234567890.5}'),
    ('money', 'money', '(r(1000) - 500)::money', '{}'),
    ('text', 'text', 's()', '{"",é,zzzz}'),
    ('text C', 'text COLLATE "C"', 's()', '{"",é,zzzz}'),
    ('text icu', 'text COLLATE "und-x-icu"', 's()', '{"",é,zzzz}'),
    ('text nocase', 'text COLLATE nocase', 's()', '{"",é,É,ZZ,zz}'),
    ('long text', 'text', 'repeat(s(), 300)', '{""}'),
    ('varchar', 'varchar(40)', 's()', '{""}'),
    ('bpchar', 'char(12)', 's()', '{""}'),
    ('domain', 'short', 'left(s(), 19)', '{""}'),
    ('name', 'name', 's()::name', '{""}'),
    ('bytea', 'bytea', $$convert_to(s(), 'UTF8')$$, '{"",\\x00,\\xffff}'),
    ('bit', 'bit(9)', 'r(512)::bit(9)', '{}'),
    ('varbit', 'varbit', 'substring(r(512)::bit(9) from 1 + r(8))::varbit', '{""}'),
    ('uuid', 'uuid', 'md5(r(300)::text)::uuid', '{00000000-0000-0000-0000-000000000000,ffffffff-ffff-ffff-ffff-ffffffffffff}'),
    ('date', 'date', $$date '2000-01-01' + r(500)$$, '{infinity,-infinity,4713-01-01 BC}'),
    ('time', 'time', $$time '00:00' + r(1000) * interval '1 minute'$$, '{24:00}'),
    ('timetz', 'timetz', $$(timetz '00:00+00' + r(1000) * interval '1 minute') AT TIME ZONE (r(3) || ' hours')::interval$$, '{}'),
    ('timestamp', 'timestamp', $$timestamp '2000-01-01' + r(500) * interval '1 hour'$$, '{infinity,-infinity}'),
    ('timestamptz', 'timestamptz', $$timestamptz '2000-01-01' + r(500) * interval '1 hour'$$, '{infinity,-infinity}'),
    ('interval', 'interval', $$r(100) * interval '1 day' + r(3) * interval '24 hours'$$, '{-1 year,30 days,1 month}'),
    ('inet', 'inet', $$('10.0.' || r(9) || '.' || r(9) || '/' || 16 + r(17))::inet$$, '{::1,0.0.0.0/0}'),
    ('cidr', 'cidr', $$network(('10.' || r(9) || '.0.0/' || 16 + r(17))::inet)$$, '{::1,0.0.0.0/0}'),
    ('macaddr', 'macaddr', $$('08:00:2b:01:02:' || lpad(to_hex(r(99)), 2, '0'))::macaddr$$, '{}'),
    ('macaddr8', 'macaddr8', $$('08:00:2b:01:02:03:04:' || lpad(to_hex(r(99)), 2, '0'))::macaddr8$$, '{}'),
    ('pg_lsn', 'pg_lsn', $$('0/' || to_hex(r(999)))::pg_lsn$$, '{0/0,FFFFFFFF/FFFFFFFF}'),
    ('xid8', 'xid8', 'r(999)::text::xid8', '{0,18446744073709551615}'),
    ('tid', 'tid', $$('(' || r(20) || ',' || r(20) || ')')::tid$$, '{}'),
    ('tsvector', 'tsvector', 's()::tsvector', '{""}'),
    ('tsquery', 'tsquery', $$plainto_tsquery('simple', s())$$, '{}'),
    ('jsonb', 'jsonb', $$jsonb_build_object('k', r(50), 'l', s())$$, '{null,[],1,"\"x\""}'),
    ('enum', 'mood', '(enum_range(NULL::mood))[1 + r(4)]', '{}'),
    ('int array', 'int[]', 'ARRAY[r(9), NULL, r(9)]', '{"{}","{NULL}"}'),
    ('text array', 'text[]', 'ARRAY[s(), s()]', '{"{}"}'),
    ('record', 'pair', 'ROW(r(9), s())::pair', '{"(,)"}'),
    ('range', 'int4range', 'int4range(r(50), 50 + r(50))', '{empty,"(,)"}'),
    ('multirange', 'int4multirange', 'int4multirange(int4range(r(50), 50 + r(50)))', '{"{}"}');

-- Every type that has a default operator class for btree is there, and has one for encrypted_btree.
SELECT c.opcintype::regtype FROM pg_opclass c
WHERE c.opcmethod = (SELECT oid FROM pg_am WHERE amname = 'btree') AND c.opcdefault AND c.opcnamespace = 'pg_catalog'::regnamespace
    AND NOT EXISTS (SELECT FROM pg_opclass e WHERE e.opcintype = c.opcintype AND e.opcdefault
                    AND e.opcmethod = (SELECT oid FROM pg_am WHERE amname = 'encrypted_btree'));
SELECT o.amopopr::regoperator FROM pg_amop o JOIN pg_opfamily f ON f.oid = o.amopfamily
WHERE o.amopmethod = (SELECT oid FROM pg_am WHERE amname = 'btree') AND f.opfnamespace = 'pg_catalog'::regnamespace
    AND f.opfname !~ 'pattern|image'
    AND NOT EXISTS (SELECT FROM pg_amop e WHERE (e.amopopr, e.amoplefttype, e.amoprighttype, e.amopstrategy)
                        = (o.amopopr, o.amoplefttype, o.amoprighttype, o.amopstrategy)
                    AND e.amopmethod = (SELECT oid FROM pg_am WHERE amname = 'encrypted_btree'));
-- amvalidate() finds nothing to say
SELECT count(*) > 30 AS many, bool_and(amvalidate(oid)) AS valid FROM pg_opclass
WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'encrypted_btree');

CREATE TABLE failures (name text, query text, heap text, encrypted text);
CREATE TABLE queries (name text, total bigint);

-- Runs a query that returns one array on both; equal keys are in the order of the rows' places, which differ, hence "id" at the
-- end of each ORDER BY (an incremental sort within groups of equal keys); the table is called @T in it. It must use the encrypted index.
CREATE FUNCTION compare(name text, query text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    h text;
    e text;
BEGIN
    EXECUTE replace(query, '@T', 'h') INTO h;
    EXECUTE replace(query, '@T', 'e') INTO e;
    IF h IS DISTINCT FROM e THEN
        INSERT INTO failures VALUES (name, query, h, e);
    END IF;
    UPDATE queries q SET total = total + 1 WHERE q.name = compare.name;
END $$;

CREATE FUNCTION twin(kind kinds, rows int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    op text;
    direction text;
    constant text;
    opclass oid;
    line text;
    uses int := 0;
    method text;
BEGIN
    PERFORM setseed(0.5);
    INSERT INTO queries VALUES (kind.name, 0);
    DROP TABLE IF EXISTS h, e;
    EXECUTE format('CREATE TABLE h (id int, a %1$s, b int, c %1$s) USING heap', kind.type);
    EXECUTE format('CREATE TABLE e (id int, a %1$s, b int, c %1$s) USING encrypted_heap', kind.type);
    -- some rows before the build, some after
    FOREACH method IN ARRAY ARRAY['build', 'insert'] LOOP
        EXECUTE format('CREATE TEMP TABLE more (id int, a %1$s, b int, c %1$s)', kind.type);
        EXECUTE format('INSERT INTO more SELECT i, CASE WHEN r(20) > 0 THEN (%1$s)::%2$s END, r(5), CASE WHEN r(9) > 0 THEN (%1$s)::%2$s END '
            'FROM generate_series(1, %3$s) i', kind.value, split_part(kind.type, ' COLLATE', 1), rows / 2);
        EXECUTE format('INSERT INTO more SELECT 0, x::%1$s, 3, x::%1$s FROM unnest($1) x', split_part(kind.type, ' COLLATE', 1)) USING kind.extremes;
        UPDATE more SET id = id + rows WHERE method = 'insert';
        INSERT INTO h SELECT * FROM more ORDER BY id;
        INSERT INTO e SELECT * FROM more ORDER BY id;
        DROP TABLE more;
        IF method = 'build' THEN
            CREATE INDEX h_a ON h USING btree (a);
            CREATE INDEX e_a ON e USING encrypted_btree (a);
            CREATE INDEX h_bac ON h USING btree (b DESC, a NULLS FIRST, c DESC NULLS LAST) INCLUDE (id);
            CREATE INDEX e_bac ON e USING encrypted_btree (b DESC, a NULLS FIRST, c DESC NULLS LAST) INCLUDE (id);
        END IF;
    END LOOP;
    ANALYZE h, e;
    -- each operator, in both directions, with constants from the data
    FOREACH op IN ARRAY ARRAY['<', '<=', '=', '>=', '>'] LOOP
        FOREACH direction IN ARRAY ARRAY['', 'DESC'] LOOP
            FOR constant IN EXECUTE 'SELECT quote_literal(a::text) FROM (SELECT DISTINCT ON (a::text) a, id FROM h WHERE a IS NOT NULL ORDER BY a::text, id) d ORDER BY id LIMIT 6' LOOP
                PERFORM compare(kind.name, format('SELECT array_agg(id) FROM (SELECT id FROM @T WHERE a %s %s::%s ORDER BY a %s, id) q', op, constant, split_part(kind.type, ' COLLATE', 1), direction));
            END LOOP;
        END LOOP;
    END LOOP;
    -- NULLs, the whole index, the ends, arrays
    PERFORM compare(kind.name, 'SELECT array_agg(id) FROM (SELECT id FROM @T ORDER BY a DESC, id) q');
    PERFORM compare(kind.name, 'SELECT array_agg(id) FROM (SELECT id FROM @T WHERE a IS NULL ORDER BY a, id) q');
    PERFORM compare(kind.name, 'SELECT array_agg(id) FROM (SELECT id FROM @T WHERE a IS NOT NULL ORDER BY a, id) q');
    PERFORM compare(kind.name, 'SELECT array_agg(a::text) FROM (SELECT a FROM @T ORDER BY a DESC, id LIMIT 20 OFFSET 3) q');
    PERFORM compare(kind.name, 'SELECT array_agg(b || coalesce(a::text, ''-'') || coalesce(c::text, ''-'') || id) FROM (SELECT * FROM @T WHERE b IN (1, 3, NULL) ORDER BY b DESC, a NULLS FIRST, c DESC NULLS LAST, id) q');
    FOR i IN 1..8 LOOP
        IF kind.type !~ '(\]|^oidvector)$' THEN -- there are no arrays of arrays
            EXECUTE 'SELECT quote_literal(array_agg(a)::text) FROM (SELECT a FROM h ORDER BY random() LIMIT 7) q' INTO constant;
            PERFORM compare(kind.name, format('SELECT array_agg(id) FROM (SELECT id FROM @T WHERE a = ANY (%s::%s[]) ORDER BY a, id) q', constant, split_part(kind.type, ' COLLATE', 1)));
        END IF;
        EXECUTE 'SELECT format(''b = %s AND a %s (%L::'' || $1 || '') AND c %s (%L::'' || $1 || '')'', r(5), (ARRAY[''<'', ''<='', ''='', ''>='', ''>''])[1 + r(5)], h1.a, (ARRAY[''<'', ''<='', ''='', ''>='', ''>''])[1 + r(5)], h2.a)
            FROM (SELECT a FROM h WHERE a IS NOT NULL ORDER BY random() LIMIT 1) h1, (SELECT a FROM h WHERE a IS NOT NULL ORDER BY random() LIMIT 1) h2'
            INTO constant USING split_part(kind.type, ' COLLATE', 1);
        PERFORM compare(kind.name, format('SELECT array_agg(id) FROM (SELECT id FROM @T WHERE %s ORDER BY b DESC, a NULLS FIRST, c DESC NULLS LAST, id) q', constant));
        PERFORM compare(kind.name, format('SELECT array_agg(id) FROM (SELECT id FROM @T WHERE %s ORDER BY b, a DESC NULLS LAST, c NULLS FIRST, id) q',
            replace(constant, 'b =', 'b >=')));
    END LOOP;
    -- the encrypted index is what answers
    FOR line IN EXECUTE 'EXPLAIN SELECT id FROM e ORDER BY a' LOOP
        uses := uses + (line ~ 'Index.*Scan.* e_a ')::int;
    END LOOP;
    FOR line IN EXECUTE 'EXPLAIN SELECT a, id FROM e WHERE b = 1 ORDER BY b DESC, a NULLS FIRST, c DESC NULLS LAST' LOOP
        uses := uses + (line ~ 'Index Only Scan.* e_bac ')::int;
    END LOOP;
    IF uses <> 2 THEN
        INSERT INTO failures VALUES (kind.name, 'does not use the index');
    END IF;
    -- a violation is reported in the same words
    DELETE FROM h WHERE a IS NULL;
    DELETE FROM e WHERE a IS NULL;
    PERFORM compare(kind.name, 'SELECT index_types.make_unique(''@T'')');
END $$;

CREATE FUNCTION make_unique(name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    said text;
    method text := CASE name WHEN 'e' THEN 'encrypted_btree' ELSE 'btree' END;
BEGIN
    EXECUTE format('DELETE FROM %1$I WHERE ctid NOT IN (SELECT min(ctid) FROM %1$I GROUP BY a)', name);
    EXECUTE format('CREATE UNIQUE INDEX one ON %I USING %s (a)', name, method);
    BEGIN
        EXECUTE format('INSERT INTO %1$I (a) SELECT a FROM %1$I ORDER BY a::text COLLATE "C" DESC, id LIMIT 1', name);
    EXCEPTION WHEN unique_violation THEN
        GET STACKED DIAGNOSTICS said = PG_EXCEPTION_DETAIL;
        said := SQLERRM || said;
    END;
    EXECUTE 'DROP INDEX one';
    EXECUTE format('INSERT INTO %1$I (a) SELECT a FROM %1$I ORDER BY a::text COLLATE "C", id LIMIT 1', name);
    BEGIN
        EXECUTE format('CREATE UNIQUE INDEX one ON %I USING %s (a)', name, method);
    EXCEPTION WHEN unique_violation THEN
        DECLARE detail text;
        BEGIN
            GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
            said := said || SQLERRM || detail;
        END;
    END;
    RETURN said;
END $$;

SET jit = off; -- which the cost of what is disabled would make worth it
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SELECT count(twin(k, :rows)) > 40 AS done FROM kinds k;
SELECT count(*) AS types, sum(total) > 40 * 90 AS many, min(total) >= 36 AS each FROM queries;
SELECT name, left(query, 300), left(heap, 200), left(encrypted, 200) FROM failures ORDER BY name LIMIT 20;

-- The operators between types of one family.
DROP TABLE h, e;
CREATE TABLE h (id int, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, d date, ts timestamp, tz timestamptz, n name COLLATE "C", t text COLLATE "C") USING heap;
CREATE TABLE e (LIKE h) USING encrypted_heap;
INSERT INTO h SELECT i, i % 77, i % 78, i % 79, i % 80, i % 81, date '2000-01-01' + i % 30, timestamp '2000-01-01' + i % 300 * interval '2 hours',
    timestamptz '2000-01-01' + i % 300 * interval '2 hours', 'n' || i % 55, 'n' || i % 56 FROM generate_series(1, 300) i;
INSERT INTO e TABLE h;
DO $$
DECLARE
    t text;
    l text;
    r text;
    op text;
    value text;
BEGIN
    INSERT INTO queries VALUES ('cross', 0);
    FOREACH t IN ARRAY ARRAY['i2,i4,i8', 'f4,f8', 'd,ts,tz', 'n,t'] LOOP
        FOREACH l IN ARRAY string_to_array(t, ',') LOOP
            EXECUTE format('CREATE INDEX ON h USING btree (%I); CREATE INDEX ON e USING encrypted_btree (%1$I)', l);
            FOREACH r IN ARRAY string_to_array(t, ',') LOOP
                FOREACH op IN ARRAY ARRAY['<', '<=', '=', '>=', '>'] LOOP
                    EXECUTE format('SELECT quote_literal(%I::text) || ''::'' || %L FROM h WHERE id = 40', r,
                        (SELECT atttypid::regtype FROM pg_attribute WHERE attrelid = 'h'::regclass AND attname = r)) INTO value;
                    PERFORM compare('cross', format('SELECT array_agg(id) FROM (SELECT id FROM @T WHERE %I %s %s ORDER BY %1$I, id) q', l, op, value));
                    PERFORM compare('cross', format('SELECT array_agg(id) FROM (SELECT id FROM @T WHERE %I %s ANY (ARRAY[%s]) ORDER BY %1$I, id) q', l, op, value));
                    -- two keys of different types on one column
                    PERFORM compare('cross', format('SELECT array_agg(id) FROM (SELECT id FROM @T WHERE %1$I %2$s %3$s AND %1$I > (SELECT min(%4$I) FROM h) ORDER BY %1$I, id) q', l, op, value, r));
                    PERFORM compare('cross', format('SELECT array_agg(id) FROM (SELECT id FROM @T WHERE %1$I %2$s %3$s AND %1$I > (SELECT %1$I FROM h WHERE id = 33) ORDER BY %1$I, id) q', l, op, value));
                END LOOP;
            END LOOP;
        END LOOP;
    END LOOP;
END $$;
SELECT total FROM queries WHERE name = 'cross';
SELECT name, query, left(heap, 200), left(encrypted, 200) FROM failures WHERE name = 'cross' LIMIT 5;
SET client_min_messages = error;
DROP SCHEMA index_types CASCADE;
