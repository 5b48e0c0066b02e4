-- Values out of line.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/twin toast
\! "$PG_ABS_SRCDIR"/lib/twin lengths

-- The gate counts the stored row: values leave it 34 bytes earlier than heap's.
CREATE FUNCTION pg_temp.longest_in_line(side text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    chunks bigint;
BEGIN
    EXECUTE format('CREATE TABLE %1$s.gate (x text STORAGE EXTERNAL) USING %2$s', side, CASE side WHEN 'heap' THEN 'heap' ELSE 'encrypted_heap' END);
    FOR n IN 1900..2100 LOOP
        EXECUTE format('INSERT INTO %s.gate VALUES (repeat(''x'', %s))', side, n);
        EXECUTE 'SELECT count(*) FROM ' || (SELECT reltoastrelid::regclass FROM pg_class WHERE oid = (side || '.gate')::regclass) INTO chunks;
        IF chunks > 0 THEN RETURN n - 1; END IF;
    END LOOP;
END $$;
SELECT pg_temp.longest_in_line('heap') - pg_temp.longest_in_line('encrypted') AS difference;
DROP SCHEMA encrypted, heap CASCADE;
