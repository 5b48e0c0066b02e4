# The change stream of pgbench: TPC-B on encrypted tables, two clients; in the middle the server is restarted, and a walsender
# killed with -9, so that the server recovers from a crash. A stock subscriber has all of it in the end.
#
# TRANSACTIONS says how many (20,000 if it does not).

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Decoding;
use Vault;

my $transactions = $ENV{TRANSACTIONS} || 20_000;
my @settings = ('synchronous_commit = off', 'wal_retrieve_retry_interval = 100ms', 'max_wal_size = 2GB', 'shared_buffers = 64MB', 'log_statement = none');
my $publisher = decoding_node('publisher', "dynamic_library_path = '" . link_path() . "'", 'restart_after_crash = on', @settings);
my $subscriber = new_node('subscriber', 'max_logical_replication_workers = 8', @settings);
$subscriber->start;
$publisher->safe_psql('postgres', 'CREATE EXTENSION pg_vault_tde');
sub pgbench { my ($node, @options) = @_; return ('pgbench', '-p', $node->port, '-h', $node->host, @options, 'postgres') }
$publisher->command_ok([ 'env', 'PGOPTIONS=-c default_table_access_method=encrypted_heap', pgbench($publisher, '-i', '-s', 2, '-I', 'dtGp') ], 'pgbench -i');
$subscriber->command_ok([ pgbench($subscriber, '-i', '-I', 'dtp') ], 'pgbench -i of the subscriber');
my @tables = qw(accounts branches tellers history);
is($publisher->safe_psql('postgres', "SELECT bool_and(vault_tde.is_encrypted(c)) FROM unnest('{" . join(',', map { "pgbench_$_" } @tables) . "}'::regclass[]) c"), 't', 'the tables are encrypted');
$publisher->safe_psql('postgres', 'CREATE PUBLICATION p FOR ALL TABLES');
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION sub CONNECTION '" . $publisher->connstr . " dbname=postgres' PUBLICATION p WITH (streaming = parallel)");
$subscriber->wait_for_subscription_sync($publisher, 'sub');

sub done { return $publisher->safe_psql('postgres', 'SELECT count(*) FROM pgbench_history') }
my $log = $publisher->basedir . '/pgbench';

# Runs pgbench until so many transactions are done, and then the interruption, which it may not survive.
sub run_until
{
	my ($until, $interrupt) = @_;
	my $each = int(($transactions - done()) / 2) + 1;
	my $running = IPC::Run::start([ pgbench($publisher, '-n', '-c', 2, '-t', $each) ], '>', $log, '2>', $log);
	wait_until("$until transactions", sub { done() >= $until });
	$interrupt->();
	$running->finish;
	cmp_ok(done(), '<', $transactions, 'interrupted');
}
my $start = time;
run_until($transactions / 4, sub { $publisher->restart });
run_until($transactions / 2, sub {
	my $walsender = $publisher->safe_psql('postgres', "SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'sub'");
	$walsender = wait_until('a walsender', sub { $publisher->safe_psql('postgres', "SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'sub'") }) unless $walsender;
	my $at = -s $publisher->logfile;
	kill 'KILL', $walsender or die "no walsender: $!";
	$publisher->wait_for_log(qr/database system is ready to accept connections/, $at);
});
my $rest = int(($transactions - done() + 1) / 2);
$publisher->command_ok([ pgbench($publisher, '-n', '-c', 2, '-t', $rest) ], 'the rest');
my $done = done();
cmp_ok($done, '>=', $transactions, 'so many transactions');
note(sprintf '%d transactions in %d s', $done, time - $start);
# flushes what has been committed asynchronously, which is not yet in WAL's file, and so not in what is waited for
$publisher->safe_psql('postgres', q{SET synchronous_commit = on; SELECT pg_logical_emit_message(true, 'end', '')});
$publisher->wait_for_catchup('sub');
note(sprintf 'applied after %d s', time - $start);
for my $table (@tables)
{
	my $content = "SELECT count(*), sum(hashtextextended(t::text, 0)), sum(hashtextextended(t::text, 1)) FROM pgbench_$table t";
	is($subscriber->safe_psql('postgres', $content), $publisher->safe_psql('postgres', $content), "pgbench_$table has the same content");
}
is($publisher->safe_psql('postgres', 'SELECT (SELECT sum(abalance) FROM pgbench_accounts) - (SELECT sum(delta) FROM pgbench_history), (SELECT sum(bbalance) FROM pgbench_branches) - (SELECT sum(tbalance) FROM pgbench_tellers)'), '0|0', 'the books are balanced');
$subscriber->stop;
$publisher->stop;
done_testing();
