# Bad input: a clear error that helps, shows nothing secret, and leaves a server that goes on working.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use File::Copy qw(copy);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

my $node = new_node('errors', [ without_checksums() ]);
my $key_file = $node->basedir . '/key';
my $good_key = slurp_file($key_file);
my @keys = ($good_key);    # of which none may ever be shown

# Says that a statement fails with the patterns in its error report; that this shows no plaintext; and that the server lives.
sub fails_like
{
	my ($name, $db, $sql, @patterns) = @_;
	my ($status, $out, $err) = $node->psql($db, "\\set VERBOSITY verbose\n$sql", on_error_die => 0);
	isnt($status, 0, "$name: is an error");
	like($err, $_, "$name: the report") for @patterns;
	unlike("$out$err", qr/SECRET/, "$name: shows no plaintext");
	is($node->safe_psql('postgres', 'SELECT 1'), 1, "$name: the server lives");
	return $err;
}

# Sets something in the file, where the last line counts; takes effect at the next start, or at a reload.
sub configure
{
	my ($name, $value) = @_;
	$node->append_conf('postgresql.conf', "$name = '$value'");
}

# --- not preloaded --------------------------------------------------------------------------------------------------------

configure('shared_preload_libraries', '');
$node->start;
my $preload = qr/shared_preload_libraries/;
fails_like('CREATE EXTENSION without preloading', 'postgres', 'CREATE EXTENSION pg_vault_tde', $preload, qr/HINT: .*restart/s);
fails_like('LOAD instead of preloading', 'postgres', "LOAD 'pg_vault_tde'; CREATE EXTENSION pg_vault_tde", $preload);
fails_like('a slot without preloading', 'postgres', "SELECT pg_create_logical_replication_slot('s', 'pg_vault_tde')", $preload);
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), 0, '... and no slot is left');

configure('shared_preload_libraries', 'pg_vault_tde');
$node->restart;
$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_vault_tde;
	CREATE TABLE t (id int PRIMARY KEY, x text) USING encrypted_heap;
	INSERT INTO t SELECT i, 'SECRET ' || i FROM generate_series(1, 20) i;
	CREATE TABLE plain AS SELECT 1 AS id;
	CREATE TABLE indexed (id int);
	INSERT INTO indexed SELECT generate_series(1, 1000);
	CREATE INDEX ON indexed USING encrypted_btree (id);
	SELECT pg_create_logical_replication_slot('slot', 'pg_vault_tde')});

configure('shared_preload_libraries', '');
$node->restart;
fails_like('SELECT without preloading', 'postgres', 'SELECT * FROM t', $preload);
fails_like('an encrypted index without preloading', 'postgres', 'SELECT id FROM indexed WHERE id = 3', $preload);
is($node->safe_psql('postgres', q{
		SET enable_hashjoin = off; SELECT p.id, count(*) FROM plain p JOIN plain q ON p.id <= q.id JOIN plain r ON r.id = q.id GROUP BY p.id ORDER BY p.id}),
	'1|1', 'other tables without preloading');
fails_like('INSERT without preloading', 'postgres', "INSERT INTO t VALUES (21, '')", $preload);
fails_like('decoding without preloading', 'postgres', "SELECT * FROM pg_logical_slot_peek_changes('slot', NULL, NULL)", $preload);
is($node->safe_psql('postgres', 'SELECT id FROM plain'), 1, 'other tables can be read without preloading');
configure('shared_preload_libraries', 'pg_vault_tde');
$node->restart;
is($node->safe_psql('postgres', 'SELECT count(*), max(x) FROM t'), '20|SECRET 9', 'and with it all is there');

# --- key files ------------------------------------------------------------------------------------------------------------

