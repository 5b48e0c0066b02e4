# Encrypted indexes through crashes, on a standby, in base backups, dumps and subscribers. Recovery needs no library: all WAL is
# nbtree's own.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

my $node = new_node('index_recovery', 'pg_vault_tde.encrypt_indexes = on', 'checkpoint_timeout = 1h', 'max_wal_size = 1GB', 'restart_after_crash = on');
$node->start;
my $unique_too = $node->safe_psql('postgres', 'SHOW server_version_num') >= 180000;
$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_vault_tde;
	SET pg_vault_tde.plaintext_indexes = allow;
	CREATE TABLE t (id int PRIMARY KEY, k int, v text) USING encrypted_heap;
	CREATE INDEX t_k ON t (k, v);
	CREATE INDEX t_v ON t USING encrypted_btree (v) INCLUDE (k);
	CREATE UNIQUE INDEX t_id ON t USING encrypted_btree (id DESC);
	CREATE UNLOGGED TABLE u (id int, v text) USING encrypted_heap;
	CREATE UNIQUE INDEX u_id ON u USING encrypted_btree (id);
	INSERT INTO t SELECT i, i % 50, 'v' || i FROM generate_series(1, 3000) i;
	INSERT INTO u SELECT i, 'u' FROM generate_series(1, 500) i});

# What indexes and table say of each other.
sub is_sound
{
	my ($server, $name) = @_;
	is($server->safe_psql('postgres', q{SELECT count(*) FROM vault_tde.verify('t')}), 0, "$name: rows and indexes fit");
	my $query = 'SELECT count(*), sum(id), sum(k) FROM t WHERE %s';
	for my $condition (q{k BETWEEN 10 AND 20}, q{v > 'v2'}, 'id < 1500')
	{
		my $by_index = $server->safe_psql('postgres', 'SET enable_seqscan = off; ' . sprintf($query, $condition));
		my $by_table = $server->safe_psql('postgres', 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; ' . sprintf($query, $condition));
		is($by_index, $by_table, "$name: $condition");
	}
}

# a loop of crashes amid writes, with page splits, deletions, vacuum and builds
my $port = $node->port;
for my $round (1 .. 3)
{
	my $base = $round * 100000;
	my $writer = IPC::Run::start(
		[ 'psql', '-X', '-q', '-d', $node->connstr('postgres'), '-c', qq{
			DO \$\$ BEGIN FOR i IN 1..100000 LOOP
				INSERT INTO t VALUES ($base + i, i % 50, 'round $round ' || i);
				UPDATE t SET k = k + 1 WHERE id = $base + i / 2;
				DELETE FROM t WHERE id = $base + i - 20 AND i % 3 = 0;
				IF i % 50 = 0 THEN COMMIT; END IF;
			END LOOP; END \$\$} ], '>', \my $out, '2>', \my $err);
	wait_until('the other session', sub { $node->safe_psql('postgres', "SELECT count(*) > 300 FROM t WHERE id > $base") eq 't' });
	$node->safe_psql('postgres', $round % 2 ? 'VACUUM t' : 'REINDEX INDEX CONCURRENTLY t_v') if $round > 1;
	kill_server($node);
	$writer->finish;
	$node->start;
	is_sound($node, "crash $round");
}
is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*) FROM u WHERE id > 0'), 0, 'an unlogged index is empty like its table');
$node->safe_psql('postgres', 'INSERT INTO u VALUES (1, $$new$$)');

# A standby, from a base backup; keys of two generations; promotion.
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('index_standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
$node->safe_psql('postgres', q{
	SELECT vault_tde.rotate_key();
	INSERT INTO t SELECT i, i % 50, 'v' || i FROM generate_series(5000, 7000) i;
	DELETE FROM t WHERE id % 7 = 0;
	VACUUM t;
	CREATE INDEX t_late ON t USING encrypted_btree ((k + id))});
$node->safe_psql('postgres', q{CALL vault_tde.reencrypt('t')});
$node->wait_for_catchup($standby);
is_sound($standby, 'on the standby');
$standby->promote;
$standby->safe_psql('postgres', q{INSERT INTO t SELECT i, i % 50, 'promoted' FROM generate_series(8000, 9000) i});
is_sound($standby, 'after promotion');
my ($code, $out, $err) = $standby->psql('postgres', q{INSERT INTO t VALUES (8001, 1, 'twice')});
like($err, qr/duplicate key value violates unique constraint.*\n.*Key \(id\)=\(8001\) already exists/, 'unique there, too');
$standby->stop;

# A dump says what indexes are; constraints are restored as they were, whatever the parameter says.
my $methods = q{SELECT string_agg(c.relname || ' ' || a.amname, ', ' ORDER BY c.relname) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
	WHERE c.relkind = 'i' AND c.relname ~ '^t_'};
my $dump = $node->basedir . '/dump';
$node->command_ok([ 'pg_dump', '-f', $dump, '-d', $node->connstr('postgres') ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
{
	local $ENV{PGOPTIONS} = '-c pg_vault_tde.encrypt_indexes=off -c client_min_messages=warning';
	$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $dump ], 'and restore');
}
is($node->safe_psql('restored', $methods), $node->safe_psql('postgres', $methods), 'the same access methods');
like($node->safe_psql('postgres', $methods), $unique_too ? qr/t_pkey encrypted_btree/ : qr/t_pkey btree/, 'as they should be');
is($node->safe_psql('restored', q{SELECT count(*) FROM vault_tde.verify('t')}), 0, 'what was restored is sound');

# A database made by copying has the same indexes.
$node->safe_psql('template1', 'CREATE DATABASE copied TEMPLATE restored');
is($node->safe_psql('copied', q{SELECT count(*) FROM vault_tde.verify('t')}), 0, 'a copied database');

# A subscriber finds rows by encrypted keys: of a primary key where that can be encrypted.
my $subscriber = new_node('index_subscriber', 'pg_vault_tde.encrypt_indexes = on');
$subscriber->start;
$subscriber->safe_psql('postgres', q{
	CREATE EXTENSION pg_vault_tde;
	SET pg_vault_tde.plaintext_indexes = allow;
	CREATE TABLE r (id int PRIMARY KEY, v text) USING encrypted_heap;
	CREATE TABLE f (id int, v text) USING encrypted_heap;
	CREATE INDEX f_id ON f (id)});
$node->safe_psql('postgres', q{
	CREATE TABLE r (id int PRIMARY KEY, v text);
	CREATE TABLE f (id int, v text);
	ALTER TABLE f REPLICA IDENTITY FULL;
	CREATE PUBLICATION p FOR TABLE r, f});
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION '" . $node->connstr . " dbname=postgres' PUBLICATION p");
$node->safe_psql('postgres', q{
	INSERT INTO r SELECT i, 'r' FROM generate_series(1, 200) i; UPDATE r SET v = 'changed', id = id + 1000 WHERE id % 2 = 0; DELETE FROM r WHERE id % 5 = 0;
	INSERT INTO f SELECT i, 'f' FROM generate_series(1, 200) i; UPDATE f SET v = 'changed' WHERE id % 2 = 0; DELETE FROM f WHERE id % 5 = 0});
$subscriber->wait_for_subscription_sync($node, 's');
$node->wait_for_catchup('s');
for my $table (qw(r f))
{
	my $rows = "SELECT count(*), sum(hashtext(x::text)) FROM $table x";
	is($subscriber->safe_psql('postgres', $rows), $node->safe_psql('postgres', $rows), "table $table on the subscriber");
}
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION s');
$subscriber->stop;
$node->stop;
done_testing();
