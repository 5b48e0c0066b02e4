# Plain, streaming and two-phase decoding come to the same rows, and to those of the heap twin: for savepoints, large values, DDL in
# mid-transaction, and transactions that are undone while they are being decoded. Decoders read along: by the json format, where the
# changes themselves are compared, and for stock subscribers.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Decoding;
use Vault;

# Streamed is every change at once, where a decoder wants that.
my $publisher = decoding_node('publisher', "dynamic_library_path = '" . link_path() . "'", "debug_logical_replication_streaming = 'immediate'",
	'max_replication_slots = 20', 'max_wal_senders = 20', 'log_statement = none', 'wal_retrieve_retry_interval = 100ms');
make_twins($publisher);
my $tables = q{CREATE TABLE t (id int PRIMARY KEY, x text STORAGE EXTERNAL, n int%s); CREATE TABLE whole (id int, x text STORAGE EXTERNAL); ALTER TABLE whole REPLICA IDENTITY FULL;
	CREATE TABLE log (at int)};
both($publisher, sprintf $tables, '');
$publisher->safe_psql($_, "SELECT pg_drop_replication_slot('$_')") for qw(encrypted heap);
$publisher->safe_psql('encrypted', 'CREATE PUBLICATION p FOR ALL TABLES');

# --- the decoders -------------------------------------------------------------------------------------------------------------

# [ streaming, two-phase ]
my %modes = (plain => [ 0, 0 ], streamed => [ 1, 0 ], prepared => [ 0, 1 ], both => [ 1, 1 ], heap => [ 0, 0 ]);
my %receivers;
for my $mode (sort keys %modes)
{
	my ($streaming, $two_phase) = map { $_ ? 'true' : 'false' } @{ $modes{$mode} };
	my $db = $mode eq 'heap' ? 'heap' : 'encrypted';
	$publisher->safe_psql($db, "SELECT pg_create_logical_replication_slot('$mode', 'pg_vault_tde', false, $two_phase)");
	my $file = $publisher->basedir . "/$mode";
	$receivers{$mode} = { file => $file, run => IPC::Run::start([ 'pg_recvlogical', '-d', $publisher->connstr($db), '-S', $mode, '--start', '-f', $file, '--no-loop', '-F', '1', '-s', '1',
		map { ('-o', $_) } 'format=json', 'include-types=0', 'skip-empty-xacts', "stream-changes=$streaming" ]) };
}
my $subscriber = new_node('subscriber', 'max_logical_replication_workers = 12', 'max_worker_processes = 20', 'wal_retrieve_retry_interval = 100ms', 'max_prepared_transactions = 20');
$subscriber->start;
my %subscriptions = (s_plain => 'streaming = off', s_streamed => 'streaming = on', s_parallel => 'streaming = parallel, two_phase = true', s_prepared => 'streaming = off, two_phase = true');
for my $name (sort keys %subscriptions)
{
	$subscriber->safe_psql('postgres', "CREATE DATABASE $name");
	$subscriber->safe_psql($name, sprintf($tables, ", extra int DEFAULT 5, more text") . "; CREATE SUBSCRIPTION $name CONNECTION '" . $publisher->connstr . " dbname=encrypted' PUBLICATION p WITH ($subscriptions{$name})");
	$subscriber->wait_for_subscription_sync($publisher, $name, $name);
}

# --- the workload ---------------------------------------------------------------------------------------------------------------

