# Out-of-line values on disk: nothing of them in the clear in the data directory, in WAL or in a decoder's spill files,
# compressed or not. The same search for the heap twin's values must find those.
# (The statistics that ANALYZE makes are plaintext, so there is none here: autovacuum is off.)

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

my $node = new_node('toast_disk', 'logical_decoding_work_mem = 64kB', 'wal_compression = off',
	'default_toast_compression = pglz');    # in 19 it is lz4, which makes something of what is not compressible here
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_vault_tde;
	-- n bytes, every other one of a mark that begins like the given one: short enough to be in one piece in what pglz makes of
	-- it, and with enough variations for some to be
	CREATE FUNCTION marks(mark text, n int, seed int, repeated bool) RETURNS text LANGUAGE sql AS $$
		SELECT left(string_agg(mark || CASE WHEN repeated THEN repeat('_', 40) ELSE md5(i::text || seed) END, ''), n) FROM generate_series(1, n / 36 + 1) i
	$$});

# Of a table of each kind of storage. What is found under the mark of a heap table shows that the search works for that kind.
my %kinds = (
	external => [ 'STORAGE EXTERNAL', 'false' ],
	extended => [ 'STORAGE EXTENDED', 'false' ],    # and not compressible
	pglz => [ 'COMPRESSION pglz', 'true' ],
	lz4 => [ 'COMPRESSION lz4', 'true' ],
	main => [ 'STORAGE MAIN', 'false' ],);

# A mark has 7 bytes. Not more, since pglz puts a byte of its own before every 8 items; and not fewer, since core itself
# writes pieces of 4 bytes of whatever was in a backend's memory: the padding of invalidation messages, in WAL.
sub mark
{
	my ($side, $what) = @_;
	return ($side eq 'heap' ? 'p' : 's') . '~@|' . $what;
}

# All marks of encrypted values that are found in a directory.
sub found_in
{
	my ($directory) = @_;
	return map { files_with(mark('encrypted', $_), $directory) } (map { substr($_, 0, 3) } sort keys %kinds), 'upd', 'cpy', 'abt', 'spl';
}

# Large enough to be out of line when compressed.
sub size_of
{
	my ($kind) = @_;
	return $kind eq 'lz4' ? 900_000 : $kind eq 'pglz' ? 400_000 : 9_000;
}

sub fill
{
	my ($side, $method) = @_;
	my $sql = "CREATE SCHEMA $side; SET search_path = $side, public; SET default_table_access_method = $method;";
	for my $kind (sort keys %kinds)
	{
		my ($storage, $repeated) = @{ $kinds{$kind} };
		my $marks = sub { "marks('" . mark($side, $_[0]) . "', $_[1], $_[2], $repeated)" };
		my $n = size_of($kind);
		my $insert = $marks->(substr($kind, 0, 3), $n, 'i');
		my ($update, $copy, $abort) = map { $marks->($_, $n, 'i') } 'upd', 'cpy', 'abt';
		$sql .= qq{
			CREATE TABLE $kind (id int PRIMARY KEY, a text $storage);
			ALTER TABLE $kind REPLICA IDENTITY FULL;
			INSERT INTO $kind SELECT i, $insert FROM generate_series(1, 5) i;
			UPDATE $kind SET a = u.a FROM (SELECT i, $update AS a FROM generate_series(2, 3) i) u WHERE id = i;
			DELETE FROM $kind WHERE id IN (3, 4);
			BEGIN;
			INSERT INTO $kind SELECT i, $abort FROM generate_series(20, 21) i;
			ROLLBACK;
			CREATE TABLE ${kind}_as AS SELECT i AS id, $copy AS a FROM generate_series(30, 31) i;
			COPY ${kind}_as TO '} . $node->basedir . qq{/copy';
			COPY $kind FROM '} . $node->basedir . qq{/copy';
			VACUUM FULL ${kind}_as;
			CHECKPOINT;
			UPDATE $kind SET a = a || 'x' WHERE id = 1; -- with full pages in WAL
		};
	}
	$node->safe_psql('postgres', $sql);
}
fill('encrypted', 'encrypted_heap');
fill('heap', 'heap');
$node->safe_psql('postgres', 'CHECKPOINT');

