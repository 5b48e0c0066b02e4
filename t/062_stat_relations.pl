# vault_tde.stat_relations: exact counts of what known statements encrypt and decrypt, in every kind of process, committed or not;
# failures; what a full table of counters does; what becomes of counters with their relation, at a restart, for whom they are.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

my $node = new_node('stat_relations', [ without_checksums() ], 'pg_vault_tde.stat_relations_max = 150', 'pg_vault_tde.plaintext_cache = 0', 'max_parallel_workers = 4', 'debug_parallel_query = off');
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_vault_tde;
	CREATE TABLE t (id int, x bytea STORAGE EXTERNAL) USING encrypted_heap;
	CREATE VIEW counted AS SELECT CASE kind WHEN 'toast' THEN 'TOAST of ' || tablerelid::regclass ELSE relname END AS name,
		n_tup_encrypted || ' ' || n_tup_decrypted || ' ' || auth_failures AS counts FROM vault_tde.stat_relations});

# What relation NAME has counted: "encrypted decrypted failures".
sub counted
{
	my ($name, $db) = @_;
	return $node->safe_psql($db // 'postgres', "SELECT counts FROM counted WHERE name = '$name'");
}

# Says what statements count for a relation.
sub counts
{
	my ($what, $sql, $expected, $name, %options) = @_;
	$node->safe_psql('postgres', 'SELECT vault_tde.stat_reset()');
	$options{fails} ? $node->psql('postgres', $sql) : $node->safe_psql('postgres', $sql);
	is(counted($name // 't'), $expected, $what);
}

# --- by statement ---------------------------------------------------------------------------------------------------------

counts('nothing yet', 'SELECT', '0 0 0');
counts('INSERT', "INSERT INTO t SELECT i, 'x' FROM generate_series(1, 1000) i", '1000 0 0');
counts('COPY FROM', "COPY t FROM PROGRAM 'seq -f %g,x 1001 1100' WITH (FORMAT csv)", '100 0 0');
counts('a scan that reads no column', 'SELECT 1 FROM t', '0 0 0');
counts('a scan that reads one', 'SELECT sum(id) FROM t', '0 1100 0');
counts('... in two transactions', 'SELECT sum(id) FROM t; SELECT sum(id) FROM t', '0 2200 0');
$node->safe_psql('postgres', q{SELECT vault_tde.stat_reset(); SET pg_vault_tde.plaintext_cache = '64MB'; SELECT x FROM t WHERE id < 10; SELECT x FROM t WHERE id < 10});
like(counted('t'), qr/^0 11\d\d 0$/, '... in a session that keeps the plaintext of all, or nearly all');
counts('UPDATE of rows that are found by scanning', 'UPDATE t SET id = id WHERE id <= 10', '10 1100 0');
counts('UPDATE that fails in the end', 'BEGIN; UPDATE t SET id = id WHERE id <= 10; SELECT 1 / 0', '10 1100 0', 't', fails => 1);
counts('UPDATE that is rolled back', 'BEGIN; UPDATE t SET id = id WHERE id <= 10; ROLLBACK', '10 1100 0');
counts('... to a savepoint', 'BEGIN; SAVEPOINT s; UPDATE t SET id = id WHERE id <= 10; ROLLBACK TO s; COMMIT', '10 1100 0');
counts('a transaction that is prepared', "BEGIN; INSERT INTO t VALUES (0, 'x'); PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p'", '1 0 0');
counts('VACUUM', 'VACUUM t', '0 0 0');
counts('DELETE of a row by its place', q{DELETE FROM t WHERE ctid = '(0,30)'}, '0 0 0');
counts('CREATE INDEX', 'CREATE INDEX i ON t USING encrypted_btree (id)', '0 1099 0');
like(counted('i'), qr/^1099 \d+ 0$/, '... of the index: its keys');
# A session keeps what it has updated, and its next look at the row finds it; of many rows only the first ones.
my $keeps = q{SET pg_vault_tde.plaintext_cache = '4MB'; SET enable_seqscan = off; SET enable_bitmapscan = off;};
counts('a row that the session has just updated', "$keeps UPDATE t SET x = 'y' WHERE id = 500; SELECT x FROM t WHERE id = 500; SELECT x FROM t WHERE id = 500", '1 1 0');
counts('... 20 of them', "$keeps UPDATE t SET x = 'y' WHERE id BETWEEN 501 AND 520; SELECT x FROM t WHERE id BETWEEN 501 AND 520", '20 32 0');
counts('... in a transaction that is rolled back', "$keeps BEGIN; UPDATE t SET x = 'z' WHERE id = 500; ROLLBACK; SELECT x FROM t WHERE id = 500", '1 2 0');
is($node->safe_psql('postgres', "$keeps BEGIN; UPDATE t SET x = 'z' WHERE id = 500; SELECT x FROM t WHERE id = 500; ROLLBACK; SELECT x FROM t WHERE id = 500"), "\\x7a\n\\x79",
	'... the values are those of the version that is visible');
# A small table is read from end to end for each row; what was read or written before is found, however often it is updated: a
# session decrypts a row when another one has changed it, and not much more. (When dead versions kept their places, it was 20 for each update in the long run.)
$node->safe_psql('postgres', q{CREATE TABLE small (id int, n int) USING encrypted_heap; INSERT INTO small SELECT i, 0 FROM generate_series(1, 100) i; SELECT vault_tde.stat_reset()});
append_to_file($node->basedir . '/update.sql', "\\set id random(1, 100)\nUPDATE small SET n = n + 1 WHERE id = :id;\n");
{
	local $ENV{PGOPTIONS} = '-c pg_vault_tde.plaintext_cache=4MB';
	$node->command_ok([ 'pgbench', '-n', '-c', '2', '-t', '4000', '-f', $node->basedir . '/update.sql', $node->connstr('postgres') ], 'updates of a small table');
}
is($node->safe_psql('postgres', q{SELECT sum(n), pg_relation_size('small') <= 32 * 8192 FROM small}), '8000|t', '... each is done');
my ($encrypted, $decrypted) = split / /, counted('small');
cmp_ok($encrypted, '>=', 8000, '... and encrypts a row');
note "rows encrypted and decrypted: $encrypted, $decrypted";
cmp_ok($decrypted, '<', 3 * 8000, '... of 100 rows that it looks at it decrypts few');
$node->safe_psql('postgres', q{CREATE TABLE swollen (id int) USING encrypted_heap; INSERT INTO swollen SELECT generate_series(1, 10000); DELETE FROM swollen WHERE id > 100; ANALYZE swollen});
is($node->safe_psql('postgres', q{SELECT pg_relation_size('swollen') > 32 * 8192}), 't', 'a table of many pages and few rows');
counts('... is small, too', q{SET pg_vault_tde.plaintext_cache = '64MB'; SELECT sum(id) FROM swollen; SELECT sum(id) FROM swollen}, '0 100 0', 'swollen');
counts('a rewrite, and the index built anew', 'VACUUM FULL t', '1099 2198 0');
my $parallel = q{SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET parallel_leader_participation = off;
	SET max_parallel_workers_per_gather = 2;};
like($node->safe_psql('postgres', "$parallel EXPLAIN (ANALYZE, COSTS OFF) SELECT sum(id) FROM t"), qr/Workers Launched: [12].*Parallel Seq Scan/s, 'a parallel scan');
counts('... is counted by its workers', "$parallel SELECT sum(id) FROM t", '0 1099 0');
counts('a value out of line: chunks are those of the TOAST table', "INSERT INTO t VALUES (0, repeat('x', 10000)::bytea); SELECT length(x || 'y') FROM t WHERE id = 0",
	'6 6 0', 'TOAST of t');
counts('... a slice of it', "SELECT substr(x, 5000, 10) FROM t WHERE id = 0", '0 1 0', 'TOAST of t');
$node->safe_psql('postgres', "SELECT pg_create_logical_replication_slot('s', 'pg_vault_tde')");
counts('while there is a slot', "INSERT INTO t SELECT i, repeat('x', 4000)::bytea FROM generate_series(1, 3) i", '9 0 0', 'TOAST of t');
my $decode = "SELECT count(*) FROM pg_logical_slot_get_changes('s', NULL, NULL)";
counts('decoding', $decode, '0 3 0');
$node->safe_psql('postgres', 'INSERT INTO t SELECT generate_series(1, 5)');
$node->safe_psql('postgres', 'SELECT vault_tde.stat_reset()');
$node->command_ok([ 'pg_recvlogical', '-d', $node->connstr('postgres'), '-S', 's', '--start', '-f', '-', '--no-loop', '-E', $node->lsn('insert') ], 'a walsender');
wait_until('the walsender to be gone', sub { $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender'") eq '0' });
is(counted('t'), '0 5 0', '... counts what it decodes');
counts('re-encryption', 'SELECT vault_tde.rotate_key(); CALL vault_tde.reencrypt(\'t\')', '1108 1108 0');
$node->safe_psql('postgres', q{ALTER TABLE t SET (autovacuum_analyze_threshold = 1, autovacuum_analyze_scale_factor = 0); INSERT INTO t SELECT generate_series(1, 10)});
$node->safe_psql('postgres', q{SELECT vault_tde.stat_reset(); ALTER SYSTEM SET autovacuum = on; ALTER SYSTEM SET autovacuum_naptime = 1; SELECT pg_reload_conf()});
wait_until('autovacuum', sub { counted('t') eq '0 1118 0' });
pass('autovacuum analyzes the table: it decrypts all rows');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET autovacuum; SELECT pg_reload_conf()');

# --- failures -------------------------------------------------------------------------------------------------------------

$node->safe_psql('postgres', q{CREATE TABLE damaged (id int, x text) USING encrypted_heap; INSERT INTO damaged SELECT generate_series(1, 10); CHECKPOINT});
my @rows = stored_rows($node, 'damaged');
my $stopped = $node->safe_psql('postgres', 'SELECT now()');
$node->stop;
open my $file, '+<:raw', $rows[2]{path} or die $!;
seek $file, $rows[2]{position} + $rows[2]{hoff} + 20, 0;
read $file, my $byte, 1;
seek $file, $rows[2]{position} + $rows[2]{hoff} + 20, 0;
print $file chr(ord($byte) ^ 1);
close $file;
$node->start;
is(counted('t'), '0 0 0', 'a restart begins anew');
is($node->safe_psql('postgres', "SELECT stats_reset > '$stopped' FROM vault_tde.stat_relations_info"), 't', '... and says so');
counts('a row that does not authenticate', 'SELECT sum(id) FROM damaged', '0 2 1', 'damaged', fails => 1);
counts('... each time it is read, whatever comes of it', "BEGIN; DO 'BEGIN PERFORM sum(id) FROM damaged; EXCEPTION WHEN data_corrupted THEN END'; ROLLBACK; SELECT sum(id) FROM damaged",
	'0 4 2', 'damaged', fails => 1);
counts('verify() counts it, too', "SELECT * FROM vault_tde.verify('damaged')", '0 9 1', 'damaged');
is($node->safe_psql('postgres', q{SELECT auth_last_failure BETWEEN stats_reset AND now() FROM vault_tde.stat_relations WHERE relname = 'damaged'}), 't', 'when it was is told');
is($node->safe_psql('postgres', q{SELECT auth_last_failure IS NULL FROM vault_tde.stat_relations WHERE relname = 't'}), 't', '... if it was');
$node->psql('postgres', 'SELECT sum(id) FROM damaged');
$node->safe_psql('postgres', q{SELECT vault_tde.stat_reset('t')});
is(counted('damaged'), '0 11 2', 'the reset of one relation is for no other');
$node->safe_psql('postgres', q{SELECT vault_tde.stat_reset('damaged')});
is(counted('damaged'), '0 0 0', 'the reset of one relation');

# --- an extension that is not updated yet --------------------------------------------------------------------------------

$node->safe_psql('postgres', 'CREATE DATABASE older');
$node->safe_psql('older', q{CREATE EXTENSION pg_vault_tde VERSION '1.0'; CREATE TABLE t (id int) USING encrypted_heap; INSERT INTO t VALUES (1); SELECT * FROM vault_tde.status()});
is($node->safe_psql('older', 'SELECT id FROM t'), 1, 'version 1.0 of the extension works as it did');
$node->safe_psql('older', 'ALTER EXTENSION pg_vault_tde UPDATE');
is($node->safe_psql('older', q{SELECT n_tup_encrypted, n_tup_decrypted FROM vault_tde.stat_relations WHERE relname = 't'}), '1|1', '... and what it has done was counted');
$node->safe_psql('postgres', 'DROP DATABASE older');

# --- whose counters -------------------------------------------------------------------------------------------------------

$node->safe_psql('postgres', q{CREATE TABLE gone (id int) USING encrypted_heap; INSERT INTO gone VALUES (1)});
my $oid = $node->safe_psql('postgres', "SELECT 'gone'::regclass::oid");
my $entry = "SELECT count(*) FROM vault_tde.relation_counters() WHERE relid = $oid";
my $entries = 'SELECT entries FROM vault_tde.stat_relations_info';
my $before = $node->safe_psql('postgres', $entries);
$node->safe_psql('postgres', 'BEGIN; DROP TABLE gone; ROLLBACK; BEGIN; SAVEPOINT a; SAVEPOINT b; DROP TABLE gone; RELEASE b; ROLLBACK TO a; COMMIT');
is($node->safe_psql('postgres', $entry), 1, 'a DROP that is rolled back, also to a savepoint, leaves the counters');
is(counted('gone'), '1 0 0', '... as they were');
$node->safe_psql('postgres', 'BEGIN; SAVEPOINT a; INSERT INTO gone VALUES (2); DROP TABLE gone; RELEASE a; COMMIT');
is($node->safe_psql('postgres', $entry), 0, 'a DROP removes them');
is($node->safe_psql('postgres', $entries), $before - 1, '... their place is free');
$node->safe_psql('postgres', 'CREATE TEMP TABLE temporary (id int) USING encrypted_heap; INSERT INTO temporary VALUES (1)');
is($node->safe_psql('postgres', $entries), $before - 1, '... and with a temporary table at the session\'s end');

$node->safe_psql('postgres', 'CREATE DATABASE other TEMPLATE postgres');
is(counted('t', 'other'), '0 0 0', 'a copy of a database begins at zero');
$node->safe_psql('other', 'SELECT sum(id) FROM t');
is(counted('t', 'other'), '0 1118 0', '... has its own counters');
is(counted('t'), '0 0 0', '... which are not those of the original');
$before = $node->safe_psql('postgres', $entries);
$node->safe_psql('postgres', 'DROP DATABASE other');
is($node->safe_psql('postgres', $entries), $before - 1, 'they go with the database');

$node->safe_psql('postgres', 'CREATE ROLE nobody');
is($node->safe_psql('postgres', q{SET ROLE nobody; SELECT count(*) > 0 FROM vault_tde.stat_relations, vault_tde.stat_relations_info}), 't', 'everybody may look at counters');
my ($ret, $out, $err) = $node->psql('postgres', 'SET ROLE nobody; SELECT vault_tde.stat_reset()');
like($err, qr/permission denied for function stat_reset/, '... but not reset them');

# --- many relations -------------------------------------------------------------------------------------------------------

$node->safe_psql('postgres', q{
	SELECT vault_tde.stat_reset();
	DO 'BEGIN FOR i IN 1 .. 100 LOOP EXECUTE format($$CREATE TABLE m%s (id int) USING encrypted_heap$$, i); END LOOP; END';
	DO 'BEGIN FOR i IN 1 .. 100 LOOP EXECUTE format($$INSERT INTO m%s SELECT generate_series(1, %s)$$, i, i); END LOOP; END';
	DO 'BEGIN FOR i IN 1 .. 100 LOOP EXECUTE format($$SELECT sum(id) FROM m%s$$, i); END LOOP; END'});
is($node->safe_psql('postgres', q{SELECT count(*), count(*) FILTER (WHERE counts = format('%1$s %1$s 0', substr(name, 2))) FROM counted WHERE name ~ '^m\d+$'}), '100|100', 'a hundred relations in a transaction');
is($node->safe_psql('postgres', 'SELECT max_entries, dealloc FROM vault_tde.stat_relations_info'), '150|0', 'they have room');
$node->safe_psql('postgres', q{
	DO 'BEGIN FOR i IN 101 .. 300 LOOP EXECUTE format($$CREATE TABLE m%1$s (id int) USING encrypted_heap; INSERT INTO m%1$s SELECT generate_series(1, %1$s)$$, i); COMMIT;
		PERFORM sum(id) FROM m1; COMMIT; END LOOP; END'});
is($node->safe_psql('postgres', q{
	SELECT i.entries, i.dealloc >= 150, i.n_tup_encrypted + s.n FROM vault_tde.stat_relations_info i, (SELECT sum(n_tup_encrypted) AS n FROM vault_tde.stat_relations) s}),
	'150|t|45150', 'when all entries are in use, some make room, and their sum is kept');
is(counted('m1'), '1 201 0', '... but not one that is in use');
is(counted('m300'), '300 0 0', '... and not the newest');
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', 'SELECT entries, dealloc, n_tup_encrypted FROM vault_tde.stat_relations_info'), '0|0|0', 'after a crash all counters are zero');

# More relations than the cache of ciphers has places (1,024), in one transaction.
$node->append_conf('postgresql.conf', 'pg_vault_tde.stat_relations_max = 5000');
$node->restart;
$node->safe_psql('postgres', q{
	CREATE TABLE p (id int) PARTITION BY LIST (id) USING encrypted_heap;
	DO 'BEGIN FOR i IN 1 .. 1500 LOOP EXECUTE format($$CREATE TABLE p%1$s PARTITION OF p FOR VALUES IN (%1$s)$$, i); IF i % 100 = 0 THEN COMMIT; END IF; END LOOP; END';
	INSERT INTO p SELECT i FROM generate_series(1, 1500) i, generate_series(1, 2);
	SELECT sum(id) FROM p});
is($node->safe_psql('postgres', q{SELECT count(*), min(counts), max(counts) FROM counted WHERE name ~ '^p\d+$'}), '1500|2 2 0|2 2 0', 'more relations than there are ciphers in memory');

# --- the log --------------------------------------------------------------------------------------------------------------

$node->safe_psql('postgres', 'SELECT vault_tde.rewrap_keys()');
like(slurp_file($node->logfile), qr/LOG:  made data key 1, wrapped by key provider "file".*LOG:  made data key 2, .*LOG:  wrapped 2 data keys anew by key provider "file"/s,
	'what becomes of data keys is logged');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'no crash');
$node->stop;
done_testing();
