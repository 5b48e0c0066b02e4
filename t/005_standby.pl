# A physical standby reads encrypted tables, with keys that were made before it and after; decodes them; is promoted, and writes
# under the generation that is then current. A base backup taken during a rotation can be restored.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

my $primary = new_node('primary', 'hot_standby_feedback = on', 'wal_receiver_status_interval = 1');
$primary->start;
make_twins($primary);
both($primary, q{
	CREATE TABLE t (id int PRIMARY KEY, x text);
	INSERT INTO t SELECT i, 'first ' || i FROM generate_series(1, 100) i;
	INSERT INTO t VALUES (1000, repeat('out of line ', 5000))});

$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', "primary_slot_name = 'standby'");
$primary->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('standby', true)});
$standby->start;
$primary->wait_for_replay_catchup($standby);
is_same_content($standby, 'on the standby');

# Sessions of the standby that are connected already see what comes: rows, keys, and rows under those keys.
my $session = $standby->background_psql('encrypted');
is($session->query_safe('SELECT count(*), max(x) FROM t WHERE id < 1000'), '100|first 99', 'a session of the standby');
both($primary, q{
	SELECT vault_tde.rotate_key();
	INSERT INTO t SELECT i, 'second ' || i FROM generate_series(101, 200) i;
	UPDATE t SET x = x || ' updated' WHERE id % 10 = 0;
	DELETE FROM t WHERE id % 7 = 0;
	CREATE TABLE new (id int PRIMARY KEY, x text);
	INSERT INTO new SELECT i, repeat('new ', i * 50) FROM generate_series(1, 100) i});
$primary->wait_for_replay_catchup($standby);
is_same_content($standby, 'on the standby after a rotation');
is($session->query_safe("SELECT count(*) FROM t WHERE x LIKE 'second%'"), 86, 'the session of the standby sees rows under the new key');
is($session->query_safe('SELECT max(generation) FROM vault_tde.keys'), 2, '... and the key');
is($session->query_safe("SELECT min(length(x)) FROM t WHERE id = 1000"), 60008, '... and values out of line');

# a rotation that is in progress, or was undone
my $rotating = $primary->background_psql('encrypted');
$rotating->query_safe(q{BEGIN; SELECT vault_tde.rotate_key(); INSERT INTO t VALUES (300, 'in progress'); UPDATE t SET x = 'in progress' WHERE id = 1});
$primary->safe_psql('encrypted', q{INSERT INTO t VALUES (301, 'by another session')});
$primary->safe_psql('heap', q{INSERT INTO t VALUES (301, 'by another session')});
$primary->wait_for_replay_catchup($standby);
is_same_content($standby, 'on the standby while a rotation is in progress');

# A base backup during it; what is committed after the backup has begun is in it.
$primary->safe_psql('encrypted', 'CHECKPOINT');
my $backup = PostgreSQL::Test::Cluster->new('restored');
$primary->backup('during');
$rotating->query_safe('COMMIT');
$rotating->quit;
$primary->safe_psql('heap', q{INSERT INTO t VALUES (300, 'in progress'); UPDATE t SET x = 'in progress' WHERE id = 1});
$primary->wait_for_replay_catchup($standby);
is_same_content($standby, 'on the standby after that rotation');
my ($status, $out, $err) = $standby->psql('encrypted', 'SELECT vault_tde.rotate_key()');
isnt($status, 0, 'no rotation on a standby');
like($err, qr/rotate_key.*during recovery|read-only/, '... says the error');
($status, $out, $err) = $standby->psql('encrypted', "INSERT INTO t VALUES (0, 'x')");
like($err, qr/read-only transaction/, 'nor a write');

