# Rotation under load, with a key server: readers, writers, and a decoder with a backlog, while data keys and the key server's
# key are rotated and data keys rewrapped. Versions of the key that are too old. Kill -9 during rotations and rewrappings.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use OpenBao;
use Vault;

need_openbao();
my $bao = OpenBao->new(dev => 1);
$bao->start;
my $node = new_node('rotation', $bao->settings('token'), 'checkpoint_timeout = 1h', 'logical_decoding_work_mem = 64kB');
$node->start;
make_twins($node);
both($node, q{
	CREATE TABLE t (id int PRIMARY KEY, x text, n int DEFAULT 0);
	CREATE INDEX ON t (n);
	INSERT INTO t SELECT i, 'before ' || i FROM generate_series(1, 2000) i;
	UPDATE t SET x = repeat('out of line ', 1000) || id WHERE id % 200 = 0});

# --- under load -----------------------------------------------------------------------------------------------------------

# Each writer has rows of its own, so the twins end alike, however the writers take turns.
my @load;
for my $db (qw(encrypted heap))
{
	for my $writer (1 .. 3)
	{
		my $file = $node->basedir . "/writer_$writer";
		open my $script, '>', $file or die $!;
		for my $i (1 .. 150)
		{
			my $id = $writer * 100_000 + $i;
			print $script "INSERT INTO t VALUES ($id, 'writer $writer row $i');\n",
				"UPDATE t SET x = x || ' updated', n = $i WHERE id = $id - 3;\n";
			print $script "BEGIN; SAVEPOINT s; INSERT INTO t VALUES ($id + 50000, repeat('large $i ', 2000)); ROLLBACK TO s; DELETE FROM t WHERE id = $id - 7; COMMIT;\n"
				if $i % 10 == 0;
		}
		close $script;
		push @load, IPC::Run::start([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($db), '-f', $file ], '>&', \my $out);
	}
}
for (1 .. 2)
{
	push @load, IPC::Run::start([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('encrypted') ],
		'<', \("SELECT count(*), sum(length(x)) FROM t;\nSELECT count(*) FROM t WHERE x LIKE 'writer%' AND n > 5;\n" x 60), '>&', \my $out);
}

# The decoder begins with a backlog of the first generation, and is ended in the middle.
my $received = $node->basedir . '/received';
my $receive = sub {
	return IPC::Run::start([ 'pg_recvlogical', '-d', $node->connstr('encrypted'), '-S', 'encrypted', '--start', '-f', $received, '--no-loop',
		'-o', 'include-xids=0', '-o', 'skip-empty-xacts=1', @_ ], '2>', \my $err);
};
my $receiver = $receive->();
for my $round (1 .. 6)
{
	$node->safe_psql('encrypted', 'SELECT vault_tde.rotate_key()');
	$bao->api('POST', 'transit/keys/pg/rotate', {});
	is($node->safe_psql('encrypted', 'SELECT vault_tde.rewrap_keys()'), $round + 1, "round $round: all data keys are wrapped anew");
	is($node->safe_psql('encrypted', 'SELECT min(kek_version), max(kek_version) FROM vault_tde.data_keys'), ($round + 1) . '|' . ($round + 1),
		'... under the newest version');
	if ($round == 3)
	{
		$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'walsender'});
		$receiver->finish;
		$receiver = $receive->();
	}
}
for my $load (@load)
{
	ok($load->finish, 'a reader or writer met with no error');
}
both($node, 'UPDATE t SET n = -1 WHERE id <= 10');    # the last
is_same_content($node, 'after rotations under load');
is($node->safe_psql('encrypted', 'SELECT count(*), max(generation) FROM vault_tde.keys'), '7|7', 'all generations are there');

my $end = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
wait_until('the decoder', sub { $node->safe_psql('postgres', "SELECT confirmed_flush_lsn >= '$end' FROM pg_replication_slots WHERE slot_name = 'encrypted'") eq 't' });
$receiver->kill_kill;
# (sorted, as transactions of different writers come in any order; once each, as some are sent again after the interruption)
my %lines = map { $_ => 1 } grep { /^table/ } split /\n/, slurp_file($received);
is_same(join("\n", sort keys %lines), join("\n", do { my %h = map { $_ => 1 } grep { /^table/ } split /\n/, stream($node, 'heap'); sort keys %h }),
	'what the decoder sent, through rotations and an interruption, is what the twin has');

# --- versions of the key --------------------------------------------------------------------------------------------------

