# Memory of decoders: of transactions that roll back nothing is left, and of a transaction with many large values no more is
# held than its row in hand needs.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes 'time';
use Vault;

plan skip_all => 'needs /proc' unless -r '/proc/self/status';

my $node = new_node('toast_memory', 'max_wal_size = 256MB', 'min_wal_size = 128MB', 'wal_keep_size = 0', 'logical_decoding_work_mem = 4MB',
	'synchronous_commit = off', 'checkpoint_completion_target = 0');
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_vault_tde;
	CREATE TABLE t (id int PRIMARY KEY, a text STORAGE EXTERNAL) USING encrypted_heap;
	CREATE TABLE source AS SELECT string_agg(md5(i::text), '') AS a FROM generate_series(1, 31250) i; -- 1 MB
	CREATE PROCEDURE roll_back(n int) LANGUAGE plpgsql AS $$
	DECLARE
		value text := a || '' FROM source;
	BEGIN
		FOR i IN 1..n LOOP
			IF i % 10 = 0 THEN
				BEGIN -- an exception block, of which something remains
					INSERT INTO t VALUES (i, value);
					RAISE division_by_zero;
				EXCEPTION WHEN division_by_zero THEN
					INSERT INTO t VALUES (0, 'small') ON CONFLICT (id) DO UPDATE SET a = excluded.a;
				END;
				COMMIT;
			ELSE
				INSERT INTO t VALUES (i, value);
				ROLLBACK;
			END IF;
		END LOOP;
	END $$});

# A running decoder, and its memory in kB.
sub receive
{
	my ($slot, @options) = @_;
	$node->safe_psql('postgres', "SELECT pg_create_logical_replication_slot('$slot', 'pg_vault_tde')");
	my $file = $node->basedir . "/$slot";
	my $receiver = IPC::Run::start([ 'pg_recvlogical', '-d', $node->connstr('postgres'), '-S', $slot, '--start', '-f', $file, '-s', '1', '-F', '1', '--no-loop', map { ('-o', $_) } @options ]);
	my $pid = wait_until('the walsender', sub { $node->safe_psql('postgres', "SELECT active_pid FROM pg_replication_slots WHERE slot_name = '$slot'") });
	return { slot => $slot, file => $file, receiver => $receiver, pid => $pid };
}
sub memory
{
	my ($decoder) = @_;
	my $status = slurp_file("/proc/$decoder->{pid}/status");
	my ($anonymous) = $status =~ /^RssAnon:\s*(\d+) kB/m;
	return $anonymous;
}
# Waits until a decoder has received everything up to now.
sub catch_up
{
	my ($decoder) = @_;
	$node->safe_psql('postgres', q{SELECT pg_logical_emit_message(false, 'wake', 'up'); SELECT pg_log_standby_snapshot()});
	my $lsn = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	wait_until("$decoder->{slot} to catch up", sub { $node->safe_psql('postgres', "SELECT confirmed_flush_lsn >= '$lsn' FROM pg_replication_slots WHERE slot_name = '$decoder->{slot}'") eq 't' });
}
sub end
{
	my ($decoder) = @_;
	$decoder->{receiver}->signal('INT');
	$decoder->{receiver}->finish;
	$node->safe_psql('postgres', "SELECT pg_drop_replication_slot('$decoder->{slot}')");
	unlink $decoder->{file};
}

# 5,000 transactions that insert 1 MB and roll back, before two live decoders: one that waits for commits, and one that streams.
my @decoders = (receive('whole'), receive('streamed', 'stream-changes=1'));
my (@first, $begin);
for my $batch (0 .. 25)
{
	$node->safe_psql('postgres', 'CALL roll_back(' . ($batch ? 196 : 100) . ')');
	$node->safe_psql('postgres', 'VACUUM t');
	catch_up($_) for @decoders;
	@first = map { memory($_) } @decoders unless $batch;
	$begin //= time;
	end(is_flat(1, 'streamed, after 980 more')) if $batch == 5;    # (both together take their time)
}
note(sprintf '5,000 transactions took %.1f s', time - $begin);
is_flat(0, 'whole, after 4,900 more');

# Says that the memory of a decoder has not grown; returns it, and takes it off the list unless it is the first.
sub is_flat
{
	my ($i, $what) = @_;
	my $now = memory($decoders[$i]);
	note("$what: $first[$i] kB after the first 100 transactions, $now kB now");
	cmp_ok($now, '<', $first[$i] + 4096, "memory of a decoder is flat over transactions that roll back ($what)");
	is((grep { -s $_ > 1_000_000 } glob($node->data_dir . "/pg_replslot/$decoders[$i]{slot}/*")), 0, 'no spill file is left');
	return $i ? splice @decoders, $i : ();
}

my $received = slurp_file($decoders[0]{file});
is(scalar(() = $received =~ /^table public\.t: (?:INSERT|UPDATE): id\[integer\]:0 a\[text\]:'small'$/mg), scalar(() = $received =~ /^table /mg), 'only what was committed is decoded');

# One transaction with 300 values of 1 MB: they are spilled, and the decoder holds one at a time.
push @decoders, receive('streamed', 'stream-changes=1');
my @before = map { memory($_) } @decoders;
my @peak = @before;
my $session = $node->background_psql('postgres');
$session->query_safe('ALTER TABLE t REPLICA IDENTITY FULL');
$session->query_safe(q{
	BEGIN;
	INSERT INTO t SELECT i, i || a FROM source, generate_series(1, 300) i;
	UPDATE t SET id = -id WHERE id BETWEEN 1 AND 100;
	DELETE FROM t WHERE id > 200;
	COMMIT;
	\echo BEGIN
});
my $lsn = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
wait_until('the large transaction', sub {
	for my $i (0, 1)
	{
		my $now = memory($decoders[$i]);
		$peak[$i] = $now if $now > $peak[$i];
	}
	$node->safe_psql('postgres', "SELECT bool_and(confirmed_flush_lsn >= '$lsn') FROM pg_replication_slots") eq 't';
});
$session->quit;
for my $i (0, 1)
{
	note("$decoders[$i]{slot}: $before[$i] kB before, at most $peak[$i] kB while it decodes 500 MB in a transaction");
	cmp_ok($peak[$i], '<', $before[$i] + 40_000, "memory of a decoder while it decodes many large values ($decoders[$i]{slot})");
}
is(scalar(() = slurp_file($decoders[0]{file}) =~ /^table public\.t: (?:INSERT|UPDATE|DELETE): (?:old-key: )?id\[integer\]:[1-9]\d* a\[text\]:'\d+c4ca42/mg), 500, 'they are all decoded');
end($_) for @decoders;

$node->stop;
done_testing();
