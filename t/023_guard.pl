# An encrypted table that is decoded by a plugin without us: an ERROR that names the table and the remedy, however the decoder
# is called. Plain tables are decoded as ever, and the slot works once the remedy is taken.

use strict;
use warnings FATAL => 'all';
use FindBin;
use IO::Socket::UNIX;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Decoding;
use Vault;

my $node = decoding_node('guard', 'max_replication_slots = 20', 'wal_retrieve_retry_interval = 100ms');
my $db = 'postgres';
$node->safe_psql($db, q{CREATE EXTENSION pg_vault_tde;
	CREATE TABLE "Secret Things" (id int PRIMARY KEY, name text) USING encrypted_heap;
	CREATE TABLE other (id int PRIMARY KEY, name text) USING encrypted_heap;
	CREATE TABLE plain (id int PRIMARY KEY, name text);
	CREATE PUBLICATION all_tables FOR ALL TABLES; CREATE PUBLICATION plain_only FOR TABLE plain;
	INSERT INTO "Secret Things" VALUES (1, 'before the slots'); INSERT INTO other VALUES (1, 'before');});
my $guarded = qr/cannot decode encrypted table public\."Secret Things".*DETAIL:.*HINT:.*Use the output plugin "pg_vault_tde".*dynamic_library_path = '\$libdir\/pg_vault_tde:\$libdir'/s;

sub fails
{
	my ($sql, $pattern, $name) = @_;
	my ($status, $out, $err) = $node->psql($db, $sql);
	isnt($status, 0, "$name: fails");
	like($err, $pattern, "$name: the message");
	unlike($out, qr/Secret Things/, "$name: no change of the table is shown");
}

# --- SQL functions --------------------------------------------------------------------------------------------------------

my %options = (test_decoding => '', pgoutput => q{, 'proto_version', '1', 'publication_names', 'all_tables'},
	wal2json => '', decoderbufs => '');
for my $plugin (inner_plugins())
{
	my $slot = "of_$plugin";
	my $read = sub { "SELECT data FROM pg_logical_slot_$_[0]_binary_changes('$slot', NULL, NULL$options{$plugin})" };
	$node->safe_psql($db, "SELECT pg_create_logical_replication_slot('$slot', '$plugin')");
	$node->safe_psql($db, 'INSERT INTO plain VALUES (default_id(), NULL)' =~ s/default_id\(\)/(SELECT count(*) FROM plain)/r);
	isnt($node->safe_psql($db, $read->('get')), '', "$plugin: a plain table is decoded");
	$node->safe_psql($db, q{UPDATE "Secret Things" SET name = 'changed'});
	fails($read->('get'), $guarded, $plugin);
	fails($read->('peek'), $guarded, "$plugin, again");
	fails(q{SELECT * FROM "Secret Things", other; } . $read->('get'), $guarded, "$plugin, in a session that has read the table");
	fails(q{BEGIN; DECLARE c CURSOR FOR SELECT * FROM "Secret Things"; FETCH c; } . $read->('get'),
		qr/output plugin "$plugin" cannot be used while this session uses an encrypted table/, "$plugin, while the session reads the table");
	$node->safe_psql($db, qq{DO \$\$ BEGIN PERFORM data FROM pg_logical_slot_peek_binary_changes('$slot', NULL, NULL$options{$plugin});
		EXCEPTION WHEN object_not_in_prerequisite_state THEN PERFORM * FROM "Secret Things"; END; \$\$; SELECT * FROM "Secret Things", other});
	pass("$plugin: the table can be read after the error");
	# a session of ours between two of others
	$node->safe_psql($db, "SELECT pg_create_logical_replication_slot('ours', 'pg_vault_tde')");
	$node->safe_psql($db, q{UPDATE "Secret Things" SET name = 'again'});
	fails(q{SELECT count(*) FROM pg_logical_slot_get_changes('ours', NULL, NULL); } . $read->('get'), $guarded, "$plugin, after a session of ours");
	$node->safe_psql($db, "SELECT pg_drop_replication_slot('ours')");
	# the remedies
	$node->safe_psql($db, "SELECT pg_replication_slot_advance('$slot', pg_current_wal_lsn())");
	$node->safe_psql($db, 'INSERT INTO plain VALUES (1000 + (SELECT count(*) FROM plain), NULL)');
	isnt($node->safe_psql($db, $read->('get')), '', "$plugin: advanced beyond the change, the slot works");
	$node->safe_psql($db, "SELECT pg_drop_replication_slot('$slot')");
}
$node->safe_psql($db, q{SELECT pg_create_logical_replication_slot('truncates', 'test_decoding'); TRUNCATE "Secret Things"});
fails("SELECT data FROM pg_logical_slot_get_changes('truncates', NULL, NULL)", qr/output plugin "test_decoding" cannot decode encrypted table.*HINT/s, 'TRUNCATE');
$node->safe_psql($db, "SELECT pg_drop_replication_slot('truncates')");

# --- walsenders -------------------------------------------------------------------------------------------------------------