# an old version is not to be used any more, but data keys are still wrapped by it
$node->safe_psql('encrypted', 'SELECT vault_tde.rotate_key()');
$bao->api('POST', 'transit/keys/pg/rotate', {});
$bao->api('POST', 'transit/keys/pg/config', { min_decryption_version => 8 });
is($node->safe_psql('encrypted', q{SELECT value FROM vault_tde.status() WHERE item = 'data keys under an older key'}), '8 to be wrapped anew by vault_tde.rewrap_keys()', 'status() tells of old wrappings');
$node->restart;
my ($status, $out, $err) = $node->psql('encrypted', "\\set VERBOSITY verbose\nSELECT count(x) FROM t");
like($err, qr/ERROR:  55000: could not unwrap the data key of generation 1 .*, since version 7 of key "transit\/keys\/pg" .* is older than its "min_decryption_version"/, 'a version that is too old is named');
like($err, qr/HINT:  Lower the key's "min_decryption_version" to that version, run SELECT vault_tde.rewrap_keys/, '... and what to do');
($status, $out, $err) = $node->psql('encrypted', 'SELECT vault_tde.rewrap_keys()');
like($err, qr/could not rewrap the data key of generation \d.*version 7 .*min_decryption_version/s, 'rewrapping needs it, too');
$bao->api('POST', 'transit/keys/pg/config', { min_decryption_version => 7 });
is($node->safe_psql('encrypted', 'SELECT vault_tde.rewrap_keys()'), 8, 'with the old version allowed all are rewrapped');
$bao->api('POST', 'transit/keys/pg/config', { min_decryption_version => 8 });
$node->restart;
is($node->safe_psql('encrypted', 'SELECT count(x) > 2000 FROM t'), 't', '... after which it is not needed any more');
is($node->safe_psql('encrypted', q{SELECT count(*) FROM vault_tde.status() WHERE item = 'data keys under an older key'}), 0, '... says status()');
is_same_content($node, 'under the newest version');

# A session that knows a data key by an old wrapping only, and has not used it yet, does not need that.
$node->append_conf('postgresql.conf', 'pg_vault_tde.key_cache_size = 1');    # so that it cannot have it from shared memory
$node->safe_psql('encrypted', 'CREATE TABLE newest (id int) USING encrypted_heap; INSERT INTO newest VALUES (1)');
$node->restart;
my $old = $node->background_psql('encrypted');
is($old->query_safe('SELECT count(*) FROM newest'), 1, 'a session with one data key of many');
$bao->api('POST', 'transit/keys/pg/rotate', {});
$node->safe_psql('encrypted', 'SELECT vault_tde.rewrap_keys()');
$bao->api('POST', 'transit/keys/pg/config', { min_decryption_version => 9 });
like($old->query_safe('SELECT count(x) FROM t'), qr/^\d+$/, '... reads rows under the others by their new wrappings');
$old->quit;
$node->safe_psql('encrypted', 'DROP TABLE newest');
$node->append_conf('postgresql.conf', 'pg_vault_tde.key_cache_size = 256');

# --- kill -9 --------------------------------------------------------------------------------------------------------------

# Before each statement and during them, as the moment is later from round to round: while the key server is asked, while the
# table is written, before and after the commit.
my $generations = 8;
for my $round (0 .. 13)
{
	my $session = $node->background_psql('encrypted', on_error_stop => 0);
	$session->{stdin} .= join "\n", map { ('SELECT vault_tde.rotate_key();', "INSERT INTO t VALUES (900000 + $round * 10 + $_, 'under a new key') ON CONFLICT DO NOTHING;", 'SELECT vault_tde.rewrap_keys();') } 1 .. 3;
	$session->{stdin} .= "\n";
	$session->{run}->pump_nb for 1 .. 3;
	select undef, undef, undef, 0.015 * $round;
	kill_server($node);
	eval { $session->quit };
	$node->start;
	my $content = $node->safe_psql('encrypted', q{SELECT (SELECT count(x) FROM t WHERE id < 900000) || '|' || (SELECT count(*) = 0 FROM t WHERE id >= 900000 AND x <> 'under a new key')});
	my $expected = $node->safe_psql('heap', q{SELECT count(x) || '|true' FROM t});
	is($content, $expected, "killed, round $round: all rows can be read");
	like($node->safe_psql('encrypted', q{SELECT value FROM vault_tde.status() WHERE item = 'data keys'}), qr/^\d+$/, '... and all data keys unwrapped');
	my $now = $node->safe_psql('encrypted', 'SELECT max(generation) FROM vault_tde.keys HAVING count(*) = max(generation)');
	ok($now >= $generations, "... $now data keys, none lost");
	$generations = $now;
	$node->safe_psql('encrypted', "INSERT INTO t VALUES (800000 + $round, 'after'); SELECT vault_tde.rewrap_keys()");
	$node->safe_psql('heap', "INSERT INTO t VALUES (800000 + $round, 'after')");
}
$node->safe_psql('encrypted', 'DELETE FROM t WHERE id >= 900000');
$node->restart;
is_same_content($node, 'in the end');
$node->stop;
$bao->stop;
done_testing();
