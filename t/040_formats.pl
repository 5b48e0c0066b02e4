# Our own formats where the SQL tests do not reach: the tables chosen are those that wal2json chooses; walsenders; the memory of
# a decoder for tables that nobody asks for; messages of our prefix that are not ours.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Decoding;
use Vault;

my $node = decoding_node('formats');
make_twins($node);
my @tables = map { my $schema = $_; map { [ $schema, $_ ] } 'a', 'b', 'A', 'Odd name', 'dot.ted', 'com,ma', '*', 'back\slash', 'quo"te', q{apo'strophe} } 's1', 's2', 'S1', '*';
both($node, join '', map { "CREATE SCHEMA $_;" } qw(s1 s2 "S1" "*"));
sub quoted { return '"' . ($_[0] =~ s/"/""/gr) . '"' }
my @names = map { quoted($_->[0]) . '.' . quoted($_->[1]) } @tables;
both($node, join '', map { "CREATE TABLE $_ (id int PRIMARY KEY, x text STORAGE EXTERNAL);" } @names);
both($node, join '', map { "INSERT INTO $_ VALUES (1, 'x'), (2, repeat('long', 2000)); UPDATE $_ SET id = 3 WHERE id = 1; UPDATE $_ SET x = 'y' WHERE id = 2; DELETE FROM $_ WHERE id = 3; TRUNCATE $_;" } @names);

# --- the tables chosen ------------------------------------------------------------------------------------------------------

sub options { my (%options) = @_; return join '', map { ", '$_', '" . ($options{$_} =~ s/'/''/gr) . "'" } sort keys %options; }

# The changes as "action schema table", by wal2json or by us.
sub chosen
{
	my ($wal2json, %options) = @_;
	my $list = $wal2json ? options(%options, 'plugin' => 'wal2json', 'format-version' => 2, 'include-transaction' => 0) : options(%options, format => 'json', 'skip-empty-xacts' => 1);
	my $sql = q{SELECT string_agg(upper(left(line ->> 'action', 1)) || ' ' || coalesce(line ->> 'schema', line #>> '{tables,0,schema}') || ' ' || coalesce(line ->> 'table', line #>> '{tables,0,table}'), E'\n')
		FROM (SELECT data::json AS line FROM pg_logical_slot_peek_changes('encrypted', NULL, NULL} . $list . q{)) x WHERE line ->> 'action' NOT IN ('begin', 'commit')};
	return $node->safe_psql('encrypted', "SET pg_vault_tde.inner_plugins = 'wal2json'; $sql");
}

SKIP:
{
	skip('wal2json is not installed', 1) unless has_plugin('wal2json');
	my @lists = ('s1.a', 's1.*', '*.a', '*.*', 's1.a,s2.b', "  s1.a ,\ts2.b ", 's1.A', 'S1.a', 's1.Odd\ name', 's1.dot\.ted,s2.com\,ma', 's1.\*', '\*.a', '\*.\*',
		's1.back\\\\slash', 's1.quo"te', q{s1.apo'strophe}, 's1.\a', 'none.none', '');
	for my $list (@lists)
	{
		for my $option (qw(add-tables filter-tables))
		{
			is_same(chosen(0, $option => $list), chosen(1, $option => $list), "$option = $list: the tables that wal2json chooses");
		}
	}
	for my $pair ([ 's1.*', '*.a' ], [ '*.a,*.b', 's2.*' ], [ '*.*', '*.*' ], [ '', 's1.*' ], [ 's1.*', '' ])
	{
		my %options = ('add-tables' => $pair->[0], 'filter-tables' => $pair->[1]);
		is_same(chosen(0, %options), chosen(1, %options), "add-tables = $pair->[0], filter-tables = $pair->[1]: both together");
	}
}
isnt(chosen(0, 'add-tables' => 's1.*'), chosen(0), 'some are chosen');

# --- a walsender ------------------------------------------------------------------------------------------------------------

sub receive
{
	my ($slot, @options) = @_;
	my ($out, $err) = ('', '');
	my $end = $node->safe_psql('postgres', 'SELECT pg_current_wal_flush_lsn()');
	my $done = IPC::Run::run([ 'pg_recvlogical', '-S', $slot, '-d', $node->connstr('encrypted'), '--no-loop', '--start', '-E', $end, '-f', '-', map { ('-o', $_) } @options ],
		'<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return ($done, $out, $err);
}
for my $wrong ([ 'nonsense', qr/option "nonsense" = "\(null\)" is unknown/ ], [ 'format', qr/option "format" needs a value/ ], [ 'add-tables', qr/option "add-tables" needs a value/ ],
	[ 'format=csv', qr/could not parse value "csv" for parameter "format"/ ], [ 'filter-tables=x', qr/could not parse pattern "x" for parameter "filter-tables"/ ],
	[ 'include-lsn=x', qr/could not parse value "x" for parameter "include-lsn"/ ])
{
	my ($done, $out, $err) = receive('encrypted', $wrong->[0]);
	ok(!$done && $err =~ $wrong->[1], "walsender, $wrong->[0]: an error that names the option") or diag($err);
}
my @options = ('format=json', 'include-xids=0', 'skip-empty-xacts', 'add-tables=s1.a');
# in a session with other settings than the function's
$node->safe_psql('postgres', q{ALTER DATABASE encrypted SET datestyle = 'German'; ALTER DATABASE encrypted SET timezone = 'Asia/Tokyo'; ALTER DATABASE encrypted SET bytea_output = escape});
$node->safe_psql('encrypted', q{CREATE TABLE s1.kinds (at timestamptz, b bytea, f float8); INSERT INTO s1.kinds VALUES ('2026-01-01 00:00+00', '\x01', 'NaN')});
my $sql = $node->safe_psql('encrypted', q{SET timezone = 'Europe/Rome'; SELECT data FROM pg_logical_slot_peek_changes('encrypted', NULL, NULL, 'format', 'json', 'include-xids', '0', 'skip-empty-xacts', '1', 'add-tables', 's1.a,s1.kinds')});
like($sql, qr/"new":\{"at":"2026-01-01 00:00:00\+00","b":"\\\\x01","f":"NaN"\}/, 'json: times in UTC, bytea in hex');
my ($done, $out, $err) = receive('encrypted', @options[0 .. 2], 'add-tables=s1.a,s1.kinds');
is_same($out, "$sql\n", 'walsender: json as by the SQL functions, whatever the settings');
if ($node->safe_psql('postgres', 'SHOW server_version_num') >= 180000)
{
	$node->safe_psql('encrypted', q{CREATE TABLE s1.generated (id int, twice int GENERATED ALWAYS AS (id * 2) STORED, thrice int GENERATED ALWAYS AS (id * 3) VIRTUAL); INSERT INTO s1.generated VALUES (1)});
	like($node->safe_psql('encrypted', q{SELECT data FROM pg_logical_slot_peek_changes('encrypted', NULL, NULL, 'format', 'json', 'add-tables', 's1.generated')}),
		qr/"types":\{"id":"integer","twice":"integer"\},"new":\{"id":1,"twice":2\}/, 'json: generated columns as far as they are stored');
}
$node->safe_psql('postgres', 'ALTER DATABASE encrypted RESET ALL; ALTER DATABASE encrypted SET default_table_access_method = encrypted_heap');

# --- values of tables that nobody asks for --------------------------------------------------------------------------------

$node->safe_psql('encrypted', 'CREATE TABLE large (id int PRIMARY KEY, x text STORAGE EXTERNAL); CREATE TABLE small (id int)');
$node->safe_psql('encrypted', "SELECT pg_replication_slot_advance('encrypted', pg_current_wal_insert_lsn())");
my $value = q{(SELECT string_agg(md5(i::text || g), '') FROM generate_series(1, 4000) i)};    # 128 kB
$node->safe_psql('encrypted', "BEGIN; INSERT INTO small VALUES (1); INSERT INTO large SELECT g, $value FROM generate_series(1, 400) g; INSERT INTO small VALUES (2); COMMIT");
my $session = $node->background_psql('encrypted');
my $pid = $session->query_safe('SELECT pg_backend_pid()');
my $count = sub { my ($options) = @_; return $session->query_safe("SET logical_decoding_work_mem = '1MB'; SELECT count(*) FROM pg_logical_slot_peek_changes('encrypted', NULL, NULL, 'skip-empty-xacts', '1'$options)"); };
$session->query_safe('SELECT 1');
my $before = memory_of($pid, 'VmHWM');
is($count->(q{, 'filter-tables', 'public.large'}), 4, 'a table that is filtered out: its changes are not sent');
cmp_ok(memory_of($pid, 'VmHWM') - $before, '<', 20_000, '... and its values, 50 MB, are not kept');
is($count->(''), 404, 'without the filter they are sent');
$session->quit;

# --- messages of our prefix that are not ours -----------------------------------------------------------------------------

# Any user can send them. What may not come of it: a row that cannot be decoded, another value, a halted slot.
both($node, 'DROP TABLE IF EXISTS large; CREATE TABLE v (id int PRIMARY KEY, x text STORAGE EXTERNAL)');
$node->safe_psql('encrypted', "SELECT pg_replication_slot_advance('encrypted', pg_current_wal_insert_lsn())");
my $toast = $node->safe_psql('encrypted', q{SELECT reltoastrelid FROM pg_class WHERE relname = 'v'});
# The header of t/../src/toast/message.rs: version, kind, flags; TOAST table, value, size, first piece, transaction.
my $forge = q{CREATE FUNCTION forge(kind text, value_id int8, size int, first_seq int, rest bytea) RETURNS pg_lsn LANGUAGE sql AS $$
	SELECT pg_logical_emit_message(true, 'pg_vault_tde', '\x01'::bytea || kind::bytea || '\x0000'::bytea || (SELECT string_agg(set_byte(set_byte(set_byte(set_byte('\x00000000'::bytea, 0, (w & 255)::int),
		1, (w >> 8 & 255)::int), 2, (w >> 16 & 255)::int), 3, (w >> 24 & 255)::int), '' ORDER BY n)
		FROM unnest(ARRAY[} . $toast . q{, value_id, size, first_seq, pg_current_xact_id()::text::int8]) WITH ORDINALITY AS u(w, n)) || rest) $$};
$node->safe_psql('encrypted', "$forge; ALTER TABLE v REPLICA IDENTITY FULL; " . q{
	CREATE FUNCTION forge_all(id int8) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		PERFORM forge('X', id, 0, 0, ''), forge('X', id, 0, 0, decode(repeat('00', 33), 'hex')), forge('X', id, 0, 0, decode(repeat('ab', 4000), 'hex')),
			forge('N', id, 6000, 0, ''), forge('N', id, 6000, 0, decode(repeat('00', 1996), 'hex')), forge('O', id, 6000, 0, decode(repeat('00', 1996), 'hex')),
			forge('N', id, 12, 0, decode(repeat('00', 41), 'hex')), forge('N', id, 6000, 7, ''), forge('N', id, 6000, 3, decode(repeat('00', 1996), 'hex')),
			forge('N', id, 2147483647, 0, decode(repeat('00', 1996), 'hex')), forge('Q', id, 1, 1, ''),
			pg_logical_emit_message(true, 'pg_vault_tde', ''), pg_logical_emit_message(true, 'pg_vault_tde', '\x01'::bytea), pg_logical_emit_message(false, 'pg_vault_tde', 'x');
	END $$;
	CREATE FUNCTION after_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM forge_all(pg_column_toast_chunk_id(NEW.x)::int8); RETURN NULL; END $$;
	INSERT INTO v VALUES (1, repeat('long', 1500));
	BEGIN; SELECT forge_all(pg_column_toast_chunk_id(x)::int8) FROM v; UPDATE v SET id = 2; SELECT forge_all(pg_column_toast_chunk_id(x)::int8) FROM v; DELETE FROM v; COMMIT});
my $decoded = sub { return $node->safe_psql('encrypted', q{SELECT replace(data, repeat('long', 1500), 'LONG') FROM pg_logical_slot_peek_changes('encrypted', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1') WHERE data LIKE 'table public.v%'}); };
is_same($decoded->(), "table public.v: INSERT: id[integer]:1 x[text]:'LONG'\n"
	  . "table public.v: UPDATE: old-key: id[integer]:1 x[text]:'LONG' new-tuple: id[integer]:2 x[text]:unchanged-toast-datum\n"
	  . "table public.v: DELETE: id[integer]:2 x[text]:'LONG'", 'forged messages do no harm');

# The value that comes next is known by the sequence of OIDs.
$node->safe_psql('encrypted', q{SELECT pg_replication_slot_advance('encrypted', pg_current_wal_insert_lsn());
	CREATE FUNCTION before_row() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE last int8; BEGIN
		SELECT max(pg_column_toast_chunk_id(x)::int8) INTO last FROM v;
		FOR i IN 0 .. 3 LOOP PERFORM forge_all(last + i); END LOOP; RETURN NEW; END $$;
	CREATE TRIGGER forge BEFORE INSERT ON v FOR EACH ROW EXECUTE FUNCTION before_row();
	INSERT INTO v VALUES (10, repeat('long', 1500)); INSERT INTO v SELECT g, repeat('long', 1500) FROM generate_series(11, 14) g;
	INSERT INTO v VALUES (11, repeat('long', 1500)) ON CONFLICT (id) DO UPDATE SET x = 'x' || EXCLUDED.x});
is_same($decoded->(), join("\n", (map { "table public.v: INSERT: id[integer]:$_ x[text]:'LONG'" } 10 .. 14),
	"table public.v: UPDATE: old-key: id[integer]:11 x[text]:'LONG' new-tuple: id[integer]:11 x[text]:'xLONG'"), '... nor in front of a row');

# A value is taken back when the row's old version turns out to be changed: the UPDATE starts again, with another one.
$node->safe_psql('encrypted', q{DROP TRIGGER forge ON v; SELECT pg_replication_slot_advance('encrypted', pg_current_wal_insert_lsn());});
my ($first, $second) = map { $node->background_psql('encrypted') } 1, 2;
$first->query_safe("BEGIN; UPDATE v SET id = 100 WHERE x = 'x' || repeat('long', 1500)");
my $waiting = $second->query_safe('SELECT pg_backend_pid()');
$second->query_until(qr/started/, "\\echo started\nBEGIN; UPDATE v SET x = id || repeat('long', 1500) WHERE x LIKE 'xlong%'; COMMIT;\n\\echo done\n");
$node->poll_query_until('postgres', "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $waiting") or die 'it does not wait';
$first->query_safe('COMMIT');
$second->query_until(qr/done/, "\n");
$_->quit for $first, $second;
is_same($decoded->(), "table public.v: UPDATE: old-key: id[integer]:11 x[text]:'xLONG' new-tuple: id[integer]:100 x[text]:unchanged-toast-datum\n"
	  . "table public.v: UPDATE: old-key: id[integer]:100 x[text]:'xLONG' new-tuple: id[integer]:100 x[text]:'100LONG'", 'a value that was taken back');
$node->stop;
done_testing();