for my $kind (sort keys %kinds)
{
	my ($out_of_line) = $node->safe_psql('postgres', "SELECT count(*) - count(pg_column_toast_chunk_id(a)) FROM encrypted.$kind");
	is($out_of_line, 0, "$kind: all values are out of line");
}
for my $what ((map { substr($_, 0, 3) } sort keys %kinds), 'upd', 'cpy', 'abt')
{
	my @found = files_with(mark('heap', $what), $node->data_dir);
	ok((grep { m{^base/} } @found), "the heap twin's $what is found in base");
	ok((grep { m{^pg_wal/} } @found), "... and in WAL");
	is_deeply([ files_with(mark('encrypted', $what), $node->data_dir) ], [], "the encrypted $what is nowhere");
}

# Spill files: in the middle of a transaction, with new values and, for the replica identity, old ones.
my $slot_dir = $node->data_dir . '/pg_replslot/spilling';
$node->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('spilling', 'pg_vault_tde')});
my $stream = $node->basedir . '/stream';
my $receiver = IPC::Run::start([ 'pg_recvlogical', '-d', $node->connstr('postgres'), '-S', 'spilling', '--start', '-f', $stream, '-o', 'skip-empty-xacts=1', '--no-loop' ]);
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN');
my $rows = 0;
for my $side ('encrypted', 'heap')
{
	for my $kind (sort keys %kinds)
	{
		my ($storage, $repeated) = @{ $kinds{$kind} };
		my $n = size_of($kind);
		my $marks = "marks('" . mark($side, 'spl') . "', $n, i, $repeated)";
		$session->query_safe("INSERT INTO $side.$kind SELECT i, $marks FROM generate_series(100, 139) i");
		$session->query_safe("UPDATE $side.$kind SET id = -id WHERE id IN (1, 2, 130)");
		$session->query_safe("DELETE FROM $side.$kind WHERE id IN (5, 135)");
	}
}
$session->query_safe("INSERT INTO heap.lz4 VALUES (200, 'the last')");
wait_until('spill files', sub { grep { /\.spill$/ } files_with(mark('heap', 'spl'), $slot_dir) });
my ($spilled) = (0);
wait_until('spilling to end', sub { my $before = $spilled; $spilled = 0; $spilled += -s for glob("$slot_dir/*.spill"); sleep 1; $spilled == $before });
ok($spilled > 3_000_000, "$spilled bytes of spill files");
ok((grep { /\.spill$/ } files_with(mark('heap', $_), $slot_dir)), "the heap twin's $_ is found in spill files") for 'spl', 'ext';
is_deeply([ found_in($slot_dir) ], [], 'nothing of an encrypted value is');
is_deeply([ found_in($node->data_dir) ], [], '... nor anywhere else');
$session->query_safe('COMMIT');
$session->quit;
wait_until('the decoded transaction', sub { -e $stream && slurp_file($stream) =~ /^COMMIT/m });
my $decoded = slurp_file($stream);
my $mark = quotemeta mark('encrypted', 'spl');
is(scalar(() = $decoded =~ /^table encrypted\.\w+: INSERT: id\[integer\]:\d+ a\[text\]:'$mark/mg), 200, 'what was spilled is decoded');
is(scalar(() = $decoded =~ /^table encrypted\.\w+: UPDATE: old-key: id\[integer\]:\d+ a\[text\]:'s~/mg), 15, '... with its old values');
$receiver->signal('INT');
$receiver->finish;
is_deeply([ found_in($node->data_dir) ], [], 'and nothing is left on disk');

$node->stop;
done_testing();
