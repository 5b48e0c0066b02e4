# Encrypted indexes on disk: none of their keys in the clear in index files, their WAL, or the temporary files of the sort that
# builds them; and what becomes of a damaged index. Every search is proved by the same search for btree on heap.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

my $node = new_node('index_disk', 'wal_compression = off', 'maintenance_work_mem = 1MB', 'max_parallel_maintenance_workers = 0');
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_vault_tde');

# Keys in every position, built and inserted, on pages that were split, deleted and logged whole. The function keeps the
# sort's temporary files open to be looked at: it sleeps in the index expression of the last row.
sub fill
{
	my ($schema, $table_method, $method, $mark) = @_;
	my $key = $node->pg_version >= 18 ? 'PRIMARY KEY' : 'NOT NULL';    # on 17 it would be a btree
	$node->safe_psql('postgres', qq{
		CREATE SCHEMA $schema;
		SET search_path = $schema;
		SET pg_vault_tde.plaintext_indexes = allow;
		CREATE TABLE t (id int, x text, y text, z text) USING $table_method;
		INSERT INTO t SELECT i, '$mark-key-' || i % 5000, '$mark-second-' || i, '$mark-included-' || i FROM generate_series(1, 20000) i;
		CREATE INDEX built ON t USING $method (x, y DESC) INCLUDE (z);
		CREATE UNIQUE INDEX unique_one ON t USING $method (y);
		CREATE INDEX expression ON t USING $method (upper('$mark-expression-' || x)) WHERE id < 9000;
		CREATE UNLOGGED TABLE u (x text) USING $table_method;
		CREATE INDEX u_x ON u USING $method (x);
		INSERT INTO u SELECT '$mark-unlogged-' || i FROM generate_series(1, 300) i;
		CREATE TABLE k (x varchar(60) $key, y varchar(60)) USING $table_method;
		CREATE INDEX k_y ON k USING $method (y);
		INSERT INTO k SELECT '$mark-constraint-' || i, '$mark-constraint-' || i FROM generate_series(1, 1000) i;
		ALTER TABLE k ALTER x TYPE text COLLATE "C", ALTER y TYPE varchar(80); -- both indexes are made anew
		CHECKPOINT;
		INSERT INTO t SELECT i, '$mark-inserted-' || i, '$mark-second-' || i, '$mark-included' FROM generate_series(20001, 23000) i;
		DELETE FROM t WHERE id BETWEEN 3000 AND 9000;
		VACUUM t;
		REINDEX INDEX built;
		REINDEX INDEX CONCURRENTLY unique_one});
	# what is left is in the indexes alone
	$node->safe_psql('postgres', "SET search_path = $schema; ALTER TABLE t SET (autovacuum_enabled = off)");
}
fill('encrypted', 'encrypted_heap', 'encrypted_btree', 'SECRET');
fill('heap', 'heap', 'btree', 'PUBLIC');
$node->restart;

for my $kind (qw(key second included inserted unlogged constraint), 'expression-PUBLIC')
{
	my $mark = $kind =~ /expression/ ? 'PUBLIC-EXPRESSION' : "PUBLIC-$kind";
	ok(files_with($mark, $node->data_dir) > 0, "$mark is found in the twin's files");
}
is_deeply([ files_with('SECRET', $node->data_dir) ], [], 'no key in the clear in the data directory, WAL included');
for my $index (qw(built unique_one expression u_x k_y))
{
	my $path = $node->safe_psql('postgres', "SELECT pg_relation_filepath('encrypted.$index')");
	ok(-s $node->data_dir . "/$path" > 16384, "the file of $index is there");
}

