# Several sessions at work at once, for some seconds: each transaction does the same to an encrypted table and to its heap twin.
# In the end both hold the same, in the table and in every index, and what was decoded of both is the same.
#
# Twins can differ only if two transactions meet in one order on the one table and in the other on the other. That is excluded:
# rows that come and go are guarded by an advisory lock on their key; those that always exist are locked by their first update.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

my $node = new_node('concurrency', 'log_statement = none', 'max_connections = 30', 'logical_decoding_work_mem = 1MB', 'deadlock_timeout = 100ms');
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_vault_tde; CREATE SCHEMA encrypted; CREATE SCHEMA heap');
for (qw(encrypted heap))
{
	my $method = $_ eq 'heap' ? 'heap' : 'encrypted_heap';
	$node->safe_psql('postgres', qq{
		SET default_table_access_method = $method;
		SET search_path = $_;
		CREATE TABLE parent (id int PRIMARY KEY, note text, n int DEFAULT 0) WITH (fillfactor = 50);
		CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent, x text, n int DEFAULT 0);
		CREATE INDEX child_n ON child (n);
		CREATE INDEX child_x ON child (lower(x)) WHERE n > 2;
		CREATE TABLE counter (id int PRIMARY KEY, n int);
		INSERT INTO parent SELECT i, 'note' FROM generate_series(1, 20) i;
		INSERT INTO counter SELECT i, 0 FROM generate_series(1, 10) i});
}
$node->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('slot', 'pg_vault_tde')});

# The statements of a script, each for both schemas.
sub twice { return join "\n", map { my $s = $_; /%/ ? map { (my $t = $s) =~ s/%/$_/g; $t } qw(encrypted heap) : $s } split /\n/, $_[0]; }

my %scripts = (
	# rows that come, change and go, with references to a few parents that are being changed all the time
	'rows@12' => twice(q{
		\set id random(1, 500)
		\set parent random(1, 20)
		\set n random(0, 5)
		\set len random(0, 400)
		BEGIN;
		SELECT pg_advisory_xact_lock(:id);
		INSERT INTO %.child VALUES (:id, :parent, repeat('x', :len), :n) ON CONFLICT (id) DO UPDATE SET n = excluded.n, x = excluded.x;
		UPDATE %.child SET n = n + 1 WHERE id = :id;
		COMMIT;}),
	'delete@4' => twice(q{
		\set id random(1, 500)
		BEGIN;
		SELECT pg_advisory_xact_lock(:id);
		DELETE FROM %.child WHERE id = :id;
		COMMIT;}),
	'parents@6' => twice(q{
		\set id random(1, 20)
		BEGIN;
		UPDATE %.parent SET note = note || 'x', n = n + 1 WHERE id = :id;
		UPDATE %.parent SET note = left(note, 20) WHERE id = :id;
		COMMIT;}),
	# savepoints, undone and kept
	'savepoints@6' => twice(q{
		\set id random(1, 10)
		\set child random(1, 500)
		BEGIN;
		UPDATE %.counter SET n = n + 1 WHERE id = :id;
		SAVEPOINT a;
		UPDATE %.counter SET n = n + 1000000 WHERE id = :id;
		INSERT INTO %.child VALUES (1000000 + :child, 1, 'undone');
		ROLLBACK TO a;
		SAVEPOINT b;
		UPDATE %.counter SET n = n + 1 WHERE id = :id;
		RELEASE b;
		COMMIT;}),
	'undone@2' => twice(q{
		\set id random(1, 10)
		BEGIN;
		UPDATE %.counter SET n = 0 WHERE id = :id;
		ROLLBACK;}),
	# out of line, locked, merged
	'toast@2' => twice(q{
		\set id random(501, 520)
		\set r random(1, 1000)
		BEGIN;
		SELECT pg_advisory_xact_lock(:id);
		MERGE INTO %.child c USING (SELECT :id AS id) s ON c.id = s.id WHEN MATCHED AND c.n > 5 THEN DELETE WHEN MATCHED THEN UPDATE SET x = repeat(md5((:r + c.n)::text), 150), n = c.n + 1 WHEN NOT MATCHED THEN INSERT VALUES (:id, 1, repeat(md5(:r::text), 100), 0);
		SELECT id FROM %.child WHERE id = :id FOR UPDATE;
		COMMIT;}),
	# reads, which must not meet anything that they cannot read
	'read@4' => q{
		SELECT count(*), sum(length(x)) FROM encrypted.child;
		SELECT p.id, count(c.id), max(p.note) FROM encrypted.parent p LEFT JOIN encrypted.child c ON c.parent = p.id GROUP BY p.id;
		SELECT sum(n) FROM encrypted.child WHERE n BETWEEN 2 AND 4;},
	'rotate@1' => 'SELECT vault_tde.rotate_key();',
	'maintain@1' => 'VACUUM encrypted.child;');

