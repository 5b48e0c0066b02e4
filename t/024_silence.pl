# Long stretches in which nothing is sent: the connection lives on, and the walsender's memory stays flat. Changes of tables that
# are not published, values that are undone, and large values that nobody asked for.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Decoding;
use Vault;

my $publisher = decoding_node('publisher', "dynamic_library_path = '" . link_path() . "'", 'wal_sender_timeout = 2s', "logical_decoding_work_mem = '1MB'", 'checkpoint_timeout = 1h', 'max_wal_size = 4GB');
my $subscriber = new_node('subscriber', 'wal_receiver_timeout = 10s', 'wal_receiver_status_interval = 1s', 'wal_retrieve_retry_interval = 100ms');
$subscriber->start;
$publisher->safe_psql('postgres', q{CREATE EXTENSION pg_vault_tde;
	CREATE TABLE published (id int PRIMARY KEY, big text) USING encrypted_heap;
	CREATE TABLE silent (id int, big text STORAGE EXTERNAL) USING encrypted_heap;
	CREATE PUBLICATION one FOR TABLE published;});
$subscriber->safe_psql('postgres', 'CREATE TABLE published (id int PRIMARY KEY, big text)');
my $from = $publisher->connstr . ' dbname=postgres';
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION sub CONNECTION '$from' PUBLICATION one WITH (streaming = off)");
$subscriber->wait_for_subscription_sync($publisher, 'sub');

my $sender = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'sub'";
my $pid = $publisher->safe_psql('postgres', $sender);
sub round
{
	my ($rows) = @_;
	$publisher->safe_psql('postgres', qq{
		INSERT INTO silent SELECT g, 'small' FROM generate_series(1, $rows) g;
		INSERT INTO silent SELECT g, repeat('large', 20000) FROM generate_series(1, $rows / 500) g;
		BEGIN; INSERT INTO silent SELECT g, repeat('undone', 20000) FROM generate_series(1, $rows / 500) g; ROLLBACK;
		DO \$\$ BEGIN FOR i IN 1 .. $rows / 200 LOOP
			BEGIN INSERT INTO silent VALUES (i, repeat('exception', 2000)); RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END;
		END LOOP; END \$\$;});
	$publisher->wait_for_catchup('sub');
	return memory_of($pid, 'VmRSS') - memory_of($pid, 'RssShmem');
}
round(50_000);
my $before = round(50_000);
my $after = round(500_000);
is($publisher->safe_psql('postgres', $sender), $pid, 'the walsender is the same after many changes that were not published');
cmp_ok($after - $before, '<', 8 * 1024, "its memory is flat: $before kB, then $after kB");
unlike(slurp_file($publisher->logfile), qr/terminating walsender process due to replication timeout/, 'no timeout');
$publisher->safe_psql('postgres', "INSERT INTO published VALUES (1, repeat('x', 100000))");
$publisher->wait_for_catchup('sub');
is($subscriber->safe_psql('postgres', 'SELECT length(big) FROM published'), 100000, 'and then a change arrives');

done_testing();
