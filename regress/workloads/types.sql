-- Values of every family of types: ordinary ones, the ends of their ranges, and NULL in every position.
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (x int, y text);
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE textrange AS RANGE (subtype = text);

CREATE TABLE types (
    id int PRIMARY KEY,
    -- alternately by value and by reference, narrow and wide, so that alignment padding occurs everywhere
    a_bool bool, a_int8 bigint, a_int2 smallint, a_text text, an_int4 int, a_char "char", a_float8 float8, a_bpchar char(12),
    a_float4 real, a_numeric numeric, an_oid oid, a_fixed numeric(12,3), a_varchar varchar(40), a_name name, a_bytea bytea,
    a_uuid uuid, a_date date, a_time time, a_timetz timetz, a_timestamp timestamp, a_timestamptz timestamptz,
    an_interval interval, an_inet inet, a_cidr cidr, a_macaddr macaddr, a_macaddr8 macaddr8, a_bit bit(5), a_varbit varbit,
    a_json json, a_jsonb jsonb, a_jsonpath jsonpath, an_enum mood, a_composite pair, a_domain positive, a_money money,
    a_point point, a_line line, an_lseg lseg, a_box box, a_path path, a_polygon polygon, a_circle circle,
    a_tsvector tsvector, a_tsquery tsquery, an_lsn pg_lsn, a_tid tid, an_xid8 xid8, a_snapshot pg_snapshot,
    a_regclass regclass, an_oidvector oidvector, an_int2vector int2vector,
    an_int4range int4range, a_numrange numrange, a_tstzrange tstzrange, a_daterange daterange, a_textrange textrange,
    a_multirange int4multirange,
    int4s int[], texts text[], numerics numeric[], matrix int[][], bpchars char(4)[], enums mood[], composites pair[],
    ranges int4range[]
);
INSERT INTO types VALUES (1,
    true, 1234567890123, 12, 'text', 42, 'x', 1.5, 'padded', 2.25, 123.456, 7, 1234.5, 'varchar', 'a name', '\x0001ff',
    'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '2024-02-29', '12:34:56.789', '12:34:56+02', '2024-02-29 12:34:56',
    '2024-02-29 12:34:56+00', '1 mon 2 days 03:04:05', '192.168.0.1/24', '10.0.0.0/8', '08:00:2b:01:02:03',
    '08:00:2b:01:02:03:04:05', B'10101', B'1011', '{"a": [1, 2]}', '{"b": null, "a": 1}', '$.a[*] ? (@ > 1)', 'happy',
    (7, 'seven'), 5, '12.34', '(1,2)', '{1,-1,0}', '[(0,0),(1,1)]', '(2,2),(0,0)', '[(0,0),(1,1),(2,0)]',
    '((0,0),(1,1),(2,0))', '<(0,0),2>', 'a:1 fat:2A cat:3', 'fat & (rat | cat)', '16/B374D848', '(1,2)', '123', '10:20:10,14',
    'pg_class', '1 2 3', '4 5', '[1,10)', '(1.5,2.5]', '[2024-01-01 00:00+00,2024-01-02 00:00+00)', '[2024-01-01,)', '["a","m")',
    '{[1,3),[7,9)}', '{1,NULL,3}', '{a,"b c",NULL,""}', '{1.5,NaN}', '{{1,2},{3,4}}', '{ab,cd}', '{sad,happy}',
    '{"(1,one)","(2,)"}', '{"[1,2)",empty}');
