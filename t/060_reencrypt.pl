# Re-encryption beside readers and writers, decoders and a standby; pages in use; what verify() finds in damaged files.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

my $node = new_node('reencrypt', [ without_checksums() ], 'autovacuum = on', 'autovacuum_naptime = 1', 'wal_level = logical', 'shared_buffers = 2MB', without_sync());
$node->start;
make_twins($node);
both($node, q{
	CREATE TABLE t (id int PRIMARY KEY, n int, x text, big text);
	ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
	CREATE INDEX ON t (n);
	INSERT INTO t SELECT i, i, 'row ' || i, CASE WHEN i % 20 = 0 THEN repeat(md5(i::text), 150) END FROM generate_series(1, 5000) i});
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
# queries of the standby are waited for, not cancelled
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\nmax_standby_archive_delay = -1");
$standby->start;

# the settings of a server that may lose the last transactions in a crash of the machine, not of the server
sub without_sync { return 'synchronous_commit = off' }

sub content { return shift->safe_psql('encrypted', q{SELECT count(*), sum(hashtext(t::text)::bigint) FROM t}) }
sub generations
{
	return $node->safe_psql('encrypted', q{
		SELECT string_agg(DISTINCT generation::text, ' ' ORDER BY generation::text) FROM vault_tde.generations_in_use()
		WHERE relation IN ('t'::regclass, (SELECT reltoastrelid FROM pg_class WHERE oid = 't'::regclass))});
}

# --- beside writers and readers; each rotation is followed by a re-encryption --------------------------------------------------

# Transfers between rows keep the sum of n; a reader that sees another sum, or an error, has seen a torn row.
my $transfer = $node->basedir . '/transfer.sql';
append_to_file($transfer, q{
\set a random(1, 5000)
\set b random(1, 5000)
\set v random(1, 100)
BEGIN;
UPDATE t SET n = n + :v, x = 'row ' || :a WHERE id = least(:a, :b);
UPDATE t SET n = n - :v, big = CASE WHEN :v < 10 THEN repeat(md5(:v::text), 150) ELSE big END WHERE id = greatest(:a, :b);
COMMIT;
});
my $check = $node->basedir . '/check.sql';
append_to_file($check, q{
SELECT 1 / (CASE WHEN sum(n) = 5000 * 5001 / 2 AND count(*) = 5000 THEN 1 ELSE 0 END) FROM t;
SELECT count(*), sum(length(big)) FROM t WHERE id % 7 = 0;
});
my $seconds = 8;
my @load;
for ([ $node, $transfer, 2 ], [ $node, $check, 1 ], [ $standby, $check, 1 ])
{
	my ($server, $script, $clients) = @$_;
	my $out = '';
	push @load, [ IPC::Run::start([ 'pgbench', '-n', '-f', $script, '-c', $clients, '-T', $seconds, '-d', $server->connstr('encrypted') ],
			'>', \$out, '2>&1'), \$out ];
}
my ($rounds, $retired) = (0, 0);
my $end = time + $seconds;
while (time < $end && $rounds < 80)    # more of them than once could be remembered to wait for a slot
{
	my $generation = $node->safe_psql('encrypted', 'SELECT vault_tde.rotate_key()');
	my ($rc, $out, $err) = $node->psql('encrypted', "CALL vault_tde.reencrypt('t', 300)");
	is($rc, 0, "re-encryption to generation $generation beside readers and writers") or diag $err;
	# slots are behind, so the old key is kept; but nothing else needs it
	($rc, $out, $err) = $node->psql('encrypted', 'SELECT vault_tde.retire_key(' . ($generation - 1) . ')');
	$retired++ if $err =~ /may be needed by logical replication slots: encrypted/;
	$rounds++;
}
for (@load)
{
	my ($run, $out) = @$_;
	ok($run->finish, 'pgbench saw no error') or diag $$out;
}
is($retired, $rounds, "after each of $rounds rotations nothing but the slot needed the older key");
is(generations(), $rounds + 1, 'all is of the newest generation');
is($node->safe_psql('encrypted', q{SELECT sum(n) FROM t}), 5000 * 5001 / 2, 'the sum is what it was');
is($node->safe_psql('encrypted', q{SELECT count(*) FROM vault_tde.verify('t')}), 0, 'verify() finds nothing');
is($node->safe_psql('encrypted', q{
		SET enable_seqscan = off; SELECT count(*) FROM generate_series(1, 5000) i, LATERAL (SELECT FROM t WHERE id = i) t}),
	5000, 'each row is found by its key');
