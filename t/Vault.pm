# What the tests of this directory share: clusters with the extension, twins in two databases, and a look at the files.
package Vault;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use File::Find ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(new_node without_checksums write_key kill_server kill_process make_twins both is_same is_same_content is_same_stream stream files_with
	stored_rows memory_of wait_until);

# Makes a cluster with the extension preloaded and a key of its own; the settings in the arguments are added, those of
# initdb are in the first one if that is a reference. Not started.
sub new_node
{
	my ($name, @settings) = @_;
	my @initdb = @settings && ref $settings[0] ? @{ shift @settings } : ();
	my $node = PostgreSQL::Test::Cluster->new($name);
	# without options it is a copy of a template, if the environment names one
	$node->init(allows_streaming => 'logical', (@initdb ? (extra => \@initdb) : ()));
	write_key($node->basedir . '/key');
	$node->append_conf('postgresql.conf', join "\n",
		"shared_preload_libraries = 'pg_vault_tde'",
		"pg_vault_tde.key_file = '" . $node->basedir . "/key'",
		'max_prepared_transactions = 10',
		'shared_buffers = 16MB',
		'wal_keep_size = 1GB',    # standbys have no slot, and may come back only after a crash's checkpoint
		'pg_vault_tde.plaintext_indexes = allow',    # a notice is what background sessions take for a failure
		'autovacuum = off',    # whose transactions would be decoded, and whose statistics hold values in the clear
		# the minors of August 2026 and later load only the output plugins that this lists; older ones do not know it
		(setting_exists('output_plugin_libraries') ? "output_plugin_libraries = 'pg_vault_tde, pgoutput, test_decoding'" : ()),
		@settings, '');
	return $node;
}

# The option of initdb that makes pages without checksums, where that is not the default.
sub without_checksums
{
	my ($out) = run_command([ 'initdb', '--help' ]);
	return $out =~ /--no-data-checksums/ ? '--no-data-checksums' : ();
}

# Whether the server knows a setting.
sub setting_exists
{
	my ($name) = @_;
	my ($out) = run_command([ 'postgres', '--describe-config' ]);
	return $out =~ /^\Q$name\E\t/m;
}

# Makes a key file: with a random key, unless another content is given, and with mode 0600, unless another is.
sub write_key
{
	my ($path, $content, $mode) = @_;
	$content //= join('', map { sprintf '%02x', int rand 256 } 1 .. 32) . "\n";
	unlink $path;
	open my $file, '>', $path or die "$path: $!";
	print $file $content;
	close $file;
	chmod $mode // 0600, $path or die "$path: $!";
	return $content;
}