# pg_recvlogical gets the change of the plain table, and then the ERROR.
sub receive
{
	my ($slot, @options) = @_;
	my ($out, $err) = ('', '');
	my $end = $node->safe_psql($db, 'SELECT pg_current_wal_flush_lsn()');
	my $done = IPC::Run::run([ 'pg_recvlogical', '-S', $slot, '-d', $node->connstr($db), '--no-loop', '--start', '-E', $end, '-f', '-', map { ('-o', $_) } @options ],
		'<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return ($done, $out, $err);
}
$node->safe_psql($db, "SELECT pg_create_logical_replication_slot('sender', 'test_decoding')");
$node->safe_psql($db, q{INSERT INTO plain VALUES (2000, 'seen'); INSERT INTO "Secret Things" VALUES (2, 'hidden')});
my ($done, $out, $err) = receive('sender');
ok(!$done, 'pg_recvlogical: fails');
like($out, qr/table public\.plain: INSERT: id\[integer\]:2000 name\[text\]:'seen'/, 'pg_recvlogical: the plain table is decoded');
unlike($out, qr/Secret/, 'pg_recvlogical: the encrypted one is not');
like($err, $guarded, 'pg_recvlogical: the message');
$node->safe_psql($db, "SELECT pg_drop_replication_slot('sender')");

# Runs commands on one walsender, until its first ERROR, and returns what it sent: data of COPY, and the error's fields.
sub walsender
{
	my (@commands) = @_;
	my $socket = IO::Socket::UNIX->new(Peer => $node->host . '/.s.PGSQL.' . $node->port) or die "no connection: $!";
	my $startup = pack 'N (Z*)*', 196608, user => scalar getpwuid($>), database => $db, replication => 'database', '';
	print $socket pack('N', 4 + length $startup), $startup;
	$socket->flush;
	my ($data, $error) = ('', '');
	local $SIG{ALRM} = sub { die 'timed out on a walsender' };
	alarm $PostgreSQL::Test::Utils::timeout_default;
	while (read $socket, my $head, 5)
	{
		my ($kind, $length) = unpack 'a N', $head;
		read $socket, my $body, $length - 4 if $length > 4;
		$data .= $body if $kind eq 'd';
		if ($kind eq 'E') { $error = $body =~ s/\0(.)/\n$1: /gr; last; }
		if ($kind eq 'Z')
		{
			my $command = shift @commands // last;
			print $socket pack('a N Z*', 'Q', 5 + length $command, $command);
			$socket->flush;
		}
	}
	alarm 0;
	return ($data, $error =~ s/^D: /DETAIL: /mr =~ s/^H: /HINT: /mr);
}

# The relation cache may know the table from SQL before.
for my $before ([q{SELECT * FROM "Secret Things"}], [q{BEGIN; SELECT * FROM "Secret Things"}, 'ROLLBACK'],
	[q{CREATE TABLE fresh (id int) USING encrypted_heap; INSERT INTO fresh VALUES (1)}])
{
	$node->safe_psql($db, "SELECT pg_create_logical_replication_slot('sender', 'test_decoding')");
	my $fresh = $before->[0] =~ /fresh/;
	$node->safe_psql($db, q{UPDATE "Secret Things" SET name = 'hidden'}) unless $fresh;
	my ($data, $error) = walsender(@$before, 'START_REPLICATION SLOT sender LOGICAL 0/0 ("skip-empty-xacts" \'1\')');
	like($error, $fresh ? qr/cannot decode encrypted table public\.fresh/ : $guarded, "a walsender after: $before->[0]");
	unlike($data, qr/Secret|fresh/, '... no change of the table is shown');
	$node->safe_psql($db, "SELECT pg_drop_replication_slot('sender'); DROP TABLE IF EXISTS fresh");
}

# --- subscribers ------------------------------------------------------------------------------------------------------------

my $subscriber = new_node('subscriber', 'wal_retrieve_retry_interval = 100ms');
$subscriber->start;
$subscriber->safe_psql($db, q{CREATE TABLE "Secret Things" (id int PRIMARY KEY, name text); CREATE TABLE other (id int PRIMARY KEY, name text); CREATE TABLE plain (id int PRIMARY KEY, name text)});
my $from = $node->connstr . " dbname=$db";
$subscriber->safe_psql($db, "CREATE SUBSCRIPTION sub CONNECTION '$from' PUBLICATION all_tables");
$subscriber->wait_for_subscription_sync($node, 'sub');
$node->safe_psql($db, q{INSERT INTO plain VALUES (3000, 'seen')});
$node->wait_for_catchup('sub');
is($subscriber->safe_psql($db, 'SELECT name FROM plain WHERE id = 3000'), 'seen', 'a subscriber without the link: plain tables arrive');
my $at = -s $node->logfile;
$node->safe_psql($db, q{INSERT INTO "Secret Things" VALUES (3, 'hidden'); INSERT INTO other VALUES (3, 'hidden')});
$node->wait_for_log($guarded =~ s/DETAIL.*HINT/HINT/r, $at);
pass("... an encrypted table's change is an ERROR");
is($subscriber->safe_psql($db, 'SELECT count(*) FROM other WHERE name IS NULL'), 0, '... and no NULLs arrive');
$node->safe_psql($db, "ALTER SYSTEM SET dynamic_library_path = '" . link_path() . "'");
$node->reload;
$node->wait_for_catchup('sub');
is($subscriber->safe_psql($db, q{SELECT name FROM "Secret Things" WHERE id = 3}), 'hidden', '... with the link it goes on where it stopped');

done_testing();