-- The ends of ranges, empty values, and what has a representation of its own.
INSERT INTO types VALUES
    (2, false, -9223372036854775808, -32768, '', -2147483648, '', '-Infinity', '', 'Infinity', 'NaN', 0, -999999999.999, '', '',
    '', '00000000-0000-0000-0000-000000000000', '-infinity', '00:00', '00:00+15:59', '-infinity', 'infinity', '-178000000 years',
    '::/0', '0.0.0.0/0', '00:00:00:00:00:00', '00:00:00:00:00:00:00:00', B'00000', B'', 'null', '{}', '$', 'sad', ROW(NULL, NULL),
    1, '-92233720368547758.08', '(Infinity,NaN)', '{0,1,0}', '[(0,0),(0,0)]', '(0,0),(0,0)', '((0,0))', '((0,0))', '<(0,0),0>', '',
    '', '0/0', '(0,0)', '0', '1:1:', '-', '', '', 'empty', '(,)', '(,)', 'empty', '(,)', '{}', '{}', '{}', '{}', '{}', '{}', '{}',
    '{}', '{}'),
    (3, true, 9223372036854775807, 32767, E'tab\tnewline\nquote''back\\slash \u20ac \U0001F600', 2147483647, '\377', 'NaN',
    'twelve chars', '-0', '-Infinity', 4294967295, 999999999.999, repeat('v', 40), repeat('n', 63), decode(repeat('00', 300), 'hex'),
    'ffffffff-ffff-ffff-ffff-ffffffffffff', '5874897-12-31', '24:00:00', '24:00:00-15:59', '294276-12-31 23:59:59.999999',
    '4713-01-01 BC', '-1 mons +2 days -03:04:05.000006', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '2001:db8::/32',
    'ff:ff:ff:ff:ff:ff', 'ff:ff:ff:ff:ff:ff:ff:ff', B'11111', (repeat('1', 77))::varbit, '["\u20ac", "\\u0000"]',
    '{"deep": {"er": [1, [2, [3]]]}, "n": 1e100}', 'strict $."key" + 1', 'ok', (-1, 'quote " and , comma'), 2147483647,
    '92233720368547758.07', '(1e300,-1e-300)', '{1e10,-2,3}', '[(1,2),(3,4)]', '(1e10,1),(-1e10,-1)',
    '((1,2),(3,4),(5,6))', '((1,2),(3,4),(5,6))', '<(1.5,-2.5),1e5>', repeat('word ', 5)::tsvector, '!a <-> b:*', 'FFFFFFFF/FFFFFFFF',
    '(4294967295,65535)', '18446744073709551615', '1:9223372036854775807:', 'pg_type', '4294967295', '-1 0 32767',
    '(-2147483648,2147483647)', '[NaN,NaN]', '(-infinity,infinity)', '[-infinity,infinity]', '["",zz]', '{(,)}',
    array_fill(7, ARRAY[20]), ARRAY[repeat('t', 100), E'"\\'], ARRAY[1e100, 1e-100, -0.0], '[5:6][-1:0]={{1,2},{3,4}}',
    ARRAY['', 'abcd'], array_fill('ok'::mood, ARRAY[3]), ARRAY[ROW(1, repeat('c', 50))::pair, NULL], ARRAY['(,)'::int4range]);

-- NULL everywhere; NULL everywhere but in one column; in one column only.
INSERT INTO types VALUES (4);
DO $$
DECLARE
    col name;
    n int := 10;
BEGIN
    FOR col IN SELECT attname FROM pg_attribute WHERE attrelid = 'types'::regclass AND attnum > 1 ORDER BY attnum LOOP
        EXECUTE format('INSERT INTO types (id, %1$I) SELECT %2$s, %1$I FROM types WHERE id = 1', col, n);
        CREATE TEMP TABLE one AS SELECT * FROM types WHERE id = 1;
        EXECUTE format('UPDATE one SET id = %s, %I = NULL', n + 1, col);
        INSERT INTO types SELECT * FROM one;
        DROP TABLE one;
        n := n + 2;
    END LOOP;
END $$;
SELECT * FROM types WHERE id < 10 ORDER BY id \gx
SELECT * FROM types WHERE id >= 10 ORDER BY id;

-- Each column by itself: changed, made NULL, and given back.
DO $$
DECLARE
    col name;
BEGIN
    FOR col IN SELECT attname FROM pg_attribute WHERE attrelid = 'types'::regclass AND attnum > 1 ORDER BY attnum LOOP
        EXECUTE format('UPDATE types SET %1$I = (SELECT %1$I FROM types WHERE id = 3) WHERE id = 1', col);
        EXECUTE format('UPDATE types SET %1$I = NULL WHERE id = 2', col);
        EXECUTE format('UPDATE types SET %1$I = (SELECT %1$I FROM types WHERE id = 3) WHERE id = 4', col);
    END LOOP;
END $$;
SELECT * FROM types WHERE id < 10 ORDER BY id;
DELETE FROM types WHERE id % 3 = 0;

-- xml by itself: PostgreSQL may be built without it.
CREATE TABLE xmls (id int PRIMARY KEY, x xml, xs xml[]);
INSERT INTO xmls VALUES (1, '<a b="c">d</a>', ARRAY['<e/>'::xml, NULL]), (2, 'just content', '{}'), (3, NULL, NULL);
UPDATE xmls SET x = NULL WHERE id = 1;
SELECT * FROM xmls ORDER BY id;
