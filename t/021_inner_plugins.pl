# Other inner plugins: the same output as from the heap twin by the plugin alone; and which plugins may be used.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Decoding;
use Vault;

my $node = decoding_node('inner', 'max_replication_slots = 20');
make_twins($node);
my @plugins = grep { $_ ne 'pgoutput' } inner_plugins();
# A new major has no packages of them for a while.
for my $plugin (qw(test_decoding wal2json decoderbufs))
{
  SKIP:
	{
		skip("$plugin is not to be had for PostgreSQL 19 yet: what is compared with it is left out", 1)
			if !has_plugin($plugin) && $node->pg_version->major >= 19 && $plugin ne 'test_decoding';
		ok(has_plugin($plugin), "$plugin, to compare with, is installed");
	}
}
both($node, q{
	CREATE TABLE things (id int PRIMARY KEY, name text, big text STORAGE EXTERNAL, doc jsonb, amount numeric, at timestamp);
	CREATE TABLE whole (id int, big text STORAGE EXTERNAL, note text); ALTER TABLE whole REPLICA IDENTITY FULL;
	CREATE TABLE "Odd name" ("a b" int, "c" text);
});
for my $plugin (@plugins)
{
	twin_slots($node, $plugin, $plugin);
	twin_slots($node, "${plugin}_2pc", $plugin, 1) if $plugin eq 'test_decoding' || $plugin eq 'wal2json';
}
$node->safe_psql($_, qq{
	SET enable_seqscan = off; SET enable_bitmapscan = off;
	INSERT INTO things SELECT g, 'it''s ' || g, repeat(md5(g::text), 400), jsonb_build_object('g', g), g * 1.5, '2026-01-01'
		FROM generate_series(1, 30) g;
	UPDATE things SET name = NULL WHERE id > 20;
	UPDATE things SET id = id + 100 WHERE id < 5;
	UPDATE things SET big = 'short' WHERE id = 10;
	DELETE FROM things WHERE id BETWEEN 6 AND 8;
	INSERT INTO whole SELECT g, repeat(md5(g::text), 300), 'n' FROM generate_series(1, 5) g;
	UPDATE whole SET note = 'changed' WHERE id = 2;
	DELETE FROM whole WHERE id = 3;
	INSERT INTO "Odd name" VALUES (1, E'tab\\tline\\n"quote" \\\\'), (NULL, '');
	SELECT pg_logical_emit_message(true, 'app', 'transactional'), pg_logical_emit_message(false, 'app', 'at once');
	BEGIN; INSERT INTO things VALUES (200, 'kept', repeat('kept', 3000)); SAVEPOINT a;
	INSERT INTO things VALUES (201, 'undone', repeat('undone', 3000)); ROLLBACK TO a; COMMIT;
	TRUNCATE whole;
	BEGIN; INSERT INTO things VALUES (300, 'prepared', repeat('p', 9000)); PREPARE TRANSACTION 'one_$_'; COMMIT PREPARED 'one_$_';
	BEGIN; INSERT INTO things VALUES (301, 'prepared', repeat('p', 9000)); PREPARE TRANSACTION 'two_nodecode_$_'; ROLLBACK PREPARED 'two_nodecode_$_';
}) for qw(encrypted heap);

# A protobuf message without its first two fields, which decoderbufs fills with transaction and time.
sub without_transaction
{
	my ($message) = @_;
	my ($at, $kept) = (0, '');
	my $varint = sub { my ($value, $shift) = (0, 0); while (1) { my $byte = ord substr $message, $at++, 1; $value |= ($byte & 127) << $shift; return $value if $byte < 128; $shift += 7; } };
	while ($at < length $message)
	{
		my $start = $at;
		my $tag = $varint->();
		my $type = $tag & 7;
		if ($type == 0) { $varint->(); } elsif ($type == 1) { $at += 8; } elsif ($type == 2) { my $n = $varint->(); $at += $n; } else { $at += 4; }
		$kept .= substr $message, $start, $at - $start if $tag >> 3 > 2;
	}
	return $kept;
}

sub compare
{
	my ($plugin, $slot, $settings, %options) = @_;
	my @streams = map {
		my $db = $_;
		my @messages = binary_stream($node, $db, "${slot}_$db", $settings, %options, ($db eq 'encrypted' ? (plugin => $plugin) : ()));
		@messages = map { unpack 'H*', without_transaction($_) } @messages if $plugin eq 'decoderbufs';
		join("\n", @messages) =~ s/_$db\b//gr;
	} qw(encrypted heap);
	cmp_ok(length $streams[1], '>', 500, "$slot: there is output");
	is_same(@streams, join ', ', "$slot: as on the heap twin", map { "$_ $options{$_}" } sort keys %options);
}

my %options = (
	test_decoding => [ { 'include-xids' => 0 }, { 'include-xids' => 0, 'skip-empty-xacts' => 1, 'only-local' => 1 } ],
	wal2json => [ {}, { 'format-version' => 2 }, { 'format-version' => 2, 'include-types' => 0, 'filter-tables' => 'public.things' },
		{ 'format-version' => 1, 'include-pk' => 1, 'pretty-print' => 1 }, { 'format-version' => 2, actions => 'insert,delete' } ],
	decoderbufs => [ {} ]);
