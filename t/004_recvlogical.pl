# Decoding through pg_recvlogical: what it writes is what test_decoding makes it write of the heap twin; and a walsender, a reader
# and a writer that handle a million rows need no more memory than for a hundred thousand.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Vault;

my $node = new_node('receive', 'logical_decoding_work_mem = 1MB', 'max_wal_size = 2GB', 'log_statement = none');
$node->start;
make_twins($node);

# What pg_recvlogical writes up to now.
sub receive
{
	my ($db, @options) = @_;
	my $file = $node->basedir . "/$db.out";
	unlink $file;
	run_log([ 'pg_recvlogical', '-d', $node->connstr($db), '-S', $db, '--start', '-f', $file, '--no-loop', '-E', $node->lsn('insert'),
			map { ('-o', $_) } 'include-xids=0', 'skip-empty-xacts=1', @options ])
	  or die 'pg_recvlogical failed';
	return slurp_file($file);
}

both($node, q{
	CREATE TABLE t (id int PRIMARY KEY, x text, n numeric);
	CREATE TABLE whole (a text, b bytea);
	ALTER TABLE whole REPLICA IDENTITY FULL;
	INSERT INTO t VALUES (1, 'one', 1.1), (2, 'zwei', NULL);
	UPDATE t SET x = 'uno' WHERE id = 1;
	UPDATE t SET id = 10 WHERE id = 1;
	DELETE FROM t WHERE id = 2;
	INSERT INTO whole VALUES ('a', '\x00ff'), (NULL, NULL);
	UPDATE whole SET b = NULL;
	DELETE FROM whole WHERE a IS NULL});
my $expected = <<'END';
BEGIN
table public.t: INSERT: id[integer]:1 x[text]:'one' n[numeric]:1.1
table public.t: INSERT: id[integer]:2 x[text]:'zwei' n[numeric]:null
COMMIT
BEGIN
table public.t: UPDATE: id[integer]:1 x[text]:'uno' n[numeric]:1.1
COMMIT
BEGIN
table public.t: UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:10 x[text]:'uno' n[numeric]:1.1
COMMIT
BEGIN
table public.t: DELETE: id[integer]:2
COMMIT
BEGIN
table public.whole: INSERT: a[text]:'a' b[bytea]:'\x00ff'
table public.whole: INSERT: a[text]:null b[bytea]:null
COMMIT
BEGIN
table public.whole: UPDATE: old-key: a[text]:'a' b[bytea]:'\x00ff' new-tuple: a[text]:'a' b[bytea]:null
table public.whole: UPDATE: old-key: new-tuple: a[text]:null b[bytea]:null
COMMIT
BEGIN
table public.whole: DELETE:
COMMIT
END
is_same(receive('encrypted'), $expected, 'pg_recvlogical of encrypted tables');
is_same(receive('heap'), $expected, 'test_decoding of the heap twins');

# In binary mode, with rows out of line, streamed and prepared transactions.
for my $db (qw(encrypted heap))
{
	$node->safe_psql($db, qq{
		INSERT INTO t SELECT i, repeat(md5(i::text), 200), i FROM generate_series(100, 200) i;
		BEGIN;
		INSERT INTO t SELECT i, repeat(md5(i::text), 20), i FROM generate_series(1000, 20000) i;
		SAVEPOINT s;
		UPDATE t SET x = 'undone';
		ROLLBACK TO s;
		DELETE FROM t WHERE id % 3 = 0;
		COMMIT;
		BEGIN;
		UPDATE t SET n = n + 1 WHERE id < 2000;
		PREPARE TRANSACTION '$db';
		COMMIT PREPARED '$db'});
}
my %got = map { $_ => receive($_) } qw(encrypted heap);
s/^((?:PREPARE TRANSACTION|COMMIT PREPARED) )'\w+'/$1/mg for values %got;
is_same($got{encrypted}, $got{heap}, 'a big transaction, out-of-line values and a prepared one');

