# What is on disk: no plaintext of an encrypted table anywhere in the data directory, its WAL, a decoder's spill files, or a
# base backup. Every search is proved by the same search for the heap twin's rows, which must find them.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

my $node = new_node('disk', 'logical_decoding_work_mem = 64kB', 'wal_compression = off', 'full_page_writes = on');
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_vault_tde');

# Marked rows: in line, compressible, out of line uncompressed, and of such a shape that every path of writing has its own.
sub fill
{
	my ($schema, $method, $mark) = @_;
	$node->safe_psql('postgres', qq{
		SET default_table_access_method = $method;
		CREATE SCHEMA $schema;
		SET search_path = $schema;
		CREATE TABLE t (id int PRIMARY KEY, x text, long text STORAGE EXTERNAL);
		CREATE UNLOGGED TABLE u (x text);
		CREATE TABLE w (id int PRIMARY KEY, x text);
		ALTER TABLE t REPLICA IDENTITY FULL;
		INSERT INTO t SELECT i, '$mark-insert-' || i FROM generate_series(1, 500) i;
		COPY t (id, x) FROM STDIN;
501	$mark-copy-501
502	$mark-copy-502
\\.
		INSERT INTO t VALUES (503, '', '$mark-toast-' || repeat('long ', 2000));
		UPDATE t SET x = '$mark-update-' || id WHERE id <= 50;
		INSERT INTO t VALUES (1, '$mark-conflict') ON CONFLICT (id) DO UPDATE SET x = excluded.x;
		MERGE INTO t USING (VALUES (2), (1002)) s (id) ON t.id = s.id
			WHEN MATCHED THEN UPDATE SET x = '$mark-merge-' || s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, '$mark-merge-' || s.id);
		DELETE FROM t WHERE id BETWEEN 60 AND 70;
		INSERT INTO u VALUES ('$mark-unlogged');
		CREATE TABLE c AS SELECT * FROM t;
		INSERT INTO w SELECT i, '$mark-rewrite-' || i FROM generate_series(1, 300) i;
		ALTER TABLE w ALTER COLUMN id TYPE bigint;
		VACUUM FULL w;
		CREATE TABLE dropped AS SELECT '$mark-dropped'::text;
		DROP TABLE dropped;
		CREATE MATERIALIZED VIEW m AS SELECT '$mark-matview-' || id FROM t;
		REFRESH MATERIALIZED VIEW m;
		BEGIN;
		INSERT INTO t VALUES (2000, '$mark-aborted');
		ROLLBACK;
		CHECKPOINT;
		UPDATE t SET x = x || ' $mark-after-checkpoint' WHERE id > 495; -- with full pages in WAL
	});
}

fill('encrypted', 'encrypted_heap', 'SECRET');
fill('heap', 'heap', 'PUBLIC');
$node->safe_psql('postgres', 'VACUUM encrypted.t, heap.t');
$node->restart;    # a checkpoint does not write unlogged tables

for my $kind (qw(insert copy toast update conflict merge unlogged rewrite matview after-checkpoint aborted dropped))
{
	my @found = files_with("PUBLIC-$kind", $node->data_dir);
	ok(@found > 0, "the heap twin's $kind is found" . (@found ? ", for one in $found[0]" : ''));
}
is_deeply([ files_with('SECRET', $node->data_dir) ], [], 'no plaintext of an encrypted table in the data directory');
ok((grep { m{^pg_wal/} } files_with('PUBLIC', $node->data_dir)), 'the search covers WAL');

# Each file of the tables on its own, so that a search that misses the table cannot pass.
for my $table (qw(t u w c m))
{
	my $path = $node->safe_psql('postgres', "SELECT pg_relation_filepath('encrypted.$table')");
	ok(-s $node->data_dir . "/$path", "file of encrypted.$table was written");
}

# The stored rows: the disguise that core can read, and a fresh random IV for each.
my @rows = stored_rows($node, 'encrypted.c');
ok(@rows > 490, 'rows of encrypted.c are in its file');
is((grep { $_->{natts} != 0 || $_->{hoff} != 24 || $_->{mask} & 0x0005 } @rows), 0, 'every row wears the disguise (no attributes, no nulls, nothing external)');
is((grep { $_->{generation} != 1 } @rows), 0, 'every row names generation 1');
my %ivs = map { substr($_->{payload}, 0, 12) => 1 } @rows;
is(scalar keys %ivs, scalar @rows, 'no IV occurs twice');