sub workload
{
	my ($db) = @_;
	my $big = sub { my ($what, $n) = @_; return "repeat(md5(($what)::text), $n)" };
	my $sql = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';
	# savepoints, some of which are undone, with values out of line before, in and behind them
	$sql .= qq{BEGIN; INSERT INTO t SELECT g, } . $big->('g', 300) . qq{, 0 FROM generate_series(1, 10) g; SAVEPOINT a; UPDATE t SET x = } . $big->('id + 1', 200) . qq{ WHERE id < 5;
		SAVEPOINT b; INSERT INTO t SELECT g, } . $big->('g', 400) . qq{, 0 FROM generate_series(11, 20) g; RELEASE b; UPDATE t SET n = 1 WHERE id > 8; ROLLBACK TO a;
		UPDATE t SET x = x || 'after' WHERE id IN (3, 4); INSERT INTO whole SELECT g, } . $big->('g', 100) . qq{ FROM generate_series(1, 10) g; COMMIT;};
	# DDL in mid-transaction: new columns, of which some are undone; another type; a rewrite; another identity
	$sql .= q{BEGIN; INSERT INTO t VALUES (30, 'before', 0); SAVEPOINT a; ALTER TABLE t ADD COLUMN undone text DEFAULT 'u'; INSERT INTO t VALUES (31, 'undone', 0, 'u'); ROLLBACK TO a;
		ALTER TABLE t ADD COLUMN extra int DEFAULT 5; INSERT INTO t VALUES (32, } . $big->(32, 300) . q{, 0, 6); UPDATE t SET n = 2 WHERE id = 3; ALTER TABLE t ALTER COLUMN n TYPE bigint;
		UPDATE t SET n = 3 WHERE id = 4; UPDATE t SET x = 'y' || x WHERE id = 32; CREATE INDEX ON t (n); INSERT INTO log VALUES (1); COMMIT;};
	$sql .= q{BEGIN; DELETE FROM whole WHERE id = 1; ALTER TABLE whole REPLICA IDENTITY NOTHING; INSERT INTO whole VALUES (50, 'x'); ALTER TABLE whole REPLICA IDENTITY FULL; UPDATE whole SET x = x || 'z' WHERE id < 5; COMMIT;};
	$sql .= q{BEGIN; TRUNCATE log; ALTER TABLE t ADD COLUMN more text; UPDATE t SET more = } . $big->('id', 150) . qq{ WHERE id < 4; INSERT INTO log VALUES (2); PREPARE TRANSACTION 'ddl_$db'; COMMIT PREPARED 'ddl_$db';};
	# exceptions
	$sql .= q{DO $$ BEGIN FOR i IN 100 .. 130 LOOP BEGIN INSERT INTO t VALUES (i, } . $big->('i', 200) . q{, i); UPDATE whole SET x = x || i WHERE id = 6; IF i % 3 = 0 THEN RAISE division_by_zero; END IF;
		EXCEPTION WHEN division_by_zero THEN INSERT INTO t VALUES (i, } . $big->('-i', 150) . q{, -i); END; END LOOP; END $$;};
	# transactions that are undone while they are being decoded, wholly or in part, prepared or not
	for my $i (1 .. 25)
	{
		$sql .= qq{BEGIN; INSERT INTO t SELECT g, } . $big->('g', 200) . qq{, $i FROM generate_series(1000 * $i, 1000 * $i + 5) g; UPDATE whole SET x = x || '$i' WHERE id = 7; ROLLBACK;
			BEGIN; INSERT INTO t VALUES (1000 * $i, } . $big->($i, 200) . qq{, $i); SAVEPOINT a; INSERT INTO t SELECT g, } . $big->('g', 200) . qq{, 0 FROM generate_series(1000 * $i + 1, 1000 * $i + 9) g; DELETE FROM t WHERE id = 1000 * $i; ROLLBACK TO a;
				CREATE TEMP TABLE IF NOT EXISTS temp (i int); INSERT INTO t VALUES (1000 * $i + 20, } . $big->($i, 100) . qq{, $i); COMMIT;
			BEGIN; INSERT INTO t VALUES (1000 * $i + 30, } . $big->($i, 200) . qq{, $i); SAVEPOINT a; UPDATE t SET x = 'undone' WHERE id = 1000 * $i; ROLLBACK TO a; UPDATE whole SET x = 'w' || x WHERE id = 8; COMMIT;};
	}
	# (prepared ones without DDL and without temporary tables)
	my $prepared = '';
	for my $i (1 .. 10)
	{
		my $end = $i % 2 ? 'COMMIT' : 'ROLLBACK';
		$prepared .= qq{BEGIN; INSERT INTO t SELECT g, } . $big->('g', 250) . qq{, $i FROM generate_series(50000 + 100 * $i, 50005 + 100 * $i) g; SAVEPOINT a; UPDATE t SET x = 'undone' WHERE id = 50000 + 100 * $i; ROLLBACK TO a; UPDATE whole SET x = 'p' || x WHERE id = 9;
			PREPARE TRANSACTION 'p${i}_$db'; $end PREPARED 'p${i}_$db';};
	}
	$prepared .= qq{BEGIN; INSERT INTO t VALUES (60000, } . $big->(1, 300) . qq{, 0); PREPARE TRANSACTION 'late_$db'; BEGIN; INSERT INTO t VALUES (60001, } . $big->(2, 300) . qq{, 0); PREPARE TRANSACTION 'never_$db';
		INSERT INTO t VALUES (60002, 'in between', 0); COMMIT PREPARED 'late_$db'; ROLLBACK PREPARED 'never_$db'; INSERT INTO log VALUES (999999);};
	$publisher->safe_psql($db, $sql);
	$publisher->safe_psql($db, "SET enable_seqscan = off; SET enable_bitmapscan = off; $prepared");
}
workload($_) for qw(encrypted heap);

