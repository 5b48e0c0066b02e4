# What the tests of the output plugin share: clusters with all plugins, and pgoutput's protocol made comparable.
package Decoding;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

our @EXPORT = qw(link_path inner_plugins has_plugin decoding_node describe_pgoutput binary_stream twin_slots);

# The dynamic_library_path that puts us in pgoutput's place.
sub link_path { return '$libdir/pg_vault_tde:$libdir' }

# The plugins that the tests use, as far as they are installed.
sub inner_plugins { return grep { has_plugin($_) } qw(pgoutput test_decoding wal2json decoderbufs) }

sub has_plugin
{
	my ($name) = @_;
	my ($directory) = run_command([ 'pg_config', '--pkglibdir' ]);
	return -e "$directory/$name.so";
}

# A started cluster on which all plugins may be used.
sub decoding_node
{
	my ($name, @settings) = @_;
	my $plugins = join ', ', inner_plugins();
	my $node = new_node($name,
		"pg_vault_tde.inner_plugins = '$plugins'",
		(Vault::setting_exists('output_plugin_libraries') ? "output_plugin_libraries = 'pg_vault_tde, $plugins'" : ()),
		@settings);
	$node->start;
	return $node;
}

# Makes a slot of the same name in both databases of make_twins; pg_vault_tde's or (second plugin) the encrypted twin's own.
sub twin_slots
{
	my ($node, $name, $plugin, $two_phase, $plugin_of_encrypted) = @_;
	$two_phase = $two_phase ? 'true' : 'false';
	my %plugins = (encrypted => $plugin_of_encrypted // 'pg_vault_tde', heap => $plugin);
	$node->safe_psql($_, "SELECT pg_create_logical_replication_slot('${name}_$_', '$plugins{$_}', false, $two_phase)")
		for sort keys %plugins;
}

# What a slot has to say as a list of byte strings; the changes stay there.
sub binary_stream
{
	my ($node, $db, $slot, $settings, %options) = @_;
	my $list = join '', map { ", '$_', '$options{$_}'" } sort keys %options;
	my $lines = $node->safe_psql($db,
		"$settings SELECT encode(data, 'hex') FROM pg_logical_slot_peek_binary_changes('$slot', NULL, NULL$list)");
	return map { pack 'H*', $_ } split /\n/, $lines;
}

# pgoutput's messages as lines, in which all is shown but what must differ between two databases: LSNs and times are left
# out; transactions and user-made relations and types are numbered as they come. Where transactions are streamed it also leaves
# out the beginnings and ends of streams, which depend on the size of the WAL.
sub describe_pgoutput
{
	my ($db, $streams, @messages) = @_;
	my (%xids, %oids, @lines);
	my $in_stream = 0;
	for my $message (@messages)
	{
		my $at = 1;
		my $take = sub { my ($n) = @_; my $part = substr $message, $at, $n; $at += $n; return $part; };
		my $skip = sub { $at += $_[0]; return; };
		my $xid = sub { my $xid = unpack 'N', $take->(4); return 'xid ' . ($xids{$xid} //= 1 + keys %xids); };
		my $oid = sub { my $oid = unpack 'N', $take->(4); return $oid < 16384 ? "oid $oid" : 'oid #' . ($oids{$oid} //= 1 + keys %oids); };
		my $string = sub { my $end = index $message, "\0", $at; my $text = $take->($end - $at); $at++; return $text; };
		my $flags = sub { return 'flags ' . unpack 'C', $take->(1); };
		my $name = sub { return $string->() =~ s/_$db$//r; };
		my $rest = sub { return unpack 'H*', $take->(length($message) - $at); };
		my $kind = substr $message, 0, 1;
		my $of = sub { return $in_stream ? $xid->() : (); };
		my @line =
			$kind eq 'B' ? do { $skip->(16); $xid->() }
			: $kind eq 'C' ? do { my $f = $flags->(); $skip->(24); $f }
			: $kind eq 'O' ? do { $skip->(8); $name->() }
			: $kind eq 'R' ? do {
				my @r = ($of->(), $oid->(), $string->(), $string->(), $take->(1));
				my $n = unpack 'n', $take->(2);
				push @r, map { ($flags->(), $string->(), $oid->(), unpack('N', $take->(4))) } 1 .. $n;
				@r }
			: $kind eq 'Y' ? ($of->(), $oid->(), $string->(), $string->())
			: $kind =~ /[IUD]/ ? ($of->(), $oid->(), $rest->())
			: $kind eq 'T' ? do {
				my @t = $of->();
				my $n = unpack 'N', $take->(4);
				(@t, $flags->(), map { $oid->() } 1 .. $n) }
			: $kind eq 'M' ? do { my @m = ($of->(), $flags->()); $skip->(8); (@m, $string->(), $rest->()) }
			: $kind eq 'S' ? do { $in_stream = 1; $xid->() }
			: $kind eq 'E' ? do { $in_stream = 0; () }
			: $kind eq 'c' ? do { my @c = ($xid->(), $flags->()); $skip->(24); @c }
			: $kind eq 'A' ? do { my @a = ($xid->(), $xid->()); $skip->(length($message) - $at); @a }
			: $kind eq 'b' ? do { $skip->(24); ($xid->(), $name->()) }
			: $kind =~ /[PKp]/ ? do { my $f = $flags->(); $skip->(24); ($f, $xid->(), $name->()) }
			: $kind eq 'r' ? do { my $f = $flags->(); $skip->(32); ($f, $xid->(), $name->()) }
			: die "unknown message of kind $kind";
		die "message of kind $kind is longer than it should be" if $at != length $message;
		push @lines, "$kind @line" unless $streams && $kind =~ /[SE]/;
	}
	return join "\n", @lines;
}

1;