$node->wait_for_replay_catchup($standby);
is(content($standby), content($node), 'the standby has the same rows');
is($standby->safe_psql('encrypted', q{SELECT count(*) FROM vault_tde.verify('t')}), 0, 'verify() works on a standby, and finds nothing');
my ($rc, $out, $err) = $standby->psql('encrypted', q{CALL vault_tde.reencrypt('t')});
like($err, qr/cannot execute vault_tde.reencrypt\(\) during recovery/, 'reencrypt() is refused on a standby');
($rc, $out, $err) = $standby->psql('encrypted', q{SELECT vault_tde.retire_key(1)});
like($err, qr/cannot execute vault_tde.retire_key\(\) during recovery/, '... and so is retire_key()');

# The decoder sees the transfers, of all generations, and nothing of the re-encryptions.
my %n = map { $_ => $_ } 1 .. 5000;
my $changes = $node->safe_psql('encrypted', q{SELECT data FROM pg_logical_slot_get_changes('encrypted', NULL, NULL) WHERE data LIKE 'table public.t: UPDATE%'});
$n{$1} = $2 while $changes =~ /id\[integer\]:(\d+) n\[integer\]:(-?\d+)/g;
is(join("\n", map { "$_|$n{$_}" } 1 .. 5000), $node->safe_psql('encrypted', 'SELECT id, n FROM t ORDER BY id'), 'the decoded changes lead to the same content');
$node->safe_psql('encrypted', q{UPDATE t SET x = 'after' WHERE id = 1});
my $count = wait_until('the slot to get past the older keys', sub {
	$node->safe_psql('encrypted', q{SELECT pg_log_standby_snapshot(); SELECT count(*) FROM pg_logical_slot_get_changes('encrypted', NULL, NULL)});
	($rc, $out, $err) = $node->psql('encrypted', q{SELECT count(vault_tde.retire_key(generation)) FROM vault_tde.keys WHERE NOT is_current});
	return $rc == 0 && $out;
});
is($count, $rounds, 'when the slot is past them, all older keys can go');
is($node->safe_psql('encrypted', q{SELECT count(*) FROM vault_tde.verify('t')}), 0, '... and all rows are still there');
$node->wait_for_replay_catchup($standby);
is(content($standby), content($node), '... on the standby, too');

# --- pages in use ------------------------------------------------------------------------------------------------------------

# A cursor that has stopped on a page keeps it; and whoever waits for a row lock does.
my $reader = $node->background_psql('encrypted');
$reader->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; FETCH 1 FROM c');
$node->safe_psql('encrypted', 'SELECT vault_tde.rotate_key()');
my $call = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('encrypted'), '-c', q{CALL vault_tde.reencrypt('t')} ], '>', \$out, '2>', \$err);
ok($node->poll_query_until('encrypted', q{SELECT phase = 'waiting for pages in use' AND blocks_done = blocks_total FROM vault_tde.stat_progress_reencrypt}),
	'a page that a cursor stands on is left for the end');
is($node->safe_psql('encrypted', q{SELECT string_agg(generation::text, ' ' ORDER BY generation) FROM vault_tde.generations_in_use() WHERE relation = 't'::regclass}),
	($rounds + 1) . ' ' . ($rounds + 2), 'all others are done');
$node->safe_psql('encrypted', q{UPDATE t SET x = 'not blocked' WHERE id = 4000; ALTER TABLE t SET (fillfactor = 90)});
is($reader->query_safe('MOVE ALL FROM c; SELECT count(*) FROM t; COMMIT'), 5000, 'the cursor goes on');
ok($call->finish, 'then the page is done, too') or diag $err;
is(generations(), $rounds + 2, 'all is of the newest generation');
is($node->safe_psql('encrypted', 'SELECT count(*) FROM vault_tde.stat_progress_reencrypt'), 0, 'nothing is shown any more');

# who has begun before the rotation is waited for, as it may not know of it
my $writer = $node->background_psql('encrypted');
$writer->query_safe(q{BEGIN; UPDATE t SET x = 'before the rotation' WHERE id = 2});
$node->safe_psql('encrypted', 'SELECT vault_tde.rotate_key()');
$call = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('encrypted'), '-c', q{CALL vault_tde.reencrypt('t')} ], '>', \$out, '2>', \$err);
ok($node->poll_query_until('encrypted', q{SELECT phase = 'waiting for writers' FROM vault_tde.stat_progress_reencrypt}), 'writers are waited for');
is($node->safe_psql('encrypted', q{SELECT count(pg_cancel_backend(pid)) FROM vault_tde.stat_progress_reencrypt}), 1, 'the call is cancelled');
$call->finish;
like($err, qr/canceling statement/, '... and says so');
is($node->safe_psql('encrypted', 'SELECT count(*) FROM vault_tde.stat_progress_reencrypt'), 0, '... and is not shown any more');
($rc, $out, $err) = $node->psql('encrypted', "SET lock_timeout = '100ms'; SELECT vault_tde.retire_key(" . ($rounds + 2) . ')');
like($err, qr/lock timeout/, 'so does retire_key() wait for transactions, within lock_timeout');
$writer->query_safe('COMMIT');
$writer->quit;

