# Whatever goes wrong is an ERROR that names its cause, by the SQL functions, on walsenders and for subscribers; and the slot works
# afterwards, in the same session, too.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Decoding;
use Vault;

my $node = decoding_node('publisher', "dynamic_library_path = '" . link_path() . "'", 'max_replication_slots = 20', 'wal_retrieve_retry_interval = 100ms');
my $db = 'postgres';
my $major = substr $node->safe_psql($db, 'SHOW server_version_num'), 0, 2;
$node->safe_psql($db, q{CREATE EXTENSION pg_vault_tde; CREATE TYPE mood AS ENUM ('sad', 'ok');
	CREATE TABLE t (id int PRIMARY KEY, x text STORAGE EXTERNAL) USING encrypted_heap; CREATE TABLE m (id int PRIMARY KEY, feels mood) USING encrypted_heap; CREATE TABLE plain (id int PRIMARY KEY);
	CREATE PUBLICATION p FOR TABLE t;
	SELECT pg_create_logical_replication_slot('cdc', 'pg_vault_tde'), pg_create_logical_replication_slot('native', 'pgoutput')});

sub receive
{
	my ($slot, @options) = @_;
	my ($out, $err) = ('', '');
	my $end = $node->safe_psql($db, 'SELECT pg_current_wal_flush_lsn()');
	my $done = IPC::Run::run([ 'pg_recvlogical', '-S', $slot, '-d', $node->connstr($db), '--no-loop', '--start', '-E', $end, '-f', '-', map { ('-o', $_) } @options ],
		'<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return ($done, $out, $err);
}
sub psql_fails
{
	my ($sql, $pattern, $name) = @_;
	my ($status, undef, $err) = $node->psql($db, $sql);
	ok($status != 0 && $err =~ $pattern, $name) or diag($err);
}
sub receive_fails
{
	my ($slot, $pattern, $name, @options) = @_;
	my ($done, undef, $err) = receive($slot, @options);
	ok(!$done && $err =~ $pattern, $name) or diag($err);
}

# --- the library is not preloaded -----------------------------------------------------------------------------------------------

my $subscriber = new_node('subscriber', 'wal_retrieve_retry_interval = 100ms');
$subscriber->start;
$subscriber->safe_psql($db, 'CREATE TABLE t (id int PRIMARY KEY, x text)');
my $from = $node->connstr . " dbname=$db";
$subscriber->safe_psql($db, "CREATE SUBSCRIPTION sub CONNECTION '$from' PUBLICATION p");
$subscriber->wait_for_subscription_sync($node, 'sub');
$node->safe_psql($db, q{INSERT INTO t VALUES (1, repeat('one', 3000))});
$node->wait_for_catchup('sub');
my $preload = qr/pg_vault_tde must be loaded through "shared_preload_libraries".*Add pg_vault_tde to/s;
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
my $at = -s $subscriber->logfile;
$node->restart;
my $native = q{'native', NULL, NULL, 'proto_version', '1', 'publication_names', 'p'};
psql_fails(q{SELECT * FROM pg_logical_slot_peek_changes('cdc', NULL, NULL)}, $preload, 'not preloaded: by SQL');
psql_fails("SELECT * FROM pg_logical_slot_peek_binary_changes($native)", $preload, "not preloaded, in pgoutput's place: by SQL");
psql_fails(q{LOAD 'pg_vault_tde'; SELECT pg_create_logical_replication_slot('new', 'pg_vault_tde')}, $preload, 'not preloaded: LOAD');
psql_fails(q{LOAD '$libdir/pg_vault_tde/pgoutput'; SELECT pg_create_logical_replication_slot('new', 'pgoutput')}, $preload, 'not preloaded: LOAD of the link');
psql_fails(q{SELECT pg_create_logical_replication_slot('new', 'pgoutput')}, $preload, 'not preloaded: a new slot');
psql_fails(q{SET dynamic_library_path = '$libdir'; SELECT * FROM pg_logical_slot_peek_binary_changes(} . "$native)", $preload, 'not preloaded, and pgoutput itself: the encrypted table');
receive_fails('cdc', $preload, 'not preloaded: a walsender');
receive_fails('native', $preload, "not preloaded, in pgoutput's place: a walsender", 'proto_version=1', 'publication_names=p');
$subscriber->wait_for_log(qr/ERROR: .*could not start WAL streaming: ERROR: +pg_vault_tde must be loaded through "shared_preload_libraries"/, $at);
pass('not preloaded: a subscriber');
my (undef, undef, $err) = $subscriber->psql($db, "CREATE SUBSCRIPTION other CONNECTION '$from' PUBLICATION p");
like($err, qr/pg_vault_tde must be loaded through/, 'not preloaded: a new subscription');
is($node->safe_psql($db, 'SELECT count(*) FROM pg_replication_slots'), 3, 'no slot is left');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_vault_tde'");
$node->restart;
$node->safe_psql($db, q{UPDATE t SET id = 2});
$node->wait_for_catchup('sub');
is($subscriber->safe_psql($db, 'SELECT id, length(x) FROM t'), '2|9000', 'preloaded again: the subscriber goes on');
like($node->safe_psql($db, q{SELECT data FROM pg_logical_slot_peek_changes('cdc', NULL, NULL)}), qr/UPDATE: old-key: id\[integer\]:1 new-tuple: id\[integer\]:2/, '... and the slot');

# --- wrong options and plugins, on a walsender --------------------------------------------------------------------------------------

for my $wrong (
	[ qr/option "nonsense" = "1" is unknown/, 'nonsense=1' ], [ qr/option "include-xids" is given more than once/, 'include-xids=0', 'include-xids=1' ],
	[ qr/could not parse value "x" for parameter "include-timestamp"/, 'include-timestamp=x' ], [ qr/option "format" is given more than once/, 'format=json', 'format=json' ],
	[ qr/option "plugin" is given more than once/, 'plugin=pgoutput', 'plugin=test_decoding' ], [ qr/option "plugin" needs the name of an output plugin/, 'plugin' ],
	[ qr/output plugin "plpgsql" may not be used through pg_vault_tde/, 'plugin=plpgsql' ], [ qr/output plugin "" may not be used/, 'plugin=' ],
	[ qr/output plugin "\.\.\/x" may not be used/, 'plugin=../x' ], [ qr/option "nonsense" = "1" is unknown/, 'plugin=test_decoding', 'nonsense=1' ],
	[ qr/unrecognized pgoutput option: nonsense/, 'proto_version=1', 'publication_names=p', 'nonsense=1' ], [ qr/proto_version=99/, 'proto_version=99', 'publication_names=p' ],
	[ qr/publication_names/, 'proto_version=1' ], ($major < 18 ? [ qr/publication "absent" does not exist/, 'proto_version=1', 'publication_names=absent' ] : ()))
{
	my ($pattern, @options) = @$wrong;
	receive_fails('cdc', $pattern, "a walsender, @options", @options);
}
psql_fails(q{SET pg_vault_tde.inner_plugins = 'absent'; SELECT * FROM pg_logical_slot_peek_changes('cdc', NULL, NULL, 'plugin', 'absent')}, qr{could not access file ".*/absent": No such file}, 'a plugin that is not installed');
psql_fails(q{SET pg_vault_tde.inner_plugins = 'a b, "'; SELECT * FROM pg_logical_slot_peek_changes('cdc', NULL, NULL, 'plugin', 'test_decoding')}, qr/output plugin "test_decoding" may not be used/, 'a list of plugins that is none');
my ($done, $out) = receive('cdc', 'include-xids=0', 'skip-empty-xacts');
like($out, qr/UPDATE: old-key: id\[integer\]:1 new-tuple: id\[integer\]:2/, 'the slot works after all these');
if ($major >= 18)
{
	my $at = -s $node->logfile;
	$node->safe_psql($db, q{INSERT INTO t VALUES (5, 'five')});
	receive('cdc', 'proto_version=1', 'publication_names=absent');
	$node->wait_for_log(qr/WARNING: .*publication "absent"|skipped loading publication "absent"/, $at);
	pass('a publication that is missing: 18 warns');
}

# --- no extension ---------------------------------------------------------------------------------------------------------------------

$node->safe_psql($db, 'CREATE DATABASE bare');
$node->safe_psql('bare', q{CREATE TABLE t (id int); SELECT pg_create_logical_replication_slot('bare', 'pg_vault_tde', false, true); INSERT INTO t VALUES (1)});
my $missing = qr/extension "pg_vault_tde" is not installed in database "bare".*CREATE EXTENSION pg_vault_tde/s;
for my $options ('', q{, 'format', 'json'}, q{, 'plugin', 'test_decoding'}, q{, 'proto_version', '1', 'publication_names', 'p'})
{
	(undef, undef, $err) = $node->psql('bare', "SELECT * FROM pg_logical_slot_peek_binary_changes('bare', NULL, NULL$options)");
	like($err, $missing, "no extension$options");
}
my @results = walsender_session($node, 'bare', ('START_REPLICATION SLOT bare LOGICAL 0/0') x 2);
like($_->{error}, $missing, 'no extension: a walsender') for @results;
$node->safe_psql('bare', 'CREATE EXTENSION pg_vault_tde');
is($node->safe_psql('bare', q{SELECT string_agg(data, ' ') FROM pg_logical_slot_get_changes('bare', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1')}),
	'BEGIN table public.t: INSERT: id[integer]:1 COMMIT', '... the slot works once it is there');
$node->safe_psql('bare', q{SELECT pg_drop_replication_slot('bare')});

# --- advance, peek and get in one session, with errors between -----------------------------------------------------------------------------

$node->safe_psql($db, q{SELECT pg_create_logical_replication_slot('guarded', 'test_decoding'); SELECT pg_replication_slot_advance('cdc', pg_current_wal_lsn());
	INSERT INTO t VALUES (10, repeat('ten', 3000)); UPDATE t SET id = 11 WHERE id = 10; INSERT INTO m VALUES (1, 'sad'); DELETE FROM t WHERE id = 11; INSERT INTO plain VALUES (1)});
my $session = $node->background_psql($db, on_error_stop => 0);
# each gives the changes as a line, or the error
my $peek = sub { my ($function, @arguments) = @_; my $list = join '', map { ", '$_'" } 'include-xids', 0, 'skip-empty-xacts', 1, @arguments;
	return "SELECT string_agg(substr(data, 14, 13), ',') FROM pg_logical_slot_${function}_changes('cdc', NULL, %s$list) WHERE data LIKE 'table%%'" };
my @steps = (
	[ sprintf($peek->('peek'), 'NULL'), 't: INSERT: id,t: UPDATE: ol,m: INSERT: id,t: DELETE: id,plain: INSERT' ],
	[ sprintf($peek->('peek', 'nonsense', 1), 'NULL'), '!option "nonsense" = "1" is unknown' ],
	[ sprintf($peek->('get'), 1), 't: INSERT: id' ],
	[ q{SELECT * FROM pg_logical_slot_get_changes('guarded', NULL, NULL)}, '!output plugin "test_decoding" cannot decode encrypted table public.t' ],
	[ sprintf($peek->('peek'), 'NULL'), 't: UPDATE: ol,m: INSERT: id,t: DELETE: id,plain: INSERT' ],
	[ 'SELECT count(*) FROM m', '1' ],
	[ sprintf($peek->('get', 'plugin', 'plpgsql'), 'NULL'), '!output plugin "plpgsql" may not be used' ],
	[ sprintf($peek->('get'), 1), 't: UPDATE: ol' ],
	[ q{BEGIN; SAVEPOINT a; SELECT * FROM pg_logical_slot_get_changes('guarded', NULL, NULL)}, '!cannot decode encrypted table public.t' ],
	[ 'ROLLBACK TO a; ' . sprintf($peek->('peek'), 'NULL'), 'm: INSERT: id,t: DELETE: id,plain: INSERT' ],
	[ 'SELECT 1/0', '!division by zero' ],
	[ 'ROLLBACK; ' . sprintf($peek->('peek', 'format', 'json', 'add-tables', 'x'), 'NULL'), '!could not parse pattern "x"' ],
	[ q{SELECT count(*) FROM pg_logical_slot_peek_binary_changes('cdc', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')}, '4' ],
	[ q{SELECT count(*) FROM pg_logical_slot_peek_binary_changes('cdc', NULL, NULL, 'proto_version', '77', 'publication_names', 'p')}, '!proto_version=77' ],
	[ sprintf($peek->('get'), 1), 'm: INSERT: id' ],
	[ q{SELECT slot_name FROM pg_replication_slot_advance('cdc', pg_current_wal_lsn()); } . sprintf($peek->('get'), 'NULL'), "cdc\n" ],
	[ q{SELECT pg_replication_slot_advance('cdc', '0/1')}, '!cannot advance replication slot' ],
	[ 'INSERT INTO t VALUES (20); ' . sprintf($peek->('get'), 'NULL'), 't: INSERT: id' ]);
my $n = 0;
for my $step (@steps)
{
	my ($sql, $expected) = @$step;
	$n++;
	my $out = $session->query($sql);
	my $err = $session->{stderr};
	$session->{stderr} = '';
	if ($expected =~ s/^!//) { like($err, qr/ERROR: .*\Q$expected\E/, "step $n: an error"); }
	else { is($out =~ s/^(BEGIN|ROLLBACK|INSERT .*)\n//mgr, $expected, "step $n: the changes"); }
}
$session->quit;

# --- one walsender, several sessions of decoding -----------------------------------------------------------------------------------------

# What the relation cache knows of an encrypted table from a session of ours, which an error has ended, must not lead another
# plugin past the guard. (The error: of an output function, since the value's label is gone. After a session that ends well core
# never starts another one on the same walsender.)
my $guarded = qr/output plugin "test_decoding" cannot decode encrypted table public\.t/;
my $other = q{START_REPLICATION SLOT guarded LOGICAL 0/0 ("skip-empty-xacts")};
$node->safe_psql($db, q{ALTER PUBLICATION p ADD TABLE m});
$node->safe_psql($db, q{SELECT pg_replication_slot_advance(slot_name, pg_current_wal_lsn()) FROM pg_replication_slots WHERE slot_name IN ('cdc', 'guarded', 'native');
	INSERT INTO t VALUES (30, 'thirty'); INSERT INTO plain VALUES (30)});
$node->safe_psql($db, q{SET allow_system_table_mods = on; DELETE FROM pg_enum WHERE enumlabel = 'sad'; UPDATE m SET id = 2});
for my $ours (q{cdc LOGICAL 0/0}, q{cdc LOGICAL 0/0 (format 'json')}, q{cdc LOGICAL 0/0 (plugin 'test_decoding')}, q{native LOGICAL 0/0 (proto_version '1', publication_names 'p')})
{
	my @results = walsender_session($node, $db, "START_REPLICATION SLOT $ours", $other, "START_REPLICATION SLOT $ours", $other);
	like($results[$_]{data}, qr/thirty/, "$ours: the row") for 0, 2;
	like($results[$_]{error}, qr/invalid internal value for enum/, '... and an error') for 0, 2;
	like($results[$_]{error}, $guarded, 'then another plugin on the same walsender: the guard') for 1, 3;
	unlike($results[$_]{data}, qr/public\.t/, '... and no row') for 1, 3;
}
$_->stop for $subscriber, $node;
done_testing();
