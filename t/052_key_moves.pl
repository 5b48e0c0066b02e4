# The key-encryption key changes: another key file, from files to a key server and back, and out of a server's memory when it is
# lost. All of it is transactional, reaches standbys and backups, and is nobody's business who decodes.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use OpenBao;
use Vault;

my $node = new_node('moves', 'summarize_wal = on', 'hot_standby_feedback = on');
my $key_file = $node->basedir . '/key';
my $old_key = slurp_file($key_file);
$node->start;
make_twins($node);
both($node, q{
	CREATE TABLE t (id int PRIMARY KEY, x text);
	INSERT INTO t SELECT i, 'first ' || i FROM generate_series(1, 100) i;
	INSERT INTO t VALUES (1000, repeat('out of line ', 5000));
	SELECT vault_tde.rotate_key();
	INSERT INTO t SELECT i, 'second ' || i FROM generate_series(101, 200) i});

sub fails_like
{
	my ($name, $db, $sql, @patterns) = @_;
	my ($status, $out, $err) = $node->psql($db, "\\set VERBOSITY verbose\n$sql");
	isnt($status, 0, "$name: is an error");
	like($err, $_, "$name: says so") for @patterns;
}
sub outdated { return $node->safe_psql('encrypted', q{SELECT coalesce(max(value), 'none') FROM vault_tde.status() WHERE item = 'data keys under an older key'}); }

# --- another key file -----------------------------------------------------------------------------------------------------

my $new_key = write_key($key_file);
fails_like('the key file holds another key', 'encrypted', 'BEGIN; SELECT vault_tde.rotate_key(); ROLLBACK; SELECT vault_tde.data_keys_rows(), 1/0', qr/division/);
$node->restart;
fails_like('the key file holds another key, cold', 'encrypted', 'SELECT * FROM t', qr/F0000: key file ".*" does not fit the data key of generation/, qr/HINT:  .*another line/);
fails_like('... rewrapping', 'encrypted', 'SELECT vault_tde.rewrap_keys()', qr/F0000: key file ".*" does not fit/);
write_key($key_file, $new_key . $old_key);
is($node->safe_psql('encrypted', 'SELECT count(x) FROM t'), 201, 'with the old key on the second line all can be read');
is(outdated(), '2 to be wrapped anew by vault_tde.rewrap_keys()', 'status() tells which data keys are under it');
is($node->safe_psql('encrypted', "SELECT value FROM vault_tde.status() WHERE item = 'key provider usable'"), 'yes; 1 older keys in the key file', '... and that there is one');
my $before = $node->safe_psql('encrypted', 'SELECT generation, key_id, created_at FROM vault_tde.data_keys ORDER BY 1');
my $wrapped = $node->safe_psql('encrypted', 'SELECT wrapped FROM vault_tde.data_keys ORDER BY generation');

# transactional
my $session = $node->background_psql('encrypted');
my $same = sub { is($node->safe_psql('encrypted', 'SELECT wrapped FROM vault_tde.data_keys ORDER BY generation'), $wrapped, shift) };
$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t; SELECT vault_tde.rewrap_keys()');
$same->('other sessions do not see a rewrapping before its commit');
is($node->safe_psql('encrypted', 'INSERT INTO t VALUES (2000); DELETE FROM t WHERE id = 2000; SELECT count(x) FROM t'), 201, '... read and write meanwhile');
is($session->query_safe('SELECT count(DISTINCT key_id), count(*) FROM vault_tde.data_keys'), '2|2', 'its own session does, once each');
$node->safe_psql('heap', 'INSERT INTO t VALUES (2000); DELETE FROM t WHERE id = 2000');
$session->query_safe('ROLLBACK');
$same->('rolled back');
$session->query_safe('BEGIN; SAVEPOINT a; SELECT vault_tde.rewrap_keys(); SELECT vault_tde.rotate_key(); ROLLBACK TO a; COMMIT');
$same->('rolled back to a savepoint');
is($session->query_safe('BEGIN; SELECT vault_tde.rotate_key(); SELECT vault_tde.rewrap_keys(); SELECT vault_tde.rewrap_keys(); ROLLBACK; SELECT count(x) FROM t'), "3\n3\n3\n201", 'a data key of the same transaction, twice');
is($node->safe_psql('encrypted', 'SELECT vault_tde.rewrap_keys()'), 2, 'both are wrapped anew');
is($node->safe_psql('encrypted', 'SELECT generation, key_id, created_at FROM vault_tde.data_keys ORDER BY 1'), $before, '... and otherwise what they were');
isnt($node->safe_psql('encrypted', 'SELECT wrapped FROM vault_tde.data_keys ORDER BY generation'), $wrapped, '... and differ');
is(outdated(), 'none', 'status() has nothing to tell any more');
write_key($key_file, $new_key);
$node->restart;
is($node->safe_psql('encrypted', 'SELECT count(x) FROM t'), 201, 'the old key is not needed any more');
$session->quit;