# Each is found out where a key is wrapped, which is done here by a rotation, without a restart; and cured by putting the file
# right.
mkdir $node->basedir . '/directory';
my %wrong = (
	'no key file' => [ 'none', qr/key_file" is not set/ ],
	'a missing key file' => [ $node->basedir . '/nowhere', qr/could not open .*nowhere.*No such file/ ],
	'a directory as key file' => [ $node->basedir . '/directory', qr/directory/ ],
	'a key file of another user' => [ '/etc/passwd', qr/belongs to another user/ ],    # (of root, who never runs a server)
	'an empty key file' => [ '', qr/does not hold a key.*64 hexadecimal digits/s ],
	'a key file that is too short' => [ substr($good_key, 0, 62), qr/does not hold a key/ ],
	'a key file that is too long' => [ $good_key . '00', qr/does not hold a key/ ],
	'a key file with something else in it' => [ 'g' x 64, qr/does not hold a key/ ],
	'a key file that others can read' => [ $good_key, qr/permissions .* too wide.*0644.*0600/s, 0644 ],
	'a key file that the group can write' => [ $good_key, qr/permissions .* too wide.*0620/s, 0620 ]);
for my $what (sort keys %wrong)
{
	my ($content, $pattern, $mode) = @{ $wrong{$what} };
	my $path = "$key_file.wrong";
	if ($content eq 'none')      { $path = ''; }
	elsif ($content =~ m{^/}) { $path = $content; }
	else                      { write_key($path, $content, $mode); }
	configure('pg_vault_tde.key_file', $path);
	$node->reload;
	$node->poll_query_until('postgres', "SELECT current_setting('pg_vault_tde.key_file') = '$path'");
	fails_like($what, 'postgres', 'SELECT vault_tde.rotate_key()', $pattern, qr/HINT/);
	is($node->safe_psql('postgres', q{SELECT ok, value ~ '[0-9a-f]{32}' FROM vault_tde.status() WHERE item = 'key provider usable'}),
		'f|f', "$what: status() says so");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), 20, "$what: the keys that are known go on working");
	unlink "$key_file.wrong";
}
configure('pg_vault_tde.key_file', $key_file);
$node->reload;
$node->poll_query_until('postgres', "SELECT current_setting('pg_vault_tde.key_file') = '$key_file'");
is($node->safe_psql('postgres', 'SELECT vault_tde.rotate_key()'), 2, 'with the right key file a rotation works');
$node->safe_psql('postgres', q{INSERT INTO t VALUES (21, 'SECRET 21')});

# The key file is gone, or is another, when the server starts: it starts all the same.
for (
	[ 'no key file at start', sub { rename $key_file, "$key_file.away" }, sub { rename "$key_file.away", $key_file }, qr/could not open/ ],
	[ 'another key at start', sub { push @keys, write_key($key_file) }, sub { write_key($key_file, $good_key) }, qr/does not fit the data key of generation [12]/ ])
{
	my ($what, $break, $mend, $pattern) = @$_;
	$break->();
	$node->restart;
	is($node->safe_psql('postgres', 'SELECT id FROM plain'), 1, "$what: other tables can be read");
	fails_like("$what: SELECT", 'postgres', 'SELECT * FROM t', $pattern, qr/HINT/);
	fails_like("$what: INSERT", 'postgres', "INSERT INTO t VALUES (22, 'SECRET')", $pattern);
	fails_like("$what: UPDATE", 'postgres', "UPDATE t SET x = 'SECRET'", $pattern);
	fails_like("$what: CREATE INDEX", 'postgres', 'CREATE INDEX ON t (x)', $pattern);
	fails_like("$what: decoding", 'postgres', "SELECT * FROM pg_logical_slot_peek_changes('slot', NULL, NULL)", $pattern);
	$mend->();
	is($node->safe_psql('postgres', 'SELECT count(*), max(x) FROM t'), '21|SECRET 9', "$what: and it recovers without a restart");
	like($node->safe_psql('postgres', "SELECT string_agg(data, ' ') FROM pg_logical_slot_peek_changes('slot', NULL, NULL)"),
		qr/SECRET 21/, "$what: decoding, too");
}

# A data key is lost: its file is one from before the rotation.
$node->safe_psql('postgres', 'CREATE TABLE lost (x text) USING encrypted_heap; INSERT INTO lost VALUES (\'SECRET older\'); CHECKPOINT');
my $keys_path = $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('vault_tde.data_keys')");
copy($keys_path, "$key_file.rows");
$node->safe_psql('postgres', 'SELECT vault_tde.rotate_key(); INSERT INTO lost VALUES (\'SECRET newer\')');
$node->stop;
copy($keys_path, "$key_file.rows-after");
copy("$key_file.rows", $keys_path);
$node->start;
fails_like('a lost data key', 'postgres', 'SELECT x FROM lost', qr/ERROR:  XX001: .*\(0,2\) of table "lost".*key/, qr/HINT/);
is($node->safe_psql('postgres', "SELECT x FROM lost WHERE ctid = '(0,1)'"), 'SECRET older', 'it costs only the rows under it');
$node->stop;
copy("$key_file.rows-after", $keys_path);
$node->start;
is($node->safe_psql('postgres', 'SELECT count(x) FROM lost'), 2, 'and is cured by its return');

# --- damaged pages --------------------------------------------------------------------------------------------------------

$node->safe_psql('postgres', q{
	CREATE TABLE damaged (id int PRIMARY KEY, x text) USING encrypted_heap;
	INSERT INTO damaged SELECT i, 'SECRET ' || i FROM generate_series(1, 10) i;
	CHECKPOINT});
