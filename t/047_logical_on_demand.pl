# wal_level = replica on PostgreSQL 19: WAL is made fit for decoding when the first logical slot is made, in sessions that are there
# already, too; and no longer when the last one is dropped. What is decoded is what the heap twin's slot says.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

my $node = new_node('on_demand', 'wal_level = replica');
plan skip_all => 'logical slots need wal_level = logical before PostgreSQL 19' if $node->pg_version->major < 19;
$node->start;
for my $db (qw(encrypted heap))
{
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, 'CREATE EXTENSION pg_vault_tde');
	$node->safe_psql('postgres', "ALTER DATABASE $db SET default_table_access_method = " . ($db eq 'heap' ? 'heap' : 'encrypted_heap'));
}
both($node, q{
	CREATE FUNCTION noise(n int, seed int) RETURNS text LANGUAGE sql AS $$ SELECT left(string_agg(md5(i::text || seed), ''), n) FROM generate_series(0, n / 32) i $$;
	CREATE TABLE t (id int PRIMARY KEY, big text STORAGE EXTERNAL, n int);
	CREATE TABLE whole (id int, big text STORAGE EXTERNAL); ALTER TABLE whole REPLICA IDENTITY FULL;
	INSERT INTO t SELECT i, noise(20000, i), 0 FROM generate_series(1, 5) i;
	INSERT INTO whole SELECT i, noise(20000, i) FROM generate_series(1, 3) i;
});
is($node->safe_psql('postgres', 'SHOW effective_wal_level'), 'replica', 'WAL is not fit for decoding');
is($node->safe_psql('encrypted', q{SELECT ok FROM vault_tde.status() WHERE item = 'wal_level'}), 't', '... but status() finds nothing wrong');

# sessions that have written before, and transactions that have not yet written
my %sessions = map { $_ => $node->background_psql($_) } qw(encrypted heap);
$sessions{$_}->query_safe(q{UPDATE t SET n = n - 1 WHERE id = 1; BEGIN; SELECT count(*) FROM t}) for sort keys %sessions;
$node->safe_psql('encrypted', q{SELECT pg_create_logical_replication_slot('encrypted', 'pg_vault_tde')});
$node->safe_psql('heap', q{SELECT pg_create_logical_replication_slot('heap', 'test_decoding')});
is($node->safe_psql('postgres', 'SHOW effective_wal_level'), 'logical', 'with a slot it is');
my $changes = q{
	INSERT INTO t SELECT i, noise(30000, i), i FROM generate_series(11, 14) i;
	UPDATE t SET big = reverse(big) WHERE id IN (1, 12);
	UPDATE t SET n = n + 1 WHERE id IN (2, 13);
	UPDATE t SET id = 100 WHERE id = 3;
	DELETE FROM t WHERE id = 4;
	UPDATE whole SET id = id + 10;
	DELETE FROM whole WHERE id = 12;
};
$sessions{$_}->query_safe("$changes; COMMIT") for sort keys %sessions;
both($node, 'INSERT INTO t VALUES (200, noise(9000, 9), 1)');
my $heap = stream($node, 'heap');
cmp_ok(length $heap, '>', 200_000, 'the heap twin is decoded with its values');
is_same(stream($node, 'encrypted'), $heap, 'as on the heap twin');
is_same_content($node, 'afterwards');

$node->safe_psql($_, "SELECT pg_drop_replication_slot('$_')") for qw(encrypted heap);
wait_until('WAL to be as before', sub { $node->safe_psql('postgres', 'SHOW effective_wal_level') eq 'replica' });
$sessions{$_}->query_safe(q{INSERT INTO t VALUES (300, noise(9000, 3), 1); UPDATE t SET big = big || 'x' WHERE id = 300}) for sort keys %sessions;
$sessions{$_}->quit for sort keys %sessions;
is_same_content($node, 'without slots');
$node->restart;
is_same_content($node, 'after a restart');
$node->stop;
done_testing();