$backup->init_from_backup($primary, 'during', has_streaming => 1);
$backup->start;
$primary->wait_for_replay_catchup($backup);
is_same_content($backup, 'restored from the backup that was taken during a rotation, up to now');
$backup->stop;
my $alone = PostgreSQL::Test::Cluster->new('alone');
$alone->init_from_backup($primary, 'during');
$alone->start;
is($alone->safe_psql('encrypted', 'SELECT count(*), max(generation) FROM t, vault_tde.keys WHERE id = 301'), '2|2', 'restored as of the backup: without the rotation that had not committed');
is($alone->safe_psql('encrypted', "SELECT x FROM t WHERE id IN (1, 300)"), 'first 1', '... nor what it wrote');
is($alone->safe_psql('encrypted', "SELECT vault_tde.rotate_key()"), 3, '... and goes its own way');
is($alone->safe_psql('encrypted', "INSERT INTO t VALUES (302, 'alone'); SELECT count(x) FROM t WHERE id > 300"), 3, '... with rows of its own');
$alone->stop;

# --- decoding on the standby ----------------------------------------------------------------------------------------------

# The slots are created while the primary logs what that waits for.
for ([ 'on_standby_encrypted', 'encrypted', 'pg_vault_tde' ], [ 'on_standby_heap', 'heap', 'test_decoding' ])
{
	my ($slot, $db, $plugin) = @$_;
	my $creating = $standby->background_psql($db);
	$creating->query_until(qr/go/, "\\echo go\nSELECT 'created' FROM pg_create_logical_replication_slot('$slot', '$plugin');\n");
	wait_until('the slot', sub {
		$primary->safe_psql('postgres', 'SELECT pg_log_standby_snapshot()');
		$standby->safe_psql('postgres', "SELECT confirmed_flush_lsn IS NOT NULL FROM pg_replication_slots WHERE slot_name = '$slot'") eq 't';
	});
	$creating->quit;
}
both($primary, q{
	UPDATE t SET id = id + 2000 WHERE id < 50;
	SELECT vault_tde.rotate_key();
	DELETE FROM t WHERE id % 11 = 0;
	INSERT INTO t SELECT i, 'fourth ' || i FROM generate_series(401, 500) i;
	ALTER TABLE new REPLICA IDENTITY FULL;
	UPDATE new SET x = upper(x)});
$primary->wait_for_replay_catchup($standby);
# (sorted, since rows are changed in the order of their places, which differ)
sub standby_stream
{
	my ($db) = @_;
	return join "\n", sort split /\n/, $standby->safe_psql($db, "SELECT data FROM pg_logical_slot_peek_changes('on_standby_$db', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1')");
}
is_same(standby_stream('encrypted'), standby_stream('heap'), 'decoded on the standby: as the heap twin');
like(standby_stream('encrypted'), qr/^table public.t: INSERT: id\[integer\]:500 x\[text\]:'fourth 500'$/m, '... in the clear');

# --- promotion ------------------------------------------------------------------------------------------------------------

$primary->stop;
$standby->promote;
is_same_content($standby, 'promoted');
is($standby->safe_psql('encrypted', 'SELECT max(generation) FROM vault_tde.keys'), 4, 'promoted: the current generation');
for my $db (qw(encrypted heap))
{
	$standby->safe_psql($db, q{
		CREATE TABLE after (id int, x text);
		INSERT INTO after VALUES (1, 'before the next rotation');
		UPDATE t SET x = 'after promotion' WHERE id % 3 = 0;
		SELECT vault_tde.rotate_key();
		INSERT INTO after VALUES (2, 'after it');
		INSERT INTO t VALUES (5000, 'after it');
		CHECKPOINT});
}
is_deeply([ map { $_->{generation} } stored_rows($standby, 'after', 'encrypted') ], [ 4, 5 ], 'promoted: rows are written under the generation that is current');
is($session->query_safe("INSERT INTO after VALUES (3, 'by the old session'); SELECT count(*) FROM after"), 3, 'promoted: a session that was there before writes');
$standby->safe_psql('heap', "INSERT INTO after VALUES (3, 'by the old session')");
$session->quit;
is_same_content($standby, 'promoted, with changes');
is_same(standby_stream('encrypted'), standby_stream('heap'), 'promoted: decoding goes on');
like(standby_stream('encrypted'), qr/after it/, '... with the changes after it');
$standby->restart;
is_same_content($standby, 'promoted, after a restart');
$standby->stop;
done_testing();
