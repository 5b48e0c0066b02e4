# Transactions with out-of-line values that are streamed while they are in progress: the same lines as of the heap twin by
# test_decoding, in flat memory. (The text format does not show the rows.)

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

my $node = new_node('toast_streaming', 'max_wal_size = 2GB');
$node->start;
my $copy = $node->basedir . '/copy';
$node->safe_psql('postgres', qq{
	CREATE EXTENSION pg_vault_tde;
	CREATE FUNCTION noise(n int, seed int) RETURNS text LANGUAGE sql AS \$\$ SELECT left(string_agg(md5(i::text || seed), ''), n) FROM generate_series(0, n / 32) i \$\$;
	CREATE SCHEMA encrypted;
	CREATE SCHEMA heap;
	CREATE TABLE encrypted.t (id int PRIMARY KEY, a text STORAGE EXTERNAL) USING encrypted_heap;
	CREATE TABLE heap.t (id int PRIMARY KEY, a text STORAGE EXTERNAL) USING heap;
	COPY (SELECT i, noise(10000, i) FROM generate_series(1, 5000) i) TO '$copy';
});

my %transactions = (
	'a COPY of 5,000 rows of 10 kB' => "BEGIN; COPY t FROM '$copy'; COMMIT",
	'rollback to a savepoint' => q{BEGIN; INSERT INTO t SELECT i, noise(20000, i) FROM generate_series(10001, 10010) i;
		SAVEPOINT s; UPDATE t SET a = noise(20001, id) WHERE id > 10000; INSERT INTO t SELECT i, noise(20000, i) FROM generate_series(10011, 10020) i; ROLLBACK TO s;
		INSERT INTO t SELECT i, noise(20000, -i) FROM generate_series(10011, 10015) i; SAVEPOINT s2; DELETE FROM t WHERE id = 10001; RELEASE s2; COMMIT},
	'an abort' => q{BEGIN; INSERT INTO t SELECT i, noise(20000, i) FROM generate_series(20001, 20010) i; SAVEPOINT s; UPDATE t SET a = noise(5000, id) WHERE id < 10; ROLLBACK},
	'a value of 100 MB' => q{BEGIN; INSERT INTO t SELECT 30000, repeat(noise(1000000, 1), 100); UPDATE t SET id = 30001 WHERE id = 30000; COMMIT},);

# Runs a transaction while two decoders read along, one that streams and one that does not. Returns what they received, without
# transaction ids and without where streamed blocks begin and end (which depends on what is between the rows), and how many kB
# the memory of each has grown.
sub run
{
	my ($side, $transaction) = @_;
	my $plugin = $side eq 'heap' ? 'test_decoding' : 'pg_vault_tde';
	my (@receivers, @lines, @growth);
	my $session = $node->background_psql('postgres');
	$session->query_safe("SET search_path = $side, public");
	for my $slot ('streamed', 'whole')
	{
		$node->safe_psql('postgres', "SELECT pg_create_logical_replication_slot('$slot', '$plugin')");
		local $ENV{PGOPTIONS} = '-c debug_logical_replication_streaming=immediate';
		my $file = $node->basedir . "/$slot";
		push @receivers, { slot => $slot, file => $file, run => IPC::Run::start([ 'pg_recvlogical', '-d', $node->connstr('postgres'), '-S', $slot, '--start', '-f', $file, '--no-loop',
			'-F', '1', '-s', '1', '-o', 'include-xids=0', '-o', 'skip-empty-xacts=1', $slot eq 'streamed' ? ('-o', 'stream-changes=1') : () ]) };
		$receivers[-1]{pid} = wait_until('the walsender', sub { $node->safe_psql('postgres', "SELECT active_pid FROM pg_replication_slots WHERE slot_name = '$slot'") });
		$receivers[-1]{memory} = memory($receivers[-1]{pid});
	}
	for my $statement (split /;\s*/, $transaction)
	{
		$session->query_safe($statement);
		# what is undone later is to be streamed before
		$node->safe_psql('postgres', 'SELECT pg_log_standby_snapshot()');
		my $lsn = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
		wait_until('the decoders', sub { $node->safe_psql('postgres', "SELECT count(*) = 2 AND bool_and(flush_lsn >= '$lsn') FROM pg_stat_replication") eq 't' });
	}
	$session->quit;
	for my $r (@receivers)
	{
		push @growth, memory($r->{pid}) - $r->{memory};
		$r->{run}->signal('INT');
		$r->{run}->finish;
		wait_until('the walsender to end', sub { $node->safe_psql('postgres', "SELECT active FROM pg_replication_slots WHERE slot_name = '$r->{slot}'") eq 'f' });
		$node->safe_psql('postgres', "SELECT pg_drop_replication_slot('$r->{slot}')");
		my $lines = -e $r->{file} ? slurp_file($r->{file}) : '';
		unlink $r->{file};
		$lines =~ s/^table $side\./table /mg;
		$lines =~ s/^(?:opening|closing) a streamed.*\n//mg;
		$lines =~ s/ TXN \d+$//mg;
		push @lines, $lines;
	}
	return (@lines, @growth);
}

# Says that two decoders sent the same lines. A row may lie elsewhere than in the heap twin, so an UPDATE of many may come to
# them in another order.
sub is_decoded_same
{
	my ($got, $expected, $name) = map { $_ // '' } @_;
	is_same(map({ join "\n", sort split /\n/, $_ } $got, $expected), $name);
}

# The most that a process has used.
sub memory
{
	my ($pid) = @_;
	my ($peak) = slurp_file("/proc/$pid/status") =~ /^VmHWM:\s*(\d+) kB/m;
	return $peak;
}

for my $name (sort keys %transactions)
{
	my ($heap_streamed, $heap_whole, @heap_growth) = run('heap', $transactions{$name});
	my ($streamed, $whole, @growth) = run('encrypted', $transactions{$name});
	is_decoded_same($streamed, $heap_streamed, "$name, streamed");
	is_decoded_same($whole, $heap_whole, "$name, decoded at commit");
	like($streamed, qr/^streaming change/m, "$name was indeed streamed");
	is($whole eq '', $name eq 'an abort', "$name has changes, or not");
	note("$name: peak of memory grew by @growth kB (streamed, whole), heap's by @heap_growth kB");
	cmp_ok($growth[0], '<', $heap_growth[0] + 8192, "$name: memory while it streams");
}

$node->stop;
done_testing();
