# Crashes: the server or one of its processes is killed with -9 between, and in the middle of, writes and decoding. What was
# committed is there afterwards, and is decoded.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

my $node = new_node('crash', 'checkpoint_timeout = 1h', 'max_wal_size = 1GB', 'restart_after_crash = on', 'logical_decoding_work_mem = 64kB');
$node->start;
make_twins($node);
both($node, q{
	CREATE TABLE t (id int PRIMARY KEY, x text, n int);
	CREATE INDEX ON t (n);
	CREATE TABLE keyless (x text);
	ALTER TABLE keyless REPLICA IDENTITY FULL;
	CREATE UNLOGGED TABLE u (id int PRIMARY KEY, x text);
	INSERT INTO t SELECT i, 'before ' || i, i % 10 FROM generate_series(1, 1000) i;
	INSERT INTO keyless SELECT 'keyless ' || i FROM generate_series(1, 10) i;
	INSERT INTO u SELECT i, 'unlogged' FROM generate_series(1, 100) i});

# an ordinary restart
$node->restart;
is_same_content($node, 'after a restart');
is($node->safe_psql('encrypted', 'SELECT count(*) FROM u'), 100, 'an unlogged table survives a restart');
both($node, q{UPDATE t SET x = 'after a restart ' || id, n = n + 1 WHERE id % 3 = 0; DELETE FROM t WHERE id % 50 = 0});
is_same_stream($node, 'after a restart');

# The postmaster is killed: with transactions in progress, prepared ones, and the decoder's position never saved.
for my $db (qw(encrypted heap))
{
	$node->safe_psql($db, qq{
		UPDATE t SET id = id + 10000 WHERE id < 20;
		UPDATE keyless SET x = x || ' changed' WHERE x LIKE '%1%';
		DELETE FROM keyless WHERE x LIKE '%9';
		SELECT vault_tde.rotate_key();
		INSERT INTO t SELECT i, 'under the second key ' || i, i % 10 FROM generate_series(2001, 2500) i;
		BEGIN;
		INSERT INTO t VALUES (3001, 'prepared', 0);
		DELETE FROM t WHERE id = 30;
		PREPARE TRANSACTION 'commit_$db';
		BEGIN;
		INSERT INTO t VALUES (3002, 'prepared', 0);
		UPDATE t SET id = 3031 WHERE id = 31;
		PREPARE TRANSACTION 'undo_$db'});
}
my @open;
for my $db (qw(encrypted heap))
{
	my $session = $node->background_psql($db);
	$session->query_safe(q{BEGIN; INSERT INTO t SELECT i, 'never', 0 FROM generate_series(5000, 6000) i; UPDATE t SET x = 'never' WHERE id > 100});
	push @open, $session;
}
my $receiver = IPC::Run::start(
	[ 'pg_recvlogical', '-d', $node->connstr('encrypted'), '-S', 'encrypted', '--start', '-f', $node->basedir . '/killed', '--no-loop' ],
	'2>', \my $err);
wait_until('the decoder to have begun', sub { -s $node->basedir . '/killed' });
kill_server($node);
$receiver->finish;
eval { $_->quit } for @open;
$node->start;
is_same_content($node, 'after kill -9 of the server');
is($node->safe_psql('encrypted', 'SELECT count(*) FROM u'), 0, 'an unlogged table is empty after a crash');
both($node, q{INSERT INTO u SELECT i, 'again' FROM generate_series(1, 50) i});
is($node->safe_psql('encrypted', 'SELECT count(*), min(x) FROM u WHERE id > 0'), '50|again', '... and usable');
is_same_stream($node, 'after kill -9 of the server');
$node->safe_psql($_, "COMMIT PREPARED 'commit_$_'; ROLLBACK PREPARED 'undo_$_'") for qw(encrypted heap);
is_same_content($node, 'with what was prepared before it');
both($node, q{INSERT INTO t VALUES (4000, 'after the crash', 1); UPDATE t SET n = n - 1 WHERE id = 3001});

# One backend is killed in the middle of a big statement: the server starts all others anew, and its shared memory.
for my $round (1 .. 2)
{
	for my $db (qw(encrypted heap))
	{
		my $victim = $node->background_psql($db, on_error_stop => 0);
		my $pid = $victim->query_safe('SELECT pg_backend_pid()');
		$victim->query_safe('BEGIN; SELECT vault_tde.rotate_key()') if $round == 2;
		$victim->{stdin} .= "INSERT INTO t SELECT i, 'never', 0 FROM generate_series(100000, 3000000) i;\n";
		$victim->{run}->pump_nb;
		wait_until('the statement to run', sub {
			$node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid AND query LIKE 'INSERT%' AND state = 'active'");
		});
		select undef, undef, undef, 0.2;
		kill_process($node, $pid);
		eval { $victim->quit };
	}
	is_same_content($node, "after kill -9 of a backend, round $round");
	both($node, "INSERT INTO t VALUES (4000 + $round, 'after the crash of a backend', 1); DELETE FROM t WHERE id = 4100 - $round");
	is_same_stream($node, "after kill -9 of a backend, round $round");
}

# A decoder is killed in the middle of its work, with spilled changes on disk.
both($node, q{INSERT INTO t SELECT i, repeat('x', 300), 0 FROM generate_series(200001, 220000) i; UPDATE t SET n = 1 WHERE id > 210000});
my $file = $node->basedir . '/killed2';
$receiver = IPC::Run::start([ 'pg_recvlogical', '-d', $node->connstr('encrypted'), '-S', 'encrypted', '--start', '-f', $file, '--no-loop' ], '2>', \$err);
wait_until('the decoder to have begun', sub { -s $file });
kill_process($node, $node->safe_psql('postgres', q{SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'encrypted' AND active_pid IS NOT NULL
	UNION ALL SELECT pid FROM pg_stat_activity WHERE backend_type = 'walsender' LIMIT 1}));
$receiver->finish;
is_same_stream($node, 'after kill -9 of a decoder');
is_same_content($node, 'after kill -9 of a decoder');
is(scalar(() = stream($node, 'encrypted') =~ /INSERT: id\[integer\]:2[012]\d{4} /g), 20000, 'the whole transaction is decoded');

# And what has been recovered can be stopped, started and vacuumed.
$node->restart;
both($node, 'VACUUM (FREEZE) t; REINDEX TABLE t');
is_same_content($node, 'in the end');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, 'nothing worse than the crashes that were asked for');
$node->stop;
done_testing();