# --- what a consumer makes of it --------------------------------------------------------------------------------------------------

# The changes of all transactions that have taken place, in the order of their ends.
sub consume
{
	my ($mode, $text) = @_;
	my (%open, %by_name, @result, %seen, $current);
	for my $line (split /\n/, $text)
	{
		my ($action, $xid, $part, $gid, $change) = $line =~ /^\{"action":"(\w+)","xid":(\d+)(?:,"subxid":(\d+))?(?:,"gid":"(\w+)")?(.*)\}$/ or die "an unknown line: $line";
		$seen{$action}++;
		$part //= $xid;
		if ($action eq 'begin') { $open{$xid} = []; }
		elsif ($action =~ /^(insert|update|delete|truncate)$/)
		{
			push @{ $open{$xid} }, [ $part, "$action$change" ];
		}
		elsif ($action eq 'stream_abort')
		{
			if ($part == $xid) { delete $open{$xid}; }
			else { $open{$xid} = [ grep { $_->[0] != $part } @{ $open{$xid} // [] } ]; }
		}
		elsif ($action =~ /^(commit|stream_commit)$/) { push @result, (map { $_->[1] } @{ delete $open{$xid} // [] }), 'end'; }
		elsif ($action =~ /^(prepare|stream_prepare)$/) { $by_name{$gid} = delete $open{$xid}; }
		elsif ($action eq 'commit_prepared') { push @result, (map { $_->[1] } @{ delete $by_name{$gid} }), 'end'; }
		elsif ($action eq 'rollback_prepared') { delete $by_name{$gid}; }
		elsif ($action !~ /^stream_(start|stop)$/) { die "an unknown line: $line"; }
	}
	# a stream that the server gave up since its transaction was gone may be without an end
	is(scalar(keys %by_name), 0, "$mode: no prepared transaction is left");
	# ends of transactions of which nothing was left are no matter
	my $lines = join "\n", @result;
	$lines =~ s/(^|\n)end(?:\nend)+/$1end/g;
	note("$mode: " . join ', ', map { "$seen{$_} $_" } sort keys %seen);
	return ($lines, \%seen);
}
my (%changes, %seen);
for my $mode (sort keys %modes)
{
	my $text = wait_until("all changes, $mode", sub { my $text = slurp_file($receivers{$mode}{file}); $text =~ /"at":999999.*\n(?:.*\n)*.*"(?:stream_)?commit"/ ? $text : undef });
	$receivers{$mode}{run}->signal('INT');
	$receivers{$mode}{run}->finish;
	($changes{$mode}, $seen{$mode}) = consume($mode, $text);
}
cmp_ok(() = $changes{plain} =~ /\n/g, '>', 250, 'there are changes');
for my $mode (qw(streamed prepared both))
{
	is_same($changes{$mode}, $changes{plain}, "$mode: the same changes as plain");
	my ($streaming, $two_phase) = @{ $modes{$mode} };
	is(!!$seen{$mode}{stream_start}, !!$streaming, "$mode: what was streamed");
	is(!!($seen{$mode}{prepare} || $seen{$mode}{stream_prepare}), !!$two_phase, "$mode: what was prepared");
	cmp_ok($seen{$mode}{stream_abort} // 0, '>', 50, "$mode: transactions were undone while they were being decoded") if $streaming;
}
is_same($changes{heap}, $changes{plain}, 'the same changes as of the heap twin');

my $content = q{SELECT (SELECT count(*) || ' ' || md5(string_agg(concat_ws(',', id, x, n, extra, more), ';' ORDER BY id)) FROM t), (SELECT md5(string_agg(w::text, ',' ORDER BY id, x)) FROM whole w), (SELECT string_agg(at::text, ',' ORDER BY at) FROM log)};
my $expected = $publisher->safe_psql('encrypted', $content);
is($expected, $publisher->safe_psql('heap', $content), 'the twins have the same rows');
for my $name (sort keys %subscriptions)
{
	$publisher->wait_for_catchup($name);
	is($subscriber->safe_psql($name, $content), $expected, "$subscriptions{$name}: the subscriber has the rows");
}
$_->stop for $subscriber, $publisher;
done_testing();