# --- memory ---------------------------------------------------------------------------------------------------------------

# A million rows pass through one walsender: few big transactions, then many small ones, UPDATEs, and one that is undone.
$node->safe_psql('encrypted', 'CREATE TABLE million (id int PRIMARY KEY, x text, n int)');
my $receiver = IPC::Run::start([ 'pg_recvlogical', '-d', $node->connstr('encrypted'), '-S', 'encrypted', '--start', '-f', '/dev/null', '--no-loop' ]);
my $sender = wait_until('the walsender', sub {
	$node->safe_psql('postgres', q{SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'encrypted'});
});
my $writer = $node->background_psql('encrypted');
my $pid = $writer->query_safe('SELECT pg_backend_pid()');

# Lets the walsender come to where the writer is.
sub catch_up
{
	my $lsn = $node->lsn('insert');
	$node->poll_query_until('postgres', "SELECT sent_lsn >= '$lsn' FROM pg_stat_replication WHERE pid = $sender") or die 'the walsender does not catch up';
}

# The memory that a process allocated for itself, at its height and now; what it shares with others does not count.
sub memory
{
	my ($what) = @_;
	my %memory = (writer => memory_of($pid, 'RssAnon'), sender => memory_of($sender, 'RssAnon'), 'sender data' => memory_of($sender, 'VmData'));
	note("$what: " . join ', ', map { "$_ $memory{$_} kB" } sort keys %memory);
	return %memory;
}

sub insert
{
	my ($from, $to) = @_;
	$writer->query_safe("INSERT INTO million SELECT i, 'row ' || i, i % 10 FROM generate_series($from, $to) i");
}
my $start = time;
insert(1, 100_000);
$writer->query_safe('UPDATE million SET n = n + 1');
catch_up();
my %before = memory('after 100,000 rows');
for my $i (1 .. 8) { insert($i * 100_000 + 1, ($i + 1) * 100_000) }
$writer->query_safe('BEGIN'); insert(900_001, 1_000_000); $writer->query_safe('ROLLBACK');
insert(900_001, 1_000_000);
$writer->query_safe('UPDATE million SET n = n + 1 WHERE id % 4 = 0');
$writer->query_safe('UPDATE million SET id = -id WHERE id % 10 = 0');
catch_up();
my %after = memory('after 1,000,000 rows and 350,000 updates');
for my $process (sort keys %before)
{
	cmp_ok($after{$process} - $before{$process}, '<', 2048, "memory of the $process stays flat over a million rows");
}

# Transactions, one row each.
$writer->query_safe('CREATE PROCEDURE singly(many int) LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1..many LOOP UPDATE million SET n = n + 1 WHERE id = i * 10 + 1; COMMIT; END LOOP; END $$');
$writer->query_safe('CALL singly(1000)');
catch_up();
%before = memory('after 1,000 transactions');
$writer->query_safe('CALL singly(10000)');
catch_up();
%after = memory('after 10,000 more');
for my $process (sort keys %before)
{
	cmp_ok($after{$process} - $before{$process}, '<', 1024, "memory of the $process stays flat over ten thousand transactions");
}

# Reads, index builds and rewrites of a million rows within one statement: compared at the height of the process's memory.
$writer->quit;
$writer = $node->background_psql('encrypted');
$pid = $writer->query_safe('SELECT pg_backend_pid()');
my @statements = map { my $where = $_; (
	"SELECT sum(length(x)) FROM million $where",
	"UPDATE million SET x = x || '!' $where",
	"SELECT count(*) FROM (SELECT FROM million $where FOR UPDATE) x",
	"COPY (SELECT * FROM million $where) TO PROGRAM 'cat >/dev/null'" ) } 'WHERE id BETWEEN 1 AND 100000', '';