# temporary tables of other sessions cannot be looked at
$reader->query_safe('CREATE TEMPORARY TABLE temporary USING encrypted_heap AS SELECT 1 AS x');
$node->safe_psql('encrypted', q{CALL vault_tde.reencrypt('t')});
($rc, $out, $err) = $node->psql('encrypted', 'SELECT vault_tde.retire_key(' . ($rounds + 2) . ')');
like($err, qr/key generation \d+ may be needed by temporary table "temporary" of another session/, 'a temporary table of another session may need the key');
my $temporary = $node->safe_psql('encrypted', q{SELECT oid::regclass FROM pg_class WHERE relname = 'temporary'});
for ("CALL vault_tde.reencrypt('$temporary')", "SELECT vault_tde.verify('$temporary')")
{
	($rc, $out, $err) = $node->psql('encrypted', $_);
	like($err, qr/cannot access temporary tables of other sessions/, "$_ is refused");
}
$reader->quit;

# --- damage ------------------------------------------------------------------------------------------------------------------

$node->safe_psql('encrypted', q{
	CREATE TABLE damaged (id int, big text);
	ALTER TABLE damaged ALTER big SET STORAGE EXTERNAL;
	INSERT INTO damaged SELECT i, CASE WHEN i > 5 THEN repeat(md5(i::text), 150) END FROM generate_series(1, 10) i;
	CHECKPOINT});
$node->safe_psql('encrypted', 'CHECKPOINT');
my $toast = $node->safe_psql('encrypted', q{SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 'damaged'::regclass});
my @rows = stored_rows($node, 'damaged', 'encrypted');
my @chunks = stored_rows($node, $toast, 'encrypted');
my $last_id = $node->safe_psql('encrypted', 'SELECT pg_column_toast_chunk_id(big) FROM damaged WHERE id = 8');
$node->stop;
sub flip
{
	my ($row, $at, $bits) = @_;
	open my $file, '+<:raw', $row->{path} or die $!;
	seek $file, $row->{position} + $at, 0;
	read $file, my $byte, 1;
	seek $file, $row->{position} + $at, 0;
	print $file chr(ord($byte) ^ $bits);
	close $file;
}
flip($rows[0], 30, 1);        # the IV of row 1
flip($rows[1], $rows[1]{length} - 1, 0x80);    # the tag of row 2
flip($rows[2], 23, 0x80);     # the generation of row 3
flip($rows[3], 22, 0x10);     # what says how long the header of row 4 is
my ($chunk) = grep { unpack('L', $_->{payload}) == $last_id } @chunks;
flip($chunk, 100, 4);         # the first chunk of row 8
$node->start;
is($node->safe_psql('encrypted', q{SELECT * FROM vault_tde.verify('damaged')}), join("\n",
		'(0,1)|does not authenticate: its bytes were changed, or it was encrypted with another key',
		'(0,2)|does not authenticate: its bytes were changed, or it was encrypted with another key',
		sprintf('(0,3)|encrypted with a key that this database does not have (its generation ends in %d modulo 256)', $rows[2]{generation} ^ 0x80),
		'(0,4)|the tuple does not have an encrypted form',
		"(0,8)|column \"big\": chunk 0 of TOAST value $last_id does not authenticate"),
	'verify() names what is damaged, and goes on');
is($node->safe_psql('encrypted', q{SELECT kind, auth_failures FROM vault_tde.stat_relations WHERE tablerelid = 'damaged'::regclass ORDER BY kind}), "table|4\ntoast|1",
	'... which is counted, each where it is');
$node->safe_psql('encrypted', 'SELECT vault_tde.rotate_key()');
($rc, $out, $err) = $node->psql('encrypted', q{CALL vault_tde.reencrypt('damaged')});
like($err, qr/ERROR:  could not decrypt tuple \(0,1\) of relation "damaged"\nHINT:  Run vault_tde.verify\(\)/, 'a damaged row stops re-encryption');
is($node->safe_psql('encrypted', q{SELECT count(*) FROM vault_tde.verify('t')}), 0, 'other tables are well');

$standby->stop;
$node->stop;
done_testing();
