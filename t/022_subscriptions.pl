# Stock subscribers, with us in pgoutput's place on the publisher: encrypted tables to heap, heap to encrypted, encrypted to
# encrypted, within a major and between two.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Decoding;
use Vault;

# name => access methods on publisher and subscriber
my %tables = (e2h => [qw(encrypted_heap heap)], h2e => [qw(heap encrypted_heap)], e2e => [qw(encrypted_heap encrypted_heap)],
	whole => [qw(encrypted_heap encrypted_heap)]);

my $publisher = node('publisher');
my $subscriber = node('subscriber');
$publisher->safe_psql('postgres', 'CREATE PUBLICATION everything FOR ALL TABLES');
create_tables($publisher, 0);
create_tables($subscriber, 1);

sub node
{
	my ($name, $install_path) = @_;
	my @path = $install_path ? (install_path => $install_path) : ();
	my $node = PostgreSQL::Test::Cluster->new($name, @path);
	$node->init(allows_streaming => 'logical', force_initdb => 1);
	$node->adjust_conf('postgresql.conf', 'autovacuum_worker_slots', undef) if @path;    # of 18's Cluster.pm, for 17
	write_key($node->basedir . '/key');
	$node->append_conf('postgresql.conf', join "\n", "shared_preload_libraries = 'pg_vault_tde'",
		"pg_vault_tde.key_file = '" . $node->basedir . "/key'", "dynamic_library_path = '" . link_path() . "'",
		'max_prepared_transactions = 10', "logical_decoding_work_mem = '64kB'", 'wal_retrieve_retry_interval = 100ms',
		'max_logical_replication_workers = 12', 'max_worker_processes = 20', '');
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_vault_tde');
	return $node;
}