# Kills a server with -9, and waits until its other processes have noticed; they run in the data directory.
sub kill_server
{
	my ($node) = @_;
	my ($pid) = split /\n/, slurp_file($node->data_dir . '/postmaster.pid');
	$node->kill9;
	wait_until('the server to be gone', sub { !kill(0, $pid) && !grep { (readlink($_) // '') eq $node->data_dir } glob '/proc/[0-9]*/cwd' });
}

# Kills one process of a server with -9, and waits until the server has started all others anew and takes connections. (Not by
# poll_query_until(): where psql cannot connect it may be gone before it was given the query, and that is a broken pipe.)
sub kill_process
{
	my ($node, $pid) = @_;
	my $restarts = sub { scalar(() = slurp_file($node->logfile) =~ /all server processes terminated; reinitializing/g) };
	my $before = $restarts->();
	kill 'KILL', $pid;
	wait_until('the server to notice the crash', sub { $restarts->() > $before });
	wait_until('the server to take connections', sub { run_log([ 'pg_isready', '-q', '-h', $node->host, '-p', $node->port ]) });
}

# --- twins: databases "encrypted" and "heap", in which the same statements are run ----------------------------------------

# Makes the databases, each with a slot called after it: of pg_vault_tde in the one, of test_decoding in the other.
sub make_twins
{
	my ($node) = @_;
	my %twins = (encrypted => [ 'encrypted_heap', 'pg_vault_tde' ], heap => [ 'heap', 'test_decoding' ]);
	for my $db (sort keys %twins)
	{
		my ($method, $plugin) = @{ $twins{$db} };
		$node->safe_psql('postgres', "CREATE DATABASE $db");
		$node->safe_psql($db, 'CREATE EXTENSION pg_vault_tde');
		$node->safe_psql('postgres', "ALTER DATABASE $db SET default_table_access_method = $method");
		$node->safe_psql($db, "SELECT pg_create_logical_replication_slot('$db', '$plugin', false, true)");
	}
}

# Runs statements in both databases.
sub both
{
	my ($node, $sql) = @_;
	$node->safe_psql($_, $sql) for qw(encrypted heap);
}

# Compares two texts, and shows only where they begin to differ.
sub is_same
{
	my ($got, $expected, $name) = @_;
	if ($got eq $expected)
	{
		pass(sprintf '%s (%d lines)', $name, scalar(() = $got =~ /\n/g) + ($got ne ''));
		return;
	}
	my @got = split /\n/, $got;
	my @expected = split /\n/, $expected;
	my $i = 0;
	$i++ while $i < @got && $i < @expected && $got[$i] eq $expected[$i];
	fail($name);
	diag(sprintf "%d lines, expected %d; they differ from line %d on:\n  got      %.300s\n  expected %.300s",
		scalar @got, scalar @expected, $i + 1, $got[$i] // '(nothing)', $expected[$i] // '(nothing)');
}

# Says that every table has the same rows in both databases, by a sequential scan and by each index that covers all rows.
sub is_same_content
{
	my ($node, $name) = @_;
	my @tables = split /\n/, $node->safe_psql('encrypted',
		q{SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND vault_tde.is_encrypted(oid) ORDER BY 1});
	ok(@tables > 0, "$name: there are encrypted tables");
	for my $table (@tables)
	{
		my $rows = "SELECT t::text FROM $table t ORDER BY t::text COLLATE \"C\"";
		my $heap = $node->safe_psql('heap', $rows);
		is_same($node->safe_psql('encrypted', $rows), $heap, "$name: $table has the rows of its heap twin");
		for my $key (split /\n/, $node->safe_psql('encrypted', qq{
			SELECT pg_get_indexdef(indexrelid, 1, true) FROM pg_index
			WHERE indrelid = '$table'::regclass AND indpred IS NULL AND indisvalid AND indexprs IS NULL ORDER BY 1}))
		{
			is_same($node->safe_psql('encrypted', qq{
					SET enable_seqscan = off; SET enable_bitmapscan = off;
					SELECT x FROM (SELECT t::text AS x FROM $table t ORDER BY $key) t ORDER BY x COLLATE "C"}),
				$heap, "$name: ... also by the index on $key");
		}
	}
}

# What slot "encrypted" or "heap" has to say, with the plugin's options; the changes stay in the slot. Prepared transactions,
# whose names are the server's, have the database's name at their end, which is left out.
sub stream
{
	my ($node, $slot, %options) = @_;
	my $list = join '', map { ", '$_', '$options{$_}'" } sort keys %options;
	my $lines = $node->safe_psql($slot, "SELECT data FROM pg_logical_slot_peek_changes('$slot', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1'$list)");
	$lines =~ s/^((?:PREPARE TRANSACTION|COMMIT PREPARED|ROLLBACK PREPARED) '.*)_$slot'$/$1'/mg;
	return $lines;
}

# Says that both slots have the same to say.
sub is_same_stream
{
	my ($node, $name, %options) = @_;
	is_same(stream($node, 'encrypted', %options), stream($node, 'heap', %options), "$name: the decoded stream is the heap twin's");
}

# --- files ----------------------------------------------------------------------------------------------------------------

# The files below a directory that contain a string; in scalar context how many.
sub files_with
{
	my ($string, $directory) = @_;
	my @found;
	File::Find::find({ no_chdir => 1, wanted => sub {
		return unless -f $_;
		my $content = eval { slurp_raw($_) } // return;    # it may be gone
		push @found, substr($_, 1 + length $directory) if index($content, $string) >= 0;
	} }, $directory);
	@found = sort @found;
	return @found;
}

sub slurp_raw
{
	my ($path) = @_;
	open my $file, '<:raw', $path or die "$path: $!";
	local $/;
	return scalar(<$file>) // '';
}

# The rows in a table's file, as they are stored: a list of { ctid, path and position in the file, natts, mask, hoff, generation,
# payload }. The server must have written them, by a checkpoint.
sub stored_rows
{
	my ($node, $table, $db) = @_;
	my $path = $node->data_dir . '/' . $node->safe_psql($db // 'postgres', "SELECT pg_relation_filepath('$table')");
	my $content = slurp_raw($path);
	my @rows;
	for my $block (0 .. length($content) / 8192 - 1)
	{
		my $page = substr($content, $block * 8192, 8192);
		my $lower = unpack 'x12 S', $page;
		for my $n (1 .. ($lower - 24) / 4)
		{
			my $pointer = unpack 'L', substr($page, 24 + 4 * ($n - 1), 4);
			my ($offset, $flags, $length) = ($pointer & 0x7fff, $pointer >> 15 & 3, $pointer >> 17);
			next unless $flags == 1;    # LP_NORMAL
			my $row = substr($page, $offset, $length);
			my ($mask2, $mask, $hoff, $generation) = unpack 'x18 S S C C', $row;
			push @rows, { ctid => "($block,$n)", path => $path, position => $block * 8192 + $offset, length => $length,
				natts => $mask2 & 0x7ff, mask => $mask, hoff => $hoff, generation => $generation, payload => substr($row, $hoff) };
		}
	}
	return @rows;
}

# --- processes ------------------------------------------------------------------------------------------------------------

# A value of /proc/PID/status, in kB.
sub memory_of
{
	my ($pid, $value) = @_;
	slurp_file("/proc/$pid/status") =~ /^$value:\s+(\d+) kB/m or die "no $value of process $pid";
	return $1;
}

# Waits until a piece of code returns something true, and returns that; dies after the usual timeout.
sub wait_until
{
	my ($what, $code) = @_;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		my $result = $code->();
		return $result if $result;
		select undef, undef, undef, 0.1;
	}
	die "timed out waiting for $what";
}

1;