# who may
$node->safe_psql('encrypted', 'CREATE ROLE somebody; CREATE ROLE keeper; GRANT EXECUTE ON FUNCTION vault_tde.rewrap_keys() TO keeper');
fails_like('an ordinary user', 'encrypted', 'SET ROLE somebody; SELECT vault_tde.rewrap_keys()', qr/42501: permission denied for function rewrap_keys/);
is($node->safe_psql('encrypted', 'SET ROLE keeper; SELECT vault_tde.rewrap_keys()'), 2, 'whom it is granted to');
fails_like('a read-only transaction', 'encrypted', 'BEGIN READ ONLY; SELECT vault_tde.rewrap_keys()', qr/25006: cannot execute vault_tde.rewrap_keys\(\) in a read-only transaction/);

# whom it concerns: not the decoders
for my $plugin (qw(pg_vault_tde test_decoding))
{
	my $options = "'include-xids', '0', 'skip-empty-xacts', '1'";
	$node->safe_psql('encrypted', "SELECT pg_create_logical_replication_slot('of_keys', '$plugin'); SELECT vault_tde.rewrap_keys(); SELECT vault_tde.rotate_key()");
	my $seen = $node->safe_psql('encrypted', "SELECT data FROM pg_logical_slot_get_changes('of_keys', NULL, NULL, $options)");
	is($seen, '', 'decoded by us there is nothing of a rewrapping') if $plugin eq 'pg_vault_tde';
	is(join(' ', sort map { /^(?:BEGIN|COMMIT)$/ ? () : $_ } split /\n/, $seen), join(' ', ('table vault_tde.data_keys: DELETE: (no-tuple-data)') x 3),
		'decoded by another plugin it is only seen to have been') if $plugin eq 'test_decoding';
	$node->safe_psql('encrypted', "SELECT pg_drop_replication_slot('of_keys')");
}
$node->safe_psql('heap', 'SELECT vault_tde.rotate_key(); SELECT vault_tde.rotate_key()');

# --- lost, but still in memory --------------------------------------------------------------------------------------------

both($node, q{UPDATE t SET x = x WHERE id IN (1, 150); SELECT count(x) FROM t});
$node->safe_psql('encrypted', q{SELECT count(*) FROM vault_tde.status()});    # which has all data keys unwrapped
$new_key = write_key($key_file);    # and the key that wraps them is gone for good
is($node->safe_psql('encrypted', 'SELECT vault_tde.rewrap_keys()'), 4, 'a lost key file: a server that has the data keys can wrap them by a new one');
$node->restart;
is($node->safe_psql('encrypted', 'SELECT count(x) FROM t'), 201, '... and after a restart all can be read');

# --- standby, backups -----------------------------------------------------------------------------------------------------

$node->backup('full');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'full', has_streaming => 1);
$standby->start;
my $there = $standby->background_psql('encrypted');
is($there->query_safe('SELECT count(x) FROM t'), 201, 'a standby');
# an incremental backup while a rotation and a rewrapping are in progress
my $writing = $node->background_psql('encrypted');
$writing->query_safe(q{BEGIN; SELECT vault_tde.rotate_key(); INSERT INTO t VALUES (3000, 'in progress'); SELECT vault_tde.rewrap_keys()});
$node->safe_psql('encrypted', "INSERT INTO t VALUES (3001, 'beside it')");
my $backup = $node->backup_dir;
$node->command_ok([ 'pg_basebackup', '--no-sync', '-c', 'fast', '-D', "$backup/incremental", '-h', $node->host, '-p', $node->port,
	"--incremental=$backup/full/backup_manifest" ], 'an incremental backup while both are in progress');
