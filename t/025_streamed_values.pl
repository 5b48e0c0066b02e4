# Large values in streamed transactions: with every change streamed as soon as it is read, a stock subscriber comes to the same
# rows as one that gets whole transactions, and both to those of the publisher.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Decoding;
use Vault;

my %streaming = (whole => 'off', streamed => 'on', parallel => 'parallel');
my $publisher = decoding_node('publisher', "dynamic_library_path = '" . link_path() . "'",
	"debug_logical_replication_streaming = 'immediate'", 'max_wal_size = 4GB', 'checkpoint_timeout = 1h');
my $subscriber = new_node('subscriber', 'wal_retrieve_retry_interval = 100ms', 'max_logical_replication_workers = 12',
	'max_worker_processes = 20', 'max_wal_size = 4GB', 'checkpoint_timeout = 1h');
$subscriber->start;
my $table = 'CREATE TABLE v (id int PRIMARY KEY, big text STORAGE EXTERNAL, squeezed text)';
$publisher->safe_psql('postgres', "CREATE EXTENSION pg_vault_tde; $table USING encrypted_heap; CREATE PUBLICATION p FOR TABLE v");
for my $name (sort keys %streaming)
{
	$subscriber->safe_psql('postgres', "CREATE DATABASE $name");
	$subscriber->safe_psql($name, "$table; CREATE SUBSCRIPTION $name CONNECTION '" . $publisher->connstr
		  . " dbname=postgres' PUBLICATION p WITH (streaming = $streaming{$name})");
	$subscriber->wait_for_subscription_sync($publisher, $name, $name);
}

sub content { return 'SELECT count(*), sum(length(big)), sum(length(squeezed)), md5(string_agg(md5(id || big || squeezed), $$$$ ORDER BY id)) FROM v' }

sub same_everywhere
{
	my ($what, $sql) = @_;
	$publisher->safe_psql('postgres', $sql);
	my $expected = $publisher->safe_psql('postgres', content());
	for my $name (sort keys %streaming)
	{
		$publisher->wait_for_catchup($name);
		is($subscriber->safe_psql($name, content()), $expected, "$what: $name");
	}
}

my $big = q{repeat(md5(g::text), 313)};                                                # 10 kB
my $rows = sub { return "INSERT INTO v SELECT g, $big, repeat('s' || g, 9000) FROM generate_series($_[0], $_[1]) g;" };
same_everywhere('rollback to a savepoint in the middle',
	'BEGIN;' . $rows->(1, 50) . 'SAVEPOINT a;' . $rows->(51, 120) . 'UPDATE v SET big = big || id; ROLLBACK TO a;'
	  . $rows->(51, 90) . "UPDATE v SET big = 'new' || big WHERE id % 3 = 0; UPDATE v SET squeezed = 's' WHERE id % 4 = 0; COMMIT");
same_everywhere('exceptions',
	q{DO $do$ BEGIN FOR i IN 200 .. 240 LOOP BEGIN INSERT INTO v VALUES (i, repeat('x' || i, 5000), ''); IF i % 2 = 0 THEN RAISE division_by_zero; END IF;
	EXCEPTION WHEN division_by_zero THEN INSERT INTO v VALUES (i, repeat('y' || i, 5000), 'caught'); END; END LOOP; END $do$});
same_everywhere('an abort', 'BEGIN;' . $rows->(300, 350) . 'ROLLBACK; BEGIN;' . $rows->(351, 360) . 'COMMIT');
same_everywhere('a value of 100 MB', q{INSERT INTO v VALUES (1000, (SELECT string_agg(md5(g::text), '') FROM generate_series(1, 3276800) g), 'of 100 MB')});
my $file = $publisher->basedir . '/rows';
$publisher->safe_psql('postgres', "COPY (SELECT g, $big, '' FROM generate_series(2001, 7000) g) TO '$file'");
same_everywhere('a COPY of 5,000 rows', "COPY v FROM '$file'");
same_everywhere('replica identity FULL', q{ALTER TABLE v REPLICA IDENTITY FULL; BEGIN;
	UPDATE v SET squeezed = 'full' WHERE id BETWEEN 1 AND 60; DELETE FROM v WHERE id BETWEEN 70 AND 80; UPDATE v SET big = 'b' || big WHERE id BETWEEN 81 AND 90; COMMIT});
cmp_ok($publisher->safe_psql('postgres', "SELECT stream_txns FROM pg_stat_replication_slots WHERE slot_name = 'streamed'"), '>', 3, 'transactions were streamed');
is($publisher->safe_psql('postgres', "SELECT stream_txns FROM pg_stat_replication_slots WHERE slot_name = 'whole'"), 0, '... and not to the one that does not want it');

done_testing();