for my $plugin (@plugins)
{
	compare($plugin, $plugin, '', %$_) for @{ $options{$plugin} };
	compare($plugin, "${plugin}_2pc", '', %{ $options{$plugin}[0] }) if $plugin ne 'decoderbufs';
}

# Streamed transactions, each change as soon as it is read.
compare('test_decoding', 'test_decoding', "SET debug_logical_replication_streaming = 'immediate';",
	'stream-changes' => 1, 'include-xids' => 0, 'skip-empty-xacts' => 1);

# --- which plugins may be used --------------------------------------------------------------------------------------------

sub fails
{
	my ($options, $pattern, $name, $settings) = @_;
	my ($status, undef, $err) = $node->psql('encrypted',
		($settings // '') . "SELECT count(*) FROM pg_logical_slot_peek_changes('test_decoding_encrypted', NULL, NULL, $options)");
	isnt($status, 0, "$name: fails");
	like($err, $pattern, "$name: the message");
	compare('test_decoding', 'test_decoding', '', %{ $options{test_decoding}[0] });
}
fails("'plugin', 'plpgsql'", qr/output plugin "plpgsql" may not be used through pg_vault_tde.*pg_vault_tde\.inner_plugins/s, 'a plugin that is not listed');
fails("'plugin', '../x'", qr{output plugin "../x" may not be used}, 'a path', "SET pg_vault_tde.inner_plugins = '\"../x\"';");
fails("'plugin', 'absent'", qr{could not access file ".*/absent"}, 'a plugin that is not installed', "SET pg_vault_tde.inner_plugins = 'absent';");
fails("'plugin', 'pg_vault_tde'", qr/output plugin "pg_vault_tde" cannot be used through itself/, 'ourselves', "SET pg_vault_tde.inner_plugins = 'pg_vault_tde';");
fails("'plugin', 'plpgsql'", qr/could not find function "_PG_output_plugin_init"/, 'a library that is no output plugin', "SET pg_vault_tde.inner_plugins = 'plpgsql';");
fails("'plugin', 'test_decoding', 'plugin', 'pgoutput'", qr/option "plugin" is given more than once/, 'a plugin given twice');
fails("'plugin', 'test_decoding', 'nonsense', '1'", qr/option "nonsense" = "1" is unknown/, 'an unknown option');
fails("'plugin', 'test_decoding'", qr/may not be used/, 'an empty list', "SET pg_vault_tde.inner_plugins = '';");
fails("'streaming', 'on'", qr/option "streaming" = "on" is unknown.*give "proto_version" and "publication_names"/s, "pgoutput's options without its protocol");

# The list is no business of a user who may only replicate.
$node->safe_psql('encrypted', 'CREATE ROLE replicator LOGIN REPLICATION');
my ($status, undef, $err) = $node->psql('encrypted', "SET ROLE replicator; SET pg_vault_tde.inner_plugins = 'plpgsql'");
like($err, qr/permission denied to set parameter "pg_vault_tde.inner_plugins"/, 'the list is for superusers');

# A database without the extension says so.
$node->safe_psql('postgres', "CREATE DATABASE bare");
$node->safe_psql('bare', "SELECT pg_create_logical_replication_slot('bare', 'pg_vault_tde'); CREATE TABLE t (a int); INSERT INTO t VALUES (1)");
($status, undef, $err) = $node->psql('bare', "SELECT data FROM pg_logical_slot_peek_changes('bare', NULL, NULL, 'plugin', 'test_decoding')");
like($err, qr/extension "pg_vault_tde" is not installed in database "bare"/, 'a database without the extension');
# ... but one that has us only in pgoutput's place is decoded as ever
$node->safe_psql('bare', 'CREATE PUBLICATION p FOR ALL TABLES');
$node->safe_psql('bare', "SET dynamic_library_path = '" . link_path() . "'; SELECT pg_create_logical_replication_slot('stock', 'pgoutput')");
$node->safe_psql('bare', 'INSERT INTO t VALUES (2)');
is($node->safe_psql('bare', "SET dynamic_library_path = '" . link_path() . "';
	SELECT count(*) FROM pg_logical_slot_get_binary_changes('stock', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')"), 4,
	'a database without the extension, with us in the place of pgoutput');

# Any plugin's place can be taken; in test_decoding's our own text format is used.
my $place = $node->basedir . '/place';
mkdir $place or die "$place: $!";
my ($pkglibdir) = run_command([ 'pg_config', '--pkglibdir' ]);
symlink "$pkglibdir/pg_vault_tde.so", "$place/$_.so" or die "$place/$_.so: $!" for qw(test_decoding wal2json);
for my $plugin (grep { has_plugin($_) } qw(test_decoding wal2json))
{
	for my $in ('bare', 'encrypted')
	{
		my $path = "SET dynamic_library_path = '$place:\$libdir';";
		$node->safe_psql($in, "$path SELECT pg_create_logical_replication_slot('in_place', '$plugin'); CREATE TABLE placed (a int); INSERT INTO placed VALUES (42)");
		like($node->safe_psql($in, "$path SELECT string_agg(data, ' ') FROM pg_logical_slot_get_changes('in_place', NULL, NULL)"), qr/placed.*42/,
			"in the place of $plugin, in database $in");
		$node->safe_psql($in, "SELECT pg_drop_replication_slot('in_place'); DROP TABLE placed");
	}
}

done_testing();
