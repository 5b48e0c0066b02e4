# What a row costs beyond its heap twin in table and WAL; and memory: ten times as many rows need no more of it.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

my $node = new_node('growth', 'max_wal_size = 4GB', 'checkpoint_timeout = 1h', 'max_parallel_workers_per_gather = 0',
	'max_parallel_maintenance_workers = 0', 'full_page_writes = off', 'jit = off');
$node->start;
for my $db (qw(encrypted heap))
{
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, 'CREATE EXTENSION pg_vault_tde');
	$node->safe_psql('postgres', 'ALTER DATABASE encrypted SET default_table_access_method = encrypted_heap') if $db eq 'encrypted';
}

# --- bytes ----------------------------------------------------------------------------------------------------------------

my $rows = 5000;
my %shapes = (
	small => 'i AS a',
	numbers => 'i AS a, i::bigint AS b, i::float8 AS c, NULL::int AS d',
	ordinary => q{i AS a, 'some words of a row, number ' || i AS b, i * 1.5 AS c, timestamptz '2026-01-01' AS d},
	wide => q{i AS a, repeat(md5(i::text), 12) AS b},
	nulls => 'NULL::int AS a, NULL::text AS b, i % 2 = 0 AS c',
);
# Bytes of WAL that a statement writes for each of its rows.
sub wal_bytes
{
	my ($db, $sql) = @_;
	return $node->safe_psql($db, qq{
		SELECT pg_current_wal_insert_lsn() AS lsn \\gset
		$sql;
		SELECT (pg_current_wal_insert_lsn() - :'lsn') / $rows.0});
}
# The lengths of a table's rows, in the order in which they lie, and the number of its pages.
sub lengths
{
	my ($db) = @_;
	my $pages = $node->safe_psql($db, q{SELECT pg_relation_size('t') / 8192});
	return ($pages, map { $_->{length} } stored_rows($node, 't', $db));
}
my $copied = $node->basedir . '/copied';
for my $shape (sort keys %shapes)
{
	both($node, "DROP TABLE IF EXISTS t, source; CREATE TABLE source USING heap AS SELECT $shapes{$shape} FROM generate_series(1, $rows) i; CREATE TABLE t (LIKE source)");
	both($node, 'VACUUM source');    # the first reader would do part of it, since 19, and write WAL for it
	$node->safe_psql('heap', "COPY source TO '$copied'");
	for my $case ([ 'INSERT', 'INSERT INTO t SELECT * FROM source' ], [ 'COPY', "COPY t FROM '$copied'" ])
	{
		my ($how, $sql) = @$case;
		my $wal = sprintf '%.1f', -wal_bytes('heap', $sql) + wal_bytes('encrypted', $sql);
		cmp_ok($wal, '<=', 34 + 7 + 1, "$shape rows, $how: bytes a row in WAL beyond heap's");
		$node->safe_psql('postgres', 'CHECKPOINT');
		my ($heap_pages, @heap) = lengths('heap');
		my ($pages, @encrypted) = lengths('encrypted');
		is(scalar @encrypted, $rows, '... all rows are there');
		is(scalar(grep { $encrypted[$_] != $heap[$_] + 34 } 0 .. $#heap), 0, '... each is 34 bytes longer than its twin');
		# as many as fit a page, and the pages by which a table grows ahead of its rows
		my ($longest) = sort { $b <=> $a } @encrypted;
		my $on_page = int(8168 / (4 + 8 * int(($longest + 7) / 8)));
		cmp_ok($pages, '<=', $rows / $on_page * 1.02 + 65, '... and the pages are full');
		note("$shape rows, $how: $wal bytes a row more in WAL, $pages pages, heap $heap_pages");
		both($node, 'TRUNCATE t');
	}
}

# --- memory ---------------------------------------------------------------------------------------------------------------

SKIP:
{
	skip 'needs /proc', 1 unless -r '/proc/self/status';
	my @steps = (
		[ 'INSERT', q{INSERT INTO m SELECT i, i, repeat('x', 20 + i % 100) FROM generate_series(1, N) i} ],
		[ 'UPDATE', q{UPDATE m SET a = a + 1, c = c || 'y' WHERE id <= N} ],
		[ 'UPDATE of the key', 'UPDATE m SET id = -id WHERE id <= N' ],
		[ 'upsert', q{INSERT INTO m SELECT -i, i, 'new' FROM generate_series(1, N) i ON CONFLICT (id) DO UPDATE SET c = m.c || excluded.c} ],
		[ 'reading', 'SELECT sum(a), max(c) FROM m' ],
		[ 'index build', 'CREATE INDEX ON m (a) WHERE a % 100 = 0' ],
		[ 'ANALYZE', 'ANALYZE m' ],
		[ 'VACUUM FULL', 'VACUUM FULL m' ],
		[ 'COPY', q{COPY m TO '/dev/null'} ],
		[ 'DELETE', 'DELETE FROM m WHERE id < 0' ],
	);
	# The most memory, in kB, that a backend has had address space for, after each step with n rows.
	my $peaks = sub {
		my ($n) = @_;
		my $session = $node->background_psql('encrypted');
		my $pid = $session->query_safe('SELECT pg_backend_pid()');
		$session->query_safe(q{SET client_min_messages = warning; DROP TABLE IF EXISTS m; CREATE TABLE m (id int PRIMARY KEY, a int, c text); SET work_mem = '64kB'; SET default_statistics_target = 10; SET maintenance_work_mem = '1MB'});
		my @peaks;
		for my $step (@steps)
		{
			my ($name, $sql) = @$step;
			$sql =~ s/\bN\b/$n/g;
			$session->query_safe($sql);
			push @peaks, memory_of($pid, 'VmPeak');
		}
		# what the backend holds on to when nothing runs
		push @peaks, $session->query_safe('SELECT sum(total_bytes) / 1024 FROM pg_backend_memory_contexts');
		$session->quit;
		return @peaks;
	};
	my @few = $peaks->(8_000);
	my @many = $peaks->(80_000);
	push @steps, ['between statements'];
	for my $i (0 .. $#steps)
	{
		note("$steps[$i][0]: $few[$i] kB, with ten times as many rows $many[$i] kB");
		cmp_ok($many[$i], '<', $few[$i] + 4096, "memory of a backend is flat: $steps[$i][0]");
	}
}

$node->stop;
done_testing();