sub create_tables
{
	my ($node, $side) = @_;
	for my $table (sort keys %tables)
	{
		my $key = $table eq 'whole' ? '' : 'PRIMARY KEY';
		$node->safe_psql('postgres', "CREATE TABLE $table (id int $key, a text, big text STORAGE EXTERNAL, squeezed text, at timestamptz DEFAULT '2026-01-01')
			USING $tables{$table}[$side]");
	}
	$node->safe_psql('postgres', 'ALTER TABLE whole REPLICA IDENTITY FULL');
}

sub each_table { my ($sql) = @_; return join ' ', map { $sql =~ s/TABLE/"$_"/gr } sort keys %tables; }

# Rows from $from on: whole transactions, large ones, undone and prepared ones.
sub write_rows
{
	my ($from) = @_;
	my $rows = sub { my ($first, $n, $text) = @_; return each_table("INSERT INTO TABLE (id, a, big, squeezed) SELECT g, 'a' || g, repeat(md5(g::text), 150), repeat('$text', 2000)
		FROM generate_series($from + $first, $from + $first + $n - 1) g;"); };
	$publisher->safe_psql('postgres',
		"BEGIN; " . $rows->(0, 60, 'first') . "SAVEPOINT s; " . $rows->(60, 20, 'undone') . "ROLLBACK TO s; " . $rows->(60, 20, 'second') . "COMMIT;"
		. each_table("UPDATE TABLE SET a = 'only a' WHERE id % 5 = 0 AND id >= $from; UPDATE TABLE SET big = big || 'x' WHERE id % 7 = 0 AND id >= $from;
			UPDATE TABLE SET id = -id WHERE id % 11 = 0 AND id >= $from; DELETE FROM TABLE WHERE id % 13 = 0 AND id >= $from;")
		. "BEGIN; " . $rows->(100, 30, 'prepared') . "SAVEPOINT s; " . $rows->(200, 10, 'undone') . "ROLLBACK TO s; PREPARE TRANSACTION 'yes';"
		. "BEGIN; " . $rows->(300, 30, 'prepared') . "PREPARE TRANSACTION 'no';"
		. "COMMIT PREPARED 'yes'; ROLLBACK PREPARED 'no';"
		. "BEGIN; " . $rows->(400, 30, 'never') . "ROLLBACK;");
}

sub is_replicated
{
	my ($name) = @_;
	$publisher->wait_for_catchup('sub');
	for my $table (sort keys %tables)
	{
		my $content = qq{SELECT count(*) || ' ' || coalesce(md5(string_agg(t::text, ',' ORDER BY id, a)), '') FROM "$table" t};
		is($subscriber->safe_psql('postgres', $content), $publisher->safe_psql('postgres', $content), "$name: $table is the same on both sides");
	}
}

sub subscribe
{
	my ($options) = @_;
	my $from = $publisher->connstr . ' dbname=postgres';
	$subscriber->safe_psql('postgres', each_table('TRUNCATE TABLE;') . "CREATE SUBSCRIPTION sub CONNECTION '$from' PUBLICATION everything WITH ($options)");
}

# --- all modes, writing before, during and after the initial copy ------------------------------------------------------------

my $from = 1;
write_rows($from);
for my $options ('streaming = off', 'streaming = on, two_phase = true', 'streaming = parallel, two_phase = true, binary = true',
	'streaming = parallel')
{
	my $writer = $publisher->background_psql('postgres');
	my ($first, $last) = ($from + 10_000, $from + 10_999);
	# wants no answer until it is asked for one
	$writer->query_until(qr/started/, qq{\\echo started
		DO \$\$ BEGIN FOR i IN $first .. $last LOOP
			INSERT INTO e2h (id, a, big) VALUES (i, 'meanwhile', repeat('m', 5000)); INSERT INTO e2e (id, a, big) VALUES (i, 'meanwhile', repeat('m', 5000));
			COMMIT; END LOOP; END \$\$;
		\\echo done
	});
	subscribe($options);
	$writer->query_until(qr/done/, "\n");
	$writer->quit;
	$subscriber->wait_for_subscription_sync($publisher, 'sub');
	is_replicated("$options, after the copy");
	write_rows($from += 1000);
	is_replicated("$options, after changes");
	my $streamed = $publisher->safe_psql('postgres', "SELECT pg_sleep(0.1), stream_txns > 0 FROM pg_stat_replication_slots WHERE slot_name = 'sub'");
	is($streamed, $options =~ /off/ ? '|f' : '|t', "$options: what was streamed");
	$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION sub');
	$from += 20_000;
}
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM vault_tde.keys'), 1, "the subscriber's keys are its own");

# --- new tables, and a walsender and a server that die ----------------------------------------------------------------------

subscribe('streaming = parallel');
for my $side (0, 1)
{
	my $node = $side ? $subscriber : $publisher;
	my $method = $side ? 'heap' : 'encrypted_heap';
	$node->command_ok([ 'env', "PGOPTIONS=-c default_table_access_method=$method", 'pgbench', '-i', '-q', '-p', $node->port, '-h', $node->host, ($side ? ('-I', 'dtp') : ()), 'postgres' ], 'pgbench -i');
}
$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION sub REFRESH PUBLICATION');
sub bench { $publisher->command_ok([ 'pgbench', '-n', '-c', 2, '-t', 250, '-p', $publisher->port, '-h', $publisher->host, 'postgres' ], 'pgbench'); }
bench();
my $pid = $publisher->safe_psql('postgres', "SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'sub'");
$publisher->safe_psql('postgres', "SELECT pg_terminate_backend($pid)") if $pid;
bench();
$publisher->restart;
bench();
$subscriber->wait_for_subscription_sync($publisher, 'sub');
$publisher->wait_for_catchup('sub');
for my $table (qw(accounts branches tellers history))
{
	my $content = "SELECT count(*) || ' ' || md5(string_agg(t::text, ',' ORDER BY t::text)) FROM pgbench_$table t";
	is($subscriber->safe_psql('postgres', $content), $publisher->safe_psql('postgres', $content), "pgbench_$table is the same on both sides");
}
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION sub');
$publisher->stop;
$subscriber->stop;

# --- between majors -----------------------------------------------------------------------------------------------------------

SKIP:
{
	my ($bindir) = run_command([ 'pg_config', '--bindir' ]);
	my ($here, $other) = $bindir =~ m{^(/usr/lib/postgresql)/(\d+)/} ? ("$1/$2", "$1/" . ($2 == 17 ? 18 : 17)) : skip('not a Debian layout', 1);
	skip("pg_vault_tde is not installed in $other", 1) unless -e "$other/lib/pg_vault_tde.so" && -x "$other/bin/initdb";
	for my $paths ([ $here, $other ], [ $other, $here ])
	{
		($publisher, $subscriber) = map { node($_ . '_' . join('_', map { /(\d+)$/ } @$paths), $paths->[$_ eq 'publisher' ? 0 : 1]) } qw(publisher subscriber);
		$publisher->safe_psql('postgres', 'CREATE PUBLICATION everything FOR ALL TABLES');
		create_tables($publisher, 0);
		create_tables($subscriber, 1);
		write_rows($from = 1);
		subscribe('streaming = parallel, two_phase = true');
		$subscriber->wait_for_subscription_sync($publisher, 'sub');
		write_rows($from += 1000);
		is_replicated("from $paths->[0] to $paths->[1]");
		$_->stop for $subscriber, $publisher;
	}
}

done_testing();
