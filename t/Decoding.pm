# What the tests of the output plugin share: clusters with all plugins, and pgoutput's protocol made comparable.
package Decoding;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use IO::Socket::UNIX;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

our @EXPORT = qw(link_path inner_plugins has_plugin decoding_node describe_pgoutput binary_stream twin_slots walsender_session);

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
# out; transactions and user-made relations and types are numbered as they come. With $streams only what a subscriber comes
# to: the changes of each transaction when it ends, without those undone in it, however it was streamed. (When a transaction is
# streamed depends on the size of its WAL.)
sub describe_pgoutput
{
	my ($db, $streams, @messages) = @_;
	my (%xids, %oids, %tables, @lines);
	my (%open, $current, $in_stream);    # changes of transactions that have not ended, as [ xid, line ]
	for my $message (@messages)
	{
		my $at = 1;
		my $take = sub { my ($n) = @_; my $part = substr $message, $at, $n; $at += $n; return $part; };
		my $skip = sub { $at += $_[0]; return; };
		my $xid = sub { my $xid = unpack 'N', $take->(4); return 'xid ' . ($xids{$xid} //= 1 + keys %xids); };
		my $oid = sub { my $oid = unpack 'N', $take->(4); return $oid < 16384 ? "oid $oid" : 'oid #' . ($oids{$oid} //= 1 + keys %oids); };
		my $string = sub { my $end = index $message, "\0", $at; my $text = $take->($end - $at); $at++; return $text; };
		my $name = sub { return $string->() =~ s/_$db$//r; };
		my $flags = sub { return 'flags ' . unpack 'C', $take->(1); };
		my $rest = sub { return unpack 'H*', $take->(length($message) - $at); };
		my $table = sub { return $tables{ $oid->() }; };

		my $kind = substr $message, 0, 1;
		my $of = $in_stream && $kind =~ /[RYIUDTM]/ ? $xid->() : $current // '';
		my @line;
		if ($kind eq 'B') { $skip->(16); @line = $xid->(); }
		elsif ($kind eq 'C') { @line = $flags->(); $skip->(24); }
		elsif ($kind eq 'O') { $skip->(8); @line = $name->(); }
		elsif ($kind eq 'R')
		{
			@line = ($oid->(), $string->(), $string->(), $take->(1));
			$tables{ $line[0] } = "$line[1].$line[2]";
			push @line, ($flags->(), $string->(), $oid->(), unpack('N', $take->(4))) for 1 .. unpack 'n', $take->(2);
		}
		elsif ($kind eq 'Y') { @line = ($oid->(), $string->(), $string->()); }
		elsif ($kind =~ /[IUD]/) { @line = ($table->(), $rest->()); }
		elsif ($kind eq 'T')
		{
			my $n = unpack 'N', $take->(4);
			@line = ($flags->(), map { $table->() } 1 .. $n);
		}
		elsif ($kind eq 'M') { @line = $flags->(); $skip->(8); push @line, $string->(), $rest->(); }
		elsif ($kind eq 'S') { @line = $xid->(); $skip->(1); }
		elsif ($kind eq 'E') { }
		elsif ($kind eq 'c') { @line = ($xid->(), $flags->()); $skip->(24); }
		elsif ($kind eq 'A') { @line = ($xid->(), $xid->()); $skip->(length($message) - $at); }
		elsif ($kind eq 'b') { $skip->(24); @line = ($xid->(), $name->()); }
		elsif ($kind =~ /[PKp]/) { my $f = $flags->(); $skip->(24); @line = ($f, $xid->(), $name->()); }
		elsif ($kind eq 'r') { my $f = $flags->(); $skip->(32); @line = ($f, $xid->(), $name->()); }
		else { die "unknown message of kind $kind"; }
		die "message of kind $kind is longer than it should be" if $at != length $message;

		$in_stream = $kind eq 'S' if $kind =~ /[SE]/;
		$current = $kind =~ /[BbS]/ ? $line[0] : $kind =~ /[CPE]/ ? undef : $current;
		if (!$streams)
		{
			push @lines, "$kind @line";
		}
		elsif ($kind eq 'A')
		{
			my ($top, $sub) = @line;
			$open{$top} = [ grep { $sub ne $top && $_->[0] ne $sub } @{ $open{$top} } ];
		}
		elsif ($kind =~ /[CcPp]/)
		{
			my ($top) = $kind eq 'C' ? $of : grep { /^xid/ } @line;
			push @lines, (map { $_->[1] } @{ delete $open{$top} // [] }), lc($kind) . ' ' . join ' ', grep { !/^xid/ } @line;
		}
		elsif ($kind =~ /[IUDTO]/ || $kind eq 'M' && $line[0] ne 'flags 0')
		{
			push @{ $open{$current} }, [ $of, "$kind @line" ];
		}
		elsif ($kind =~ /[Kr]/)
		{
			push @lines, "$kind @line[0, 2]";
		}
	}
	return join "\n", @lines;
}

# Runs commands on one walsender, whatever errors come, and returns for each what it sent: { data of COPY, error, its fields
# as lines }.
sub walsender_session
{
	my ($node, $db, @commands) = @_;
	my $socket = IO::Socket::UNIX->new(Peer => $node->host . '/.s.PGSQL.' . $node->port) or die "no connection: $!";
	my $startup = pack 'N (Z*)*', 196608, user => scalar getpwuid($>), database => $db, replication => 'database', '';
	print $socket pack('N', 4 + length $startup), $startup;
	$socket->flush;
	my @results;
	local $SIG{ALRM} = sub { die 'timed out on a walsender' };
	alarm $PostgreSQL::Test::Utils::timeout_default;
	while (read $socket, my $head, 5)
	{
		my ($kind, $length) = unpack 'a N', $head;
		my $body = '';
		read $socket, $body, $length - 4 if $length > 4;
		if ($kind eq 'd') { $results[-1]{data} .= $body; }
		if ($kind eq 'E') { $results[-1]{error} = $body =~ s/\0(.)/\n$1: /gr; }
		if ($kind eq 'Z')
		{
			my $command = shift @commands // last;
			push @results, { data => '', error => '' };
			print $socket pack('a N Z*', 'Q', 5 + length $command, $command);
			$socket->flush;
		}
	}
	alarm 0;
	return @results;
}

1;