$writing->query_safe('COMMIT');
$writing->quit;
$node->safe_psql('heap', "INSERT INTO t VALUES (3001, 'beside it'); INSERT INTO t VALUES (3000, 'in progress')");
$node->wait_for_replay_catchup($standby);
is($there->query_safe(q{SELECT string_agg(x, ', ') FROM t WHERE id >= 3000}), 'in progress, beside it', 'a session of the standby sees what comes under the new key');
is($there->query_safe('SELECT count(*) FROM vault_tde.keys'), 5, '... without being told');
$there->quit;

$node->command_ok([ 'pg_combinebackup', "$backup/full", "$backup/incremental", '-o', "$backup/combined" ], 'pg_combinebackup');
my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init_from_backup($node, 'combined');
$restored->start;
is($restored->safe_psql('encrypted', 'SELECT count(x), max(id), max(generation) FROM t, vault_tde.keys WHERE is_current'), '202|3001|4',
	'restored: as of the backup, without what had not committed');
is($restored->safe_psql('encrypted', 'SELECT vault_tde.rotate_key(); SELECT vault_tde.rewrap_keys(); INSERT INTO t VALUES (3002); SELECT count(*) FROM t'), "5\n5\n203", '... and goes its own way');
$restored->stop;

# a database made from it has its keys, and from then on its own
$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE encrypted');
is($node->safe_psql('copy', q{SELECT count(x) FROM t; SELECT vault_tde.rotate_key(); UPDATE t SET x = 'copied' WHERE id <= 10; SELECT vault_tde.rewrap_keys(); SELECT count(*) FROM t WHERE x = 'copied'}),
	"203\n6\n6\n10", 'a copy of the database reads, writes, rotates and rewraps');
is($node->safe_psql('encrypted', 'SELECT max(generation) FROM vault_tde.keys'), 5, '... and the original knows nothing of it');
$node->wait_for_replay_catchup($standby);
$node->restart;
is($node->safe_psql('copy', q{SELECT count(*), count(*) FILTER (WHERE x = 'copied') FROM t}), '203|10', '... after a restart, too');
is_same_content($node, 'and the original is what it was');

# --- from files to a key server and back ----------------------------------------------------------------------------------

