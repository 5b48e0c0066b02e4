# The server is killed with -9 at twenty moments of rotations, re-encryptions, retirements and re-wrappings of keys, with writers
# beside them. No row is lost, and none is left that cannot be read.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes;
use Vault;

my $node = new_node('key_crashes', 'autovacuum = on', 'autovacuum_naptime = 1', 'shared_buffers = 1MB', 'checkpoint_timeout = 30s', 'bgwriter_delay = 10ms');
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_vault_tde;
	CREATE TABLE t (id int PRIMARY KEY, n int, big text) USING encrypted_heap;
	ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
	CREATE TABLE twin (id int PRIMARY KEY, n int, big text) USING heap;
	INSERT INTO t SELECT i, i, CASE WHEN i % 10 = 0 THEN repeat(md5(i::text), 150) END FROM generate_series(1, 1000) i;
	INSERT INTO twin SELECT * FROM t;
	CREATE TABLE done (what text, times int) USING heap;
	INSERT INTO done VALUES ('rotated', 0), ('re-encrypted', 0), ('retired', 0), ('re-wrapped', 0)});

# Each says, in a transaction of its own, that it has got so far.
my $keys = $node->basedir . '/keys.sql';
append_to_file($keys, q{
SELECT vault_tde.rotate_key();
UPDATE done SET times = times + 1 WHERE what = 'rotated';
CALL vault_tde.reencrypt('t', 3);
UPDATE done SET times = times + 1 WHERE what = 're-encrypted';
SELECT count(vault_tde.retire_key(generation)) FROM (SELECT generation FROM vault_tde.keys WHERE NOT is_current OFFSET 0) k;
UPDATE done SET times = times + 1 WHERE what = 'retired';
SELECT vault_tde.rewrap_keys();
UPDATE done SET times = times + 1 WHERE what = 're-wrapped';
});
my $writes = $node->basedir . '/writes.sql';
append_to_file($writes, q{
\set id random(1, 1000)
\set v random(1, 1000000)
BEGIN;
UPDATE t SET n = :v WHERE id = :id;
UPDATE twin SET n = :v WHERE id = :id;
UPDATE t SET big = repeat(md5(:v::text), 150) WHERE id = :v % 100 * 10;
UPDATE twin SET big = repeat(md5(:v::text), 150) WHERE id = :v % 100 * 10;
COMMIT;
});

my $kills = 20;
my ($different, $damaged, $lost) = (0, 0, 0);
for my $kill (1 .. $kills)
{
	my @runs;
	for ([ $keys, 1 ], [ $writes, 2 ])
	{
		my ($script, $clients) = @$_;
		my $out = '';
		push @runs, IPC::Run::start([ 'pgbench', '-n', '-f', $script, '-c', $clients, '-T', 60, '-d', $node->connstr('postgres') ], '>', \$out, '2>&1');
	}
	Time::HiRes::sleep(0.1 + rand 0.3);
	kill_server($node);
	$_->finish for @runs;
	$node->start;
	my $found = $node->safe_psql('postgres', q{
		SELECT (SELECT count(*) FROM (TABLE t EXCEPT TABLE twin) x) + (SELECT count(*) FROM (TABLE twin EXCEPT TABLE t) x),
			(SELECT count(*) FROM vault_tde.verify('t')), (SELECT count(*) FROM t)});
	my ($rows_differ, $rows_damaged, $rows) = split /\|/, $found;
	$different += $rows_differ;
	$damaged += $rows_damaged;
	$lost++ if $rows != 1000;
	diag "after kill $kill: $found" if $rows_differ || $rows_damaged || $rows != 1000;
}
is($different, 0, "after each of $kills kills the rows were those of the heap twin");
is($damaged, 0, 'verify() found nothing');
is($lost, 0, 'no row was lost');
for (split /\n/, $node->safe_psql('postgres', 'SELECT what, times > 5 FROM done'))
{
	my ($what, $often) = split /\|/;
	is($often, 't', "keys were $what many times between the kills");
}
# what a crash has interrupted is taken up again
$node->safe_psql('postgres', q{CALL vault_tde.reencrypt('t')});
$node->safe_psql('postgres', 'SELECT count(vault_tde.retire_key(generation)) FROM (SELECT generation FROM vault_tde.keys WHERE NOT is_current OFFSET 0) k');
is($node->safe_psql('postgres', 'SELECT count(*) FROM vault_tde.keys'), 1, 'at last one key is left');
is($node->safe_psql('postgres', q{SELECT count(*) FROM vault_tde.verify('t')}), 0, '... by which all rows are read');

$node->stop;
done_testing();
