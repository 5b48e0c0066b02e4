# Logical slots and standbys: decoding on a hot standby, for pg_recvlogical and for a stock subscriber; failover slots that are
# synchronised; promotion, after which subscribers and other consumers go on with the promoted server.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Decoding;
use Vault;

my $primary = decoding_node('primary', "dynamic_library_path = '" . link_path() . "'", 'hot_standby_feedback = on', 'wal_receiver_status_interval = 1',
	'max_replication_slots = 20', 'wal_retrieve_retry_interval = 100ms');
my $tables = 'CREATE TABLE t (id int PRIMARY KEY, x text STORAGE EXTERNAL, n numeric); CREATE TABLE whole (id int, x text STORAGE EXTERNAL); ALTER TABLE whole REPLICA IDENTITY FULL;';
my $encrypted_tables = $tables =~ s/\);/) USING encrypted_heap;/gr;
$primary->safe_psql('postgres', "CREATE EXTENSION pg_vault_tde; $encrypted_tables CREATE PUBLICATION p FOR TABLE t, whole;
	SELECT pg_create_physical_replication_slot('standby', true)");
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', "primary_slot_name = 'standby'\nprimary_conninfo = '" . $primary->connstr . " dbname=postgres'");
$standby->start;

# Rows from $from on: large values, a transaction that is partly undone, new keys.
sub change
{
	my ($node, $from, $rotate) = @_;
	my $to = $from + 49;
	$node->safe_psql('postgres', ($rotate ? 'SELECT vault_tde.rotate_key();' : '') . qq{
		INSERT INTO t SELECT g, repeat(md5(g::text), 1 + g % 2 * 200), g * 1.5 FROM generate_series($from, $to) g;
		INSERT INTO whole SELECT g, repeat(md5(g::text), 150) FROM generate_series($from, $to) g;
		BEGIN; UPDATE t SET n = -n WHERE id % 3 = 0; SAVEPOINT s; UPDATE t SET x = 'undone'; ROLLBACK TO s; UPDATE t SET x = x || 'x' WHERE id % 7 = 0; COMMIT;
		UPDATE whole SET id = -id WHERE id % 5 = 0 AND id > 0; DELETE FROM whole WHERE id = $from + 1; DELETE FROM t WHERE id = $to});
}

sub content { return q{SELECT (SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM t) || ' ' || (SELECT count(*) || md5(string_agg(w::text, ',' ORDER BY id, x)) FROM whole w)} }

# A slot can be made on a standby once the primary has logged what is running.
sub while_logging
{
	my ($what, $done) = @_;
	wait_until($what, sub { $primary->safe_psql('postgres', 'SELECT pg_log_standby_snapshot()'); return $done->(); });
}
sub has_slot { my ($node, $slot, $and) = @_; return $node->safe_psql('postgres', "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '$slot' AND " . ($and // 'confirmed_flush_lsn IS NOT NULL')) }

# --- decoding on the standby --------------------------------------------------------------------------------------------------

change($primary, 1);
my $subscribers = new_node('subscribers', 'wal_retrieve_retry_interval = 100ms');
$subscribers->start;
for my $db (qw(from_standby failover))
{
	$subscribers->safe_psql('postgres', "CREATE DATABASE $db");
	$subscribers->safe_psql($db, $tables);
}
my $creating = IPC::Run::start([ 'pg_recvlogical', '-d', $standby->connstr('postgres'), '-S', 'received', '-P', 'pg_vault_tde', '--create-slot', '--start', '-f', $standby->basedir . '/received',
	'-o', 'format=json', '-o', 'skip-empty-xacts', '-o', 'include-types=0', '-s', '1', '-F', '1' ]);
while_logging('the slot of pg_recvlogical on the standby', sub { has_slot($standby, 'received') });
my $subscribing = $subscribers->background_psql('from_standby', on_error_stop => 0);
$subscribing->query_until(qr/started/, '\echo started' . "\nCREATE SUBSCRIPTION from_standby CONNECTION '" . $standby->connstr . " dbname=postgres' PUBLICATION p WITH (streaming = parallel);\n\\echo done\n");
while_logging('the subscription to the standby', sub { $subscribers->safe_psql('from_standby', q{SELECT count(*) FROM pg_subscription_rel WHERE srsubstate = 'r'}) == 2 });
$subscribing->quit;
is($subscribers->safe_psql('from_standby', content()), $primary->safe_psql('postgres', content()), 'a subscriber of the standby: the initial copy');

sub caught_up
{
	my ($node, $subscription, $db, $name) = @_;
	$primary->wait_for_replay_catchup($standby) if $node == $standby && $primary;
	my $lsn = $node->safe_psql('postgres', 'SELECT ' . ($node == $standby && $primary ? 'pg_last_wal_replay_lsn()' : 'pg_current_wal_lsn()'));
	wait_until("$subscription to catch up", sub {
		$primary->safe_psql('postgres', 'SELECT pg_log_standby_snapshot()') if $primary;
		$node->safe_psql('postgres', "SELECT confirmed_flush_lsn >= '$lsn' FROM pg_replication_slots WHERE slot_name = '$subscription'") eq 't';
	});
	is($subscribers->safe_psql($db, content()), ($primary // $standby)->safe_psql('postgres', content()), $name);
}
change($primary, 100, 1);
caught_up($standby, 'from_standby', 'from_standby', 'a subscriber of the standby: changes, under a new key');
my $received = wait_until('pg_recvlogical', sub { my $text = slurp_file($standby->basedir . '/received'); $text =~ /"table":"t","old":\{"id":149\}\}\n\{"action":"commit"/ ? $text : undef });
my @inserted = $received =~ /^\{"action":"insert","xid":\d+,"schema":"public","table":"t","new":\{"id":(\d+),"x":"(?:[0-9a-f]{32})+","n":[\d.]+\}\}$/mg;
is("@inserted", "@{[100 .. 149]}", 'pg_recvlogical on the standby: rows in the clear');
like($received, qr/\{"action":"update","xid":\d+,"schema":"public","table":"whole","old":\{"id":105,"x":"\w{4800}"\},"new":\{"id":-105\},"unchanged":\["x"\]\}/, '... and old values out of line');
$creating->signal('INT');
$creating->finish;

# A plugin without us is refused on a standby, too.
my $guarded = $standby->background_psql('postgres', on_error_stop => 0);
$guarded->query_until(qr/started/, "\\echo started\nSELECT 1 FROM pg_create_logical_replication_slot('guarded', 'test_decoding');\n");
while_logging('another slot', sub { has_slot($standby, 'guarded') });
$guarded->quit;
$primary->safe_psql('postgres', "UPDATE t SET n = 0 WHERE id = 1");
$primary->wait_for_replay_catchup($standby);
my (undef, undef, $err) = $standby->psql('postgres', "SELECT data FROM pg_logical_slot_peek_changes('guarded', NULL, NULL)");
like($err, qr/output plugin "test_decoding" cannot decode encrypted table public\.t/, 'the guard on a standby');
$standby->safe_psql('postgres', "SELECT pg_drop_replication_slot('guarded')");

# --- failover slots -----------------------------------------------------------------------------------------------------------

$primary->append_conf('postgresql.conf', "synchronized_standby_slots = 'standby'");
$primary->reload;
$subscribers->safe_psql('failover', "CREATE SUBSCRIPTION failover CONNECTION '" . $primary->connstr . " dbname=postgres' PUBLICATION p WITH (failover = true, streaming = on)");
$subscribers->wait_for_subscription_sync($primary, 'failover', 'failover');
$primary->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('cdc', 'pg_vault_tde', false, false, true)});
change($primary, 200);
is($primary->safe_psql('postgres', q{SELECT count(*) > 100 FROM pg_logical_slot_get_changes('cdc', NULL, NULL)}), 't', 'a failover slot of our own: changes');
caught_up($primary, 'failover', 'failover', 'a failover subscription: changes');

# by hand, and then by the worker
my $synced = sub { my ($slot) = @_; return has_slot($standby, $slot, 'synced AND NOT temporary') };
while_logging('slots synchronised by hand', sub {
	# a standby takes over no slot that needs an older catalog than it has itself, so they have to move
	$primary->safe_psql('postgres', q{SELECT count(*) FROM pg_logical_slot_get_changes('cdc', NULL, NULL)});
	$primary->wait_for_replay_catchup($standby);
	$standby->psql('postgres', 'SELECT pg_sync_replication_slots()');
	return $synced->('cdc') && $synced->('failover');
});
pass('pg_sync_replication_slots()');
(undef, undef, $err) = $standby->psql('postgres', q{SELECT * FROM pg_logical_slot_peek_changes('cdc', NULL, NULL)});
like($err, qr/cannot use replication slot "cdc" for logical decoding/, 'a slot that is being synchronised is not used yet');
$standby->append_conf('postgresql.conf', 'sync_replication_slots = on');
$standby->reload;
change($primary, 300, 1);
caught_up($primary, 'failover', 'failover', 'a failover subscription: changes, under a new key');
$primary->safe_psql('postgres', q{SELECT count(*) FROM pg_logical_slot_get_changes('cdc', NULL, NULL)});
my $confirmed = $primary->safe_psql('postgres', q{SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'cdc'});
while_logging('slots synchronised by the worker', sub { $synced->('failover') && has_slot($standby, 'cdc', "confirmed_flush_lsn = '$confirmed'") });
pass('sync_replication_slots');

# Changes that nobody has seen when the primary goes. The subscriber is stopped for a moment, so that the promoted server has them.
$subscribers->safe_psql('failover', 'ALTER SUBSCRIPTION failover DISABLE');
$primary->poll_query_until('postgres', q{SELECT active_pid IS NULL FROM pg_replication_slots WHERE slot_name = 'failover'}) or die;
change($primary, 400);
$primary->wait_for_replay_catchup($standby);
my $expected = $primary->safe_psql('postgres', content());
my $changes = q{SELECT string_agg(data, E'\n') FROM pg_logical_slot_peek_changes('cdc', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1')};
my $stream = $primary->safe_psql('postgres', $changes);
$primary->stop('immediate');
undef $primary;
$standby->promote;
is($standby->safe_psql('postgres', content()), $expected, 'promoted: the content');
is_same($standby->safe_psql('postgres', $changes), $stream, 'promoted: the slot of our own is where it was');
$subscribers->safe_psql('failover', "ALTER SUBSCRIPTION failover CONNECTION '" . $standby->connstr . " dbname=postgres'; ALTER SUBSCRIPTION failover ENABLE");
caught_up($standby, 'failover', 'failover', 'promoted: the failover subscription goes on where it was');
caught_up($standby, 'from_standby', 'from_standby', '... and the subscription that was the standby\'s own');
change($standby, 500, 1);
caught_up($standby, 'failover', 'failover', 'promoted: changes, under a new key');
caught_up($standby, 'from_standby', 'from_standby', '... to both');
is($standby->safe_psql('postgres', q{SELECT count(*) > 100 FROM pg_logical_slot_get_changes('cdc', NULL, NULL)}), 't', '... and by the slot of our own');
like($standby->safe_psql('postgres', q{SELECT string_agg(data, '') FROM pg_logical_slot_get_changes('received', NULL, NULL)}), qr/id\[integer\]:548/, "... and by pg_recvlogical's");
$standby->stop;
$subscribers->stop;
done_testing();