my @height;
for (0 .. $#statements)
{
	$writer->query_safe($statements[$_]);
	push @height, memory_of($pid, 'VmHWM');
	note("at most $height[-1] kB: $statements[$_]");
}
cmp_ok($height[-1] - $height[ $#statements / 2 ], '<', 4096, 'memory of a reader stays flat within a statement');
$writer->query_safe("SET maintenance_work_mem = '4MB'; SET max_parallel_maintenance_workers = 0; CREATE INDEX million_x ON million (x) WHERE id BETWEEN 1 AND 100000");
my $height = memory_of($pid, 'VmHWM');
$writer->query_safe('CREATE INDEX million_n ON million (x)');
cmp_ok(memory_of($pid, 'VmHWM') - $height, '<', 4096, 'memory of an index build stays flat');
$height = memory_of($pid, 'VmHWM');
$writer->query_safe('DROP INDEX million_x, million_n; ALTER TABLE million ALTER COLUMN n TYPE bigint');
$writer->query_safe('VACUUM FULL million');
cmp_ok(memory_of($pid, 'VmHWM') - $height, '<', 4096, 'memory of rewrites stays flat');

note(sprintf 'all this took %.1f s', time - $start);
$writer->quit;
catch_up();
$receiver->signal('INT');
$receiver->finish;

# A transaction that is undone while it is being streamed, and one of whose sub-transactions is; then life goes on.
$node->safe_psql('encrypted', "SELECT pg_replication_slot_advance('encrypted', pg_current_wal_insert_lsn())");
my $file = $node->basedir . '/streamed';
$receiver = IPC::Run::start([ 'pg_recvlogical', '-d', $node->connstr('encrypted'), '-S', 'encrypted', '--start', '-f', $file, '--no-loop',
		map { ('-o', $_) } 'include-xids=0', 'skip-empty-xacts=1', 'stream-changes=1' ]);
$writer = $node->background_psql('encrypted');
for my $end ('ROLLBACK', 'COMMIT')
{
	my $before = -s $file // 0;
	$writer->query_safe("BEGIN; SAVEPOINT a; INSERT INTO t SELECT i, 'undone', 0 FROM generate_series(500001, 520000) i");
	wait_until('the transaction to be streamed', sub { (-s $file // 0) > $before && slurp_file($file, $before) =~ /^opening a streamed block/m });
	$writer->query_safe("ROLLBACK TO a; ALTER TABLE t ADD COLUMN y int DEFAULT 1; INSERT INTO t SELECT i, 'streamed', 0, 2 FROM generate_series(600001, 620000) i; $end");
	$node->safe_psql('encrypted', "INSERT INTO t VALUES (-2, 'after $end', 0); DELETE FROM t WHERE id = -2");
	wait_until('the next transaction', sub { slurp_file($file, $before) =~ /after $end/ });
	my $streamed = slurp_file($file, $before);
	like($streamed, qr/^aborting streamed \(sub\)transaction/m, "streamed, $end: the sub-transaction is undone");
	$end eq 'COMMIT'
	  ? like($streamed, qr/^committing streamed transaction$/m, "streamed, $end: the rest is committed")
	  : unlike($streamed, qr/^committing/m, "streamed, $end: nothing is committed");
}
$writer->quit;
$receiver->signal('INT');
$receiver->finish;

# Errors, one after the other, in one walsender's session leave nothing behind either: each is a session of its own, and the slot is
# as it was.
$node->safe_psql('encrypted', "SELECT pg_replication_slot_advance('encrypted', pg_current_wal_insert_lsn())");
$node->safe_psql('encrypted', "INSERT INTO t VALUES (-1, 'after all this', 0)");
for (1 .. 5)
{
	my ($out, $err) = run_command([ 'pg_recvlogical', '-d', $node->connstr('encrypted'), '-S', 'encrypted', '--start', '-f', '-', '--no-loop', '-o', 'nonsense' ]);
	like($err, qr/"nonsense"/, 'an error');
}
is_same(receive('encrypted'), "BEGIN\ntable public.t: INSERT: id[integer]:-1 x[text]:'after all this' n[numeric]:0 y[integer]:1\nCOMMIT\n", 'then the next change');
$node->stop;
done_testing();