SKIP:
{
	skip 'no OpenBao', 1 if !OpenBao::program();
	my $bao = OpenBao->new;
	$bao->start;
	$node->append_conf('postgresql.conf', join "\n", $bao->settings('approle'), '');
	$node->reload;
	$node->poll_query_until('encrypted', q{SELECT current_setting('pg_vault_tde.key_provider') = 'vault'});
	is(outdated(), '5 to be wrapped anew by vault_tde.rewrap_keys()', 'status(): the data keys are under another provider');
	is($bao->calls_during(sub { is($node->safe_psql('encrypted', 'SELECT vault_tde.rewrap_keys()'), 5, 'moved to the key server') }),
		'decrypt 5, encrypt 5, login 1', '... which encrypts each, and decrypts it for certainty');
	is($node->safe_psql('encrypted', 'SELECT DISTINCT provider, kek_version FROM vault_tde.data_keys'), 'vault|1', '... says the key table');
	$node->safe_psql('encrypted', 'SELECT vault_tde.rotate_key()');
	rename $key_file, "$key_file.away";
	$node->restart;
	is_same_content($node, 'with the key server, without the key file');
	is($bao->calls_during(sub { $node->safe_psql('encrypted', 'SELECT vault_tde.rewrap_keys()') }), 'login 1, rewrap 6', 'within the key server no data key leaves it');

	# another Transit key, at another mount
	$bao->api('POST', 'sys/mounts/other', { type => 'transit' });
	$bao->api('POST', 'other/keys/second', {});
	$bao->api('PUT', 'sys/policies/acl/pg', { policy => join "\n", map { qq(path "$_" { capabilities = ["update", "create", "read"] }) } 'transit/*', 'other/*', 'elsewhere/*' });
	$node->append_conf('postgresql.conf', "pg_vault_tde.vault_transit_mount = 'other'\npg_vault_tde.vault_key_name = 'secnod'");
	$node->restart;
	fails_like('a key that does not exist is not made by mistake', 'encrypted', 'SELECT vault_tde.rewrap_keys()', qr/58000: could not wrap the data key of generation \d .* by key "other\/keys\/secnod"/, qr/DETAIL:  It answered with status 404/, qr/HINT:  Check that key "other\/keys\/secnod" exists/);
	is($bao->call('GET', 'other/keys/secnod')->{status}, 404, '... really not');
	$node->append_conf('postgresql.conf', "pg_vault_tde.vault_key_name = 'second'");
	$node->reload;
	$node->poll_query_until('encrypted', q{SELECT current_setting('pg_vault_tde.vault_key_name') = 'second'});
	is($node->safe_psql('encrypted', 'SELECT vault_tde.rewrap_keys()'), 6, 'moved to another key at another mount');
	$bao->api('POST', 'transit/keys/pg/config', { deletion_allowed => JSON::PP::true() });
	$bao->api('DELETE', 'transit/keys/pg');
	# and the whole engine to a third mount
	$bao->api('POST', 'sys/remount', { from => 'other', to => 'elsewhere/transit' });
	$node->append_conf('postgresql.conf', "pg_vault_tde.vault_transit_mount = 'elsewhere/transit'");
	$node->restart;
	wait_until('the mount to have moved', sub { $bao->call('GET', 'elsewhere/transit/keys/second')->{success} });
	is_same_content($node, 'after the engine has moved to another mount');
	is($node->safe_psql('encrypted', 'SELECT vault_tde.rewrap_keys()'), 6, '... which the wrappings name from now on');

	# into a namespace, with a token from a file
	$bao->api('POST', 'sys/namespaces/team', {});
	$bao->api('POST', 'team/sys/mounts/transit', { type => 'transit' });
	$bao->api('POST', 'team/transit/keys/pg', {});
	$bao->api('PUT', 'sys/policies/acl/pg', { policy => join "\n", map { qq(path "$_" { capabilities = ["update", "read"] }) } 'team/transit/*', 'elsewhere/*' });
	$node->append_conf('postgresql.conf', join "\n", $bao->settings('token'), "pg_vault_tde.vault_role_id = ''", "pg_vault_tde.vault_secret_id_file = ''",
		"pg_vault_tde.vault_transit_mount = 'transit'", "pg_vault_tde.vault_namespace = 'team'", '');
	$node->restart;
	is($node->safe_psql('encrypted', 'SELECT vault_tde.rewrap_keys()'), 6, 'moved into a namespace');
	$bao->api('PUT', 'sys/policies/acl/pg', { policy => 'path "team/transit/*" { capabilities = ["update", "read"] }' });
	$node->restart;
	is_same_content($node, 'in a namespace');
	is($node->safe_psql('encrypted', q{SELECT string_agg(item || ': ' || value, ', ') FROM vault_tde.status() WHERE NOT ok}), '', 'status() finds nothing wrong with that');

	rename "$key_file.away", $key_file;
	$node->append_conf('postgresql.conf', "pg_vault_tde.key_provider = 'file'");
	$node->restart;
	is($node->safe_psql('encrypted', 'SELECT vault_tde.rewrap_keys()'), 6, 'moved back to the key file');
	$bao->stop;
	$node->restart;
	is_same_content($node, 'with the key file, without the key server');
	is($node->safe_psql('encrypted', q{SELECT count(*) FROM vault_tde.status() WHERE item LIKE '%key%' AND NOT ok}), 0, 'status() finds nothing wrong');
	is_same_stream($node, 'all through that');

	# the standby has it all
	$standby->append_conf('postgresql.conf', "pg_vault_tde.key_provider = 'file'");
	$node->wait_for_replay_catchup($standby);
}

# --- promotion ------------------------------------------------------------------------------------------------------------

my $current = $node->safe_psql('encrypted', 'SELECT max(generation) FROM vault_tde.keys');
$node->stop;
$standby->promote;
$standby->restart;    # cold
is($standby->safe_psql('encrypted', 'SELECT count(x) FROM t'), 203, 'promoted, and restarted: it reads all');
$standby->safe_psql('encrypted', q{CREATE TABLE after (id int) USING encrypted_heap; INSERT INTO after VALUES (1); SELECT vault_tde.rewrap_keys(); INSERT INTO after VALUES (2); SELECT vault_tde.rotate_key(); INSERT INTO after VALUES (3); CHECKPOINT});
is_deeply([ map { $_->{generation} } stored_rows($standby, 'after', 'encrypted') ], [ $current, $current, $current + 1 ], '... and writes under the current generation, and the next');
$standby->stop;
done_testing();