# Equal rows have different ciphertexts; and after a rotation new rows name the new generation, old ones the old.
$node->safe_psql('postgres', q{
	CREATE TABLE encrypted.same (x text) USING encrypted_heap;
	INSERT INTO encrypted.same SELECT 'the same' FROM generate_series(1, 50);
	SELECT vault_tde.rotate_key();
	INSERT INTO encrypted.same SELECT 'the same' FROM generate_series(1, 50);
	CHECKPOINT});
@rows = stored_rows($node, 'encrypted.same');
is(scalar @rows, 100, '100 equal rows');
is_deeply([ map { $_->{generation} } @rows ], [ (1) x 50, (2) x 50 ], 'their generations');
my %bodies = map { substr($_->{payload}, 12) => 1 } @rows;
is(scalar keys %bodies, 100, 'equal rows have different ciphertexts');
my %blocks = map { substr($_->{payload}, 12, 8) => 1 } @rows;
is(scalar keys %blocks, 100, '... from the first bytes on');
is((grep { length($_->{payload}) != 12 + (24 - 18) + 9 + 16 } @rows), 0, 'a row is as long as it should be');

# A decoder that runs out of memory in the middle of a transaction spills its changes to disk.
$node->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('spilling', 'pg_vault_tde')});
my $stream = $node->basedir . '/stream';
my $receiver = IPC::Run::start(
	[ 'pg_recvlogical', '-d', $node->connstr('postgres'), '-S', 'spilling', '--start', '-f', $stream, '-o', 'skip-empty-xacts=1', '--no-loop' ]);
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN');
$session->query_safe("INSERT INTO encrypted.t SELECT i, 'SECRET-spilled-' || i, repeat('SECRET-spilled-toast ', 200) FROM generate_series(10001, 13000) i");
$session->query_safe("INSERT INTO heap.t SELECT i, 'PUBLIC-spilled-' || i, repeat('PUBLIC-spilled-toast ', 200) FROM generate_series(10001, 13000) i");
my $slot_dir = $node->data_dir . '/pg_replslot/spilling';
wait_until('spill files', sub { files_with('PUBLIC-spilled-12000', $slot_dir) });    # (the last ones may be in memory)
ok((grep { /\.spill$/ } files_with('PUBLIC-spilled', $slot_dir)), "the heap twin's rows are found in spill files");
ok((grep { /\.spill$/ } files_with('PUBLIC-spilled-toast', $slot_dir)), '... its out-of-line values, too');
is_deeply([ files_with('SECRET', $slot_dir) ], [], 'no plaintext of an encrypted table in spill files');
is_deeply([ files_with('SECRET', $node->data_dir) ], [], '... nor anywhere else');
$session->query_safe('COMMIT');
$session->quit;
wait_until('the decoded transaction', sub { slurp_file($stream) =~ /^COMMIT/m });
is(scalar(() = slurp_file($stream) =~ /^table encrypted\.t: INSERT: .*'SECRET-spilled-\d+'/mg), 3000, 'what was spilled is decoded in the clear');
$receiver->signal('INT');
$receiver->finish;
is_deeply([ files_with('SECRET', $slot_dir) ], [], 'and nothing is left on disk');

# A base backup, plain and as tar.
$node->backup('plain');
my $backup = $node->backup_dir . '/plain';
ok(files_with('PUBLIC-insert', $backup) > 0, "the heap twin's rows are found in a base backup");
is_deeply([ files_with('SECRET', $backup) ], [], 'no plaintext of an encrypted table in a base backup');

# The key is nowhere either: neither the file's content, in hex or in binary, nor an unwrapped data key can be looked for, but
# the former can.
my $key = slurp_file($node->basedir . '/key');
$key =~ s/\s//g;
for my $form ($key, uc $key, pack('H*', $key))
{
	is_deeply([ files_with($form, $node->data_dir) ], [], 'the key is not in the data directory');
	is_deeply([ files_with($form, $backup) ], [], 'the key is not in the backup');
}
unlike(slurp_file($node->logfile), qr/\Q$key\E/i, "the key is not in the server's log");

$node->stop;
done_testing();
