# pg_createsubscriber makes a logical replica of a physical standby: of a publisher with encrypted tables, in two databases.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Decoding;
use Vault;

my $publisher = decoding_node('publisher', "dynamic_library_path = '" . link_path() . "'", 'max_replication_slots = 20', 'max_worker_processes = 20',
	'max_logical_replication_workers = 8', 'wal_retrieve_retry_interval = 100ms');
my @databases = qw(one two);
for my $db (@databases)
{
	$publisher->safe_psql('postgres', "CREATE DATABASE $db");
	$publisher->safe_psql($db, q{CREATE EXTENSION pg_vault_tde;
		CREATE TABLE t (id int PRIMARY KEY, x text STORAGE EXTERNAL, n numeric) USING encrypted_heap; CREATE TABLE whole (id int, x text STORAGE EXTERNAL) USING encrypted_heap;
		ALTER TABLE whole REPLICA IDENTITY FULL; CREATE TABLE plain (id int PRIMARY KEY, x text)});
}

sub change
{
	my ($from) = @_;
	my $to = $from + 49;
	$publisher->safe_psql($_, qq{
		INSERT INTO t SELECT g, repeat(md5(g::text), 1 + g % 2 * 200), g * 1.5 FROM generate_series($from, $to) g;
		INSERT INTO whole SELECT g, repeat(md5(g::text), 150) FROM generate_series($from, $to) g; INSERT INTO plain SELECT g, 'plain' FROM generate_series($from, $to) g;
		BEGIN; UPDATE t SET n = -n WHERE id % 3 = 0; SAVEPOINT s; UPDATE t SET x = 'undone'; ROLLBACK TO s; UPDATE t SET x = x || 'x' WHERE id % 7 = 0; COMMIT;
		UPDATE whole SET id = -id WHERE id % 5 = 0 AND id > 0; DELETE FROM whole WHERE id = $from + 1; DELETE FROM t WHERE id = $to}) for @databases;
}

sub content
{
	my ($node, $db) = @_;
	return $node->safe_psql($db, q{SELECT (SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM t) || ' ' || (SELECT count(*) || md5(string_agg(w::text, ',' ORDER BY id, x)) FROM whole w) || (SELECT count(*) FROM plain)});
}

change(1);
$publisher->backup('backup');
my $replica = PostgreSQL::Test::Cluster->new('replica');
$replica->init_from_backup($publisher, 'backup', has_streaming => 1);
$replica->set_standby_mode;
$replica->start;
change(100);
$publisher->wait_for_replay_catchup($replica);
$replica->stop;
change(200);    # which only the walreceiver of pg_createsubscriber's server will see
my ($out, $err) = run_command([ 'pg_createsubscriber', '-v', '-D', $replica->data_dir, '-P', $publisher->connstr, '-s', $replica->host, '-p', $replica->port, '-t', $PostgreSQL::Test::Utils::timeout_default, map { ('-d', $_) } @databases ]);
like("$out$err", qr/Done!/, 'pg_createsubscriber') or diag("$out$err");
change(300);
$replica->start;

for my $db (@databases)
{
	my $subscription = $replica->safe_psql($db, 'SELECT subname FROM pg_subscription WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())');
	$publisher->wait_for_catchup($subscription);
	is(content($replica, $db), content($publisher, $db), "$db: the same content, with what came since");
	is($replica->safe_psql($db, q{SELECT vault_tde.is_encrypted('t') AND vault_tde.is_encrypted('whole')}), 't', "$db: encrypted");
	# From now on each has keys of its own.
	is($replica->safe_psql($db, 'SELECT vault_tde.rotate_key()'), 2, "$db: a key of the replica's own");
	change(400 + ($db eq 'two') * 100);
	$publisher->safe_psql($db, 'SELECT vault_tde.rotate_key(); UPDATE t SET n = 0 WHERE id < 50');
	$publisher->wait_for_catchup($subscription);
	is(content($replica, $db), content($publisher, $db), "$db: the same content, under different keys");
	is($replica->safe_psql($db, 'SELECT string_agg(key_id::text, $$,$$ ORDER BY generation) FROM vault_tde.keys') eq $publisher->safe_psql($db, 'SELECT string_agg(key_id::text, $$,$$ ORDER BY generation) FROM vault_tde.keys'), '', "$db: ... which are not the publisher's");
}
$replica->restart;
is(content($replica, 'one'), content($publisher, 'one'), 'the same after a restart');
$replica->stop;
$publisher->stop;
done_testing();