# The sort's temporary files, while a build waits in the callback of its last row.
for my $case ([ 'heap', 'btree', 'PUBLIC' ], [ 'encrypted', 'encrypted_btree', 'SECRET' ])
{
	my ($schema, $method, $mark) = @$case;
	$node->safe_psql('postgres', qq{
		CREATE FUNCTION $schema.slow(text, int) RETURNS text LANGUAGE plpgsql IMMUTABLE AS \$\$
		BEGIN
			IF \$2 = 23000 THEN PERFORM pg_advisory_lock(1); END IF;
			RETURN \$1;
		END \$\$});
	my $holder = $node->background_psql('postgres');
	$holder->query_safe('SELECT pg_advisory_lock(1)');
	my $builder = IPC::Run::start(
		[ 'psql', '-X', '-d', $node->connstr('postgres'), '-c', "SET pg_vault_tde.plaintext_indexes = allow; SELECT 1", '-c',
			"CREATE INDEX slow ON $schema.t USING $method (($schema.slow(x, id)), y)" ], '>', \my $out, '2>', \my $err);
	wait_until('the other session', sub { $node->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}) == 1 });
	my @files = files_with($mark, $node->data_dir . '/base/pgsql_tmp');
	my @all = glob($node->data_dir . '/base/pgsql_tmp/*');
	ok(@all > 0, "the sort for $schema has temporary files");
	if ($schema eq 'heap') { ok(@files > 0, 'and the search finds the keys in them') }
	else { is_deeply(\@files, [], 'in which no key is in the clear') }
	$holder->quit;
	$builder->finish;
	is($err // '', '', "the build on $schema went on");
}

# Damage is found, by queries that meet it and by verify().
my ($fs, $path) = ($node->data_dir, $node->safe_psql('postgres', "SELECT pg_relation_filepath('encrypted.unique_one')"));
is($node->safe_psql('postgres', q{SELECT count(*) FROM vault_tde.verify('encrypted.t')}), 0, 'verify() finds nothing in sound indexes');
$node->stop;
open my $file, '+<:raw', "$fs/$path" or die $!;
seek $file, 8192 * 3 + 8000, 0;    # in the last key of a page
read $file, my $byte, 1;
seek $file, 8192 * 3 + 8000, 0;
print $file chr(ord($byte) ^ 1);
close $file;
$node->append_conf('postgresql.conf', 'ignore_checksum_failure = on');
$node->start;
my ($code, $out, $err) = $node->psql('postgres', 'SET enable_bitmapscan = off; SELECT count((SELECT b.y FROM encrypted.t b WHERE b.y = a.y)) FROM encrypted.t a', on_error_stop => 1);
like($err, qr/could not decrypt a key of index "unique_one"|contains a key that is not its own/, 'a changed bit is an error that names the index');
like($node->safe_psql('postgres', q{SELECT problem FROM vault_tde.verify('encrypted.t')}), qr/index "unique_one", block 3, item \d+: what is in column 1/, 'and verify() says where');
$node->safe_psql('postgres', 'REINDEX INDEX encrypted.unique_one');
is($node->safe_psql('postgres', q{SELECT count(*) FROM vault_tde.verify('encrypted.t')}), 0, 'REINDEX mends it');

# Missing and surplus entries: the index of another point in time.
$node->safe_psql('postgres', 'CREATE TABLE encrypted.v (id int) USING encrypted_heap; CREATE INDEX v_id ON encrypted.v USING encrypted_btree (id);
	INSERT INTO encrypted.v SELECT generate_series(1, 100)');
$path = $node->safe_psql('postgres', q{SELECT pg_relation_filepath('encrypted.v_id')});
$node->stop;
my $before = slurp_file("$fs/$path");
$node->start;
$node->safe_psql('postgres', 'INSERT INTO encrypted.v SELECT generate_series(101, 110)');
$node->stop;
open $file, '>:raw', "$fs/$path" or die $!;
print $file $before;
close $file;
$node->start;
is($node->safe_psql('postgres', q{SELECT count(*) FROM vault_tde.verify('encrypted.v') WHERE problem LIKE '%has no entry%'}), 10, 'verify() finds rows without an entry');

# A plain btree's file under an encrypted index is refused, not misread.
$node->safe_psql('postgres', 'CREATE INDEX v_plain ON encrypted.v (id); REINDEX INDEX encrypted.v_id; CHECKPOINT');
my $plain = $node->safe_psql('postgres', q{SELECT pg_relation_filepath('encrypted.v_plain')});
$path = $node->safe_psql('postgres', q{SELECT pg_relation_filepath('encrypted.v_id')});
$node->stop;
my $content = slurp_file("$fs/$plain");
open $file, '>:raw', "$fs/$path" or die $!;
print $file $content;
close $file;
$node->start;
($code, $out, $err) = $node->psql('postgres', 'SET enable_seqscan = off; SET enable_bitmapscan = off; DROP INDEX encrypted.v_plain; SELECT * FROM encrypted.v WHERE id = 5', on_error_stop => 1);
like($err, qr/contains a key that is not its own/, 'a plain btree is not read as an encrypted one');

$node->stop;
done_testing();