my @rows = stored_rows($node, 'damaged');
is(scalar @rows, 10, 'rows of the table to be damaged');
$node->stop;
# Row 1 keeps whole; in each other one byte is flipped. (Byte 23 of a row is its generation; its payload begins at 24.)
my %damage = (2 => [ 24, 'first byte of the IV' ], 3 => [ 35, 'last byte of the IV' ], 4 => [ 36, 'first byte of the ciphertext' ],
	5 => [ 50, 'a byte of the ciphertext' ], 6 => [ -16, 'first byte of the tag' ], 7 => [ -1, 'last byte of the tag' ],
	8 => [ 23, 'the generation' ], 9 => [ 22, 'the length of the header' ], 10 => [ 18, 'the number of attributes' ]);
for my $n (sort keys %damage)
{
	my $row = $rows[ $n - 1 ];
	my $at = $damage{$n}[0];
	$at += $row->{length} if $at < 0;
	open my $file, '+<:raw', $row->{path} or die $!;
	seek $file, $row->{position} + $at, 0;
	read $file, my $byte, 1;
	seek $file, $row->{position} + $at, 0;
	print $file chr(ord($byte) ^ 0x08);
	close $file;
}
$node->start;
for my $n (sort { $a <=> $b } keys %damage)
{
	my $what = "flipped: $damage{$n}[1]";
	fails_like($what, 'postgres', "SELECT * FROM damaged WHERE ctid = '(0,$n)'", qr/ERROR:  XX001: .*\(0,$n\) of table "damaged"/);
	fails_like("$what, by index", 'postgres', "SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT x FROM damaged WHERE id = $n", qr/XX001: .*\(0,$n\)/);
}
is($node->safe_psql('postgres', "SELECT x FROM damaged WHERE ctid = '(0,1)'"), 'SECRET 1', 'a row that is whole can be read');
fails_like('a sequential scan over damaged rows', 'postgres', 'SELECT x FROM damaged', qr/XX001: .*\(0,2\)/);
fails_like('an index build over damaged rows', 'postgres', 'CREATE INDEX ON damaged (x)', qr/XX001: .*\(0,\d+\)/);
fails_like('ANALYZE of damaged rows', 'postgres', 'ANALYZE damaged', qr/XX001: .*\(0,\d+\)/);
fails_like('UPDATE of a damaged row', 'postgres', "UPDATE damaged SET x = 'SECRET' WHERE id = 2", qr/XX001: .*\(0,2\)/);
$node->safe_psql('postgres', 'VACUUM damaged');
$node->safe_psql('postgres', "INSERT INTO damaged VALUES (11, 'SECRET 11')");
is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT x FROM damaged WHERE id = 11'), 'SECRET 11', 'the table can be written');
# A row that cannot be read can be deleted, but what was logged of it cannot be decoded; a slot can be moved past that.
$node->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('stuck', 'pg_vault_tde')});
$node->safe_psql('postgres', "DELETE FROM damaged WHERE ctid = '(0,$_)'") for sort keys %damage;
is($node->safe_psql('postgres', "SELECT string_agg(x, ' ' ORDER BY id) FROM damaged"), 'SECRET 1 SECRET 11', 'damaged rows can be deleted');
fails_like('decoding the deletion of a damaged row', 'postgres', "SELECT * FROM pg_logical_slot_get_changes('stuck', NULL, NULL)", qr/XX001: .*"damaged"/);
$node->safe_psql('postgres', "SELECT pg_replication_slot_advance('stuck', pg_current_wal_insert_lsn())");
$node->safe_psql('postgres', "INSERT INTO damaged VALUES (12, 'SECRET 12')");
like($node->safe_psql('postgres', "SELECT string_agg(data, ' ') FROM pg_logical_slot_get_changes('stuck', NULL, NULL)"), qr/SECRET 12/, 'a slot can be moved past it');

# Exchanged: a row's ciphertext moved into another table does not authenticate there.
$node->safe_psql('postgres', q{
	CREATE TABLE one (id int, x text) USING encrypted_heap;
	CREATE TABLE two (id int, x text) USING encrypted_heap;
	INSERT INTO one VALUES (1, 'SECRET one');
	INSERT INTO two VALUES (2, 'SECRET two');
	CHECKPOINT});
my ($one) = stored_rows($node, 'one');
my ($two) = stored_rows($node, 'two');
$node->stop;
open my $file, '+<:raw', $two->{path} or die $!;
seek $file, $two->{position} + $two->{hoff}, 0;
print $file $one->{payload};
close $file;
$node->start;
fails_like("another table's row", 'postgres', 'SELECT * FROM two', qr/XX001: .*\(0,1\) of table "two"/);
is($node->safe_psql('postgres', 'SELECT x FROM one'), 'SECRET one', '... which itself is as it was');

# --- the plugin -----------------------------------------------------------------------------------------------------------