$node->pgbench('--no-vacuum --client=4 --jobs=2 --time=8 --max-tries=10', 0,
	[qr/number of failed transactions: 0 /], [qr/^$/], 'eight seconds of four sessions', \%scripts);
note($node->safe_psql('postgres', 'SELECT (SELECT max(generation) FROM vault_tde.keys), (SELECT sum(n) FROM encrypted.counter), (SELECT count(*) FROM encrypted.child)'));

# Once more with index builds, which wait for those who were there before them.
my $builder = IPC::Run::start([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-c',
		'CREATE INDEX CONCURRENTLY late ON encrypted.child (x, n) WHERE n < 5', '-c', 'REINDEX INDEX CONCURRENTLY encrypted.child_n', '-c',
		'REINDEX TABLE CONCURRENTLY encrypted.parent' ]);
$node->pgbench('--no-vacuum --client=4 --jobs=2 --time=5 --max-tries=10', 0,
	[qr/number of failed transactions: 0 /], [qr/^$/], 'five seconds with index builds', { map { ("again_$_" => $scripts{$_}) } keys %scripts });
ok($builder->finish, 'indexes built concurrently');

for my $table (qw(parent child counter))
{
	my $rows = "TABLE %s.$table ORDER BY id";
	is_same($node->safe_psql('postgres', sprintf $rows, 'encrypted'), $node->safe_psql('postgres', sprintf $rows, 'heap'), "$table has the rows of its heap twin");
}
for (
	[ 'id > 0', 'id', 'child_pkey' ],
	[ 'n BETWEEN 0 AND 1000', 'n', 'child_n' ],
	[ 'lower(x) IS NOT NULL AND n > 2', 'lower(x)', 'child_x' ],
	[ 'x IS NOT NULL AND n < 5', 'x', 'late' ])
{
	my ($where, $order, $index) = @$_;
	my $query = "SELECT id, n, length(x) FROM encrypted.child WHERE $where ORDER BY $order, id";
	my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;';
	like($node->safe_psql('postgres', "$by_index EXPLAIN $query"), qr/Scan using $index /, "a query of $index");
	is_same($node->safe_psql('postgres', "$by_index $query"),
		$node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_bitmapscan = off; $query"), '... finds what a sequential scan finds');
}

# What was decoded: in each transaction the changes of the one table, then of the other. (The text of a row tells them apart only
# by the schema.)
my (%stream, $transactions);
for (split /\n/, $node->safe_psql('postgres', "SELECT data FROM pg_logical_slot_get_changes('slot', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1')"))
{
	if (s/^table (encrypted|heap)\.//) { push @{ $stream{$1} }, $_ }
	elsif ($_ eq 'COMMIT') { $transactions++; push @{ $stream{$_} }, 'COMMIT' for qw(encrypted heap) }
}
note("$transactions transactions");
ok($transactions > 1000, 'much was decoded');
is_same(join("\n", @{ $stream{encrypted} }), join("\n", @{ $stream{heap} }), 'the decoded streams of the twins');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal|XX\d\d\d/, 'no crash');
$node->stop;
done_testing();