$node->safe_psql('postgres', q{
	SELECT pg_drop_replication_slot('slot'); -- which would stumble over the damaged rows
	SELECT pg_create_logical_replication_slot('slot', 'pg_vault_tde');
	INSERT INTO t VALUES (23, 'SECRET 23')});
# Options through the walsender, where errors are of another kind than in a session.
for (
	[ 'an unknown option', [ 'no-such-option=value' ], qr/option "no-such-option" = "value" is unknown/ ],
	[ 'an unknown option without a value', ['no-such-option'], qr/option "no-such-option" .*is unknown/ ],
	[ 'a malformed boolean', ['include-xids=maybe'], qr/could not parse value "maybe" for parameter "include-xids"/ ],
	[ 'an option given twice', [ 'include-xids=0', 'include-xids=1' ], qr/option "include-xids" is given more than once/ ],
	[ 'a plugin that is not allowed', ['plugin=no_such_plugin'], qr/plugin/ ])
{
	my ($what, $options, $pattern) = @$_;
	my @command = ('pg_recvlogical', '-d', $node->connstr('postgres'), '-S', 'slot', '--start', '-f', '-', '--no-loop', map { ('-o', $_) } @$options);
	my ($out, $err) = run_command(\@command);
	like($err, $pattern, "$what through pg_recvlogical: the message");
	unlike("$out$err", qr/SECRET/, "$what: shows no plaintext");
	like($node->safe_psql('postgres', "SELECT string_agg(data, ' ') FROM pg_logical_slot_peek_changes('slot', NULL, NULL)"),
		qr/SECRET 23/, "$what: the slot is as it was");
}

# Options without a value, as test_decoding takes them.
my $lsn = $node->lsn('insert');
$node->command_like(
	[ 'pg_recvlogical', '-d', $node->connstr('postgres'), '-S', 'slot', '--start', '-f', '-', '--no-loop', '-E', $lsn, '-o', 'include-timestamp', '-o', 'skip-empty-xacts' ],
	qr/^COMMIT \d+ \(at \d{4}-/m, 'an option without a value means yes');

# A slot that is used before the extension is there.
$node->safe_psql('postgres', 'CREATE DATABASE bare');
$node->safe_psql('bare', q{CREATE TABLE h (id int PRIMARY KEY); SELECT pg_create_logical_replication_slot('early', 'pg_vault_tde'); INSERT INTO h VALUES (1)});
fails_like('decoding before CREATE EXTENSION', 'bare', "SELECT * FROM pg_logical_slot_get_changes('early', NULL, NULL)", qr/CREATE EXTENSION/);
my ($out, $err) = run_command([ 'pg_recvlogical', '-d', $node->connstr('bare'), '-S', 'early', '--start', '-f', '-', '--no-loop', '-E', $node->lsn('insert') ]);
like($err, qr/CREATE EXTENSION/, 'decoding before CREATE EXTENSION through pg_recvlogical: the message');
$node->safe_psql('bare', q{CREATE EXTENSION pg_vault_tde; CREATE TABLE e (id int PRIMARY KEY, x text) USING encrypted_heap; INSERT INTO e VALUES (1, 'SECRET')});
is($node->safe_psql('bare', "SELECT data FROM pg_logical_slot_get_changes('early', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1')"),
	"BEGIN\ntable public.h: INSERT: id[integer]:1\nCOMMIT\nBEGIN\ntable public.e: INSERT: id[integer]:1 x[text]:'SECRET'\nCOMMIT",
	'after it the slot gives everything');

# Another plugin, which would show an encrypted table's rows as NULLs, is refused, and says what to do; heap tables are none of
# our business.
$node->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('other', 'test_decoding'); INSERT INTO plain VALUES (2)});
like($node->safe_psql('postgres', "SELECT string_agg(data, ' ') FROM pg_logical_slot_peek_changes('other', NULL, NULL)"), qr/plain: INSERT: id\[integer\]:2/, 'test_decoding of a heap table');
$node->safe_psql('postgres', "INSERT INTO t VALUES (30, 'SECRET')");
fails_like('test_decoding of an encrypted table', 'postgres', "SELECT * FROM pg_logical_slot_peek_changes('other', NULL, NULL)", qr/"t"|encrypted/, qr/pg_vault_tde/);

# --- nothing secret was said ----------------------------------------------------------------------------------------------

my $log = slurp_file($node->logfile);
for (@keys)
{
	s/\s//g;
	unlike($log, qr/\Q$_\E/i, "no key in the server's log");
}
# (the statements themselves are logged, and the SECRETs in them)
my @said = grep { /SECRET/ && !/^\t|LOG:  statement|STATEMENT:/ } split /\n/, $log;
is_deeply(\@said, [], "no plaintext in the server's log but in statements");
unlike($log, qr/PANIC|TRAP|terminated by signal/, 'no crash');
$node->stop;
done_testing();
