# The documentation does what it says: README.md and docs/*.md are run block by block, in the order in which a newcomer reads
# them, on two clusters that begin as initdb leaves them. t/Pages.pm says how blocks are marked. And reference.md knows every
# parameter, function, view and relation of the extension.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Decoding;
use OpenBao;
use Pages;
use Vault;

my $root = "$FindBin::RealBin/..";
plan skip_all => 'the pages are not here' if !-e "$root/README.md";

# The order; the rest comes behind, by name. What a page takes to be there already, though no page before it makes it.
my @order = qw(README.md docs/logical-replication.md docs/keys.md docs/operations.md);
my %given = (
	# (a lost primary would not have its slots any more)
	'docs/keys.md' => q{ALTER SYSTEM RESET synchronized_standby_slots; SELECT pg_reload_conf();
		SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots; CREATE ROLE alice; CREATE TABLE orders (id int PRIMARY KEY, item text) USING encrypted_heap;
		INSERT INTO orders SELECT i, 'item ' || i FROM generate_series(1, 100) i},
	'docs/indexes.md' => q{CREATE EXTENSION citext; ALTER TABLE patients ADD email text, ADD active bool},
);
my %pages = map { s{^\Q$root/\E}{}r => 1 } "$root/README.md", glob "$root/docs/*.md";
@order = grep { delete $pages{$_} } @order;
push @order, sort keys %pages;

# --- two clusters as initdb makes them, and what the pages call them ------------------------------------------------------

my $dir = PostgreSQL::Test::Utils::tempdir();
my %node;
for my $name (qw(publisher subscriber))
{
	$node{$name} = PostgreSQL::Test::Cluster->new($name);
	$node{$name}->init(allows_streaming => 1);
	$node{$name}->append_conf('postgresql.conf', "wal_retrieve_retry_interval = 100ms\nautovacuum = off\n");
	$node{$name}->start;
}
# Servers that the pages themselves make, and their ports.
my %made = map { $_ => PostgreSQL::Test::Cluster::get_free_port() } qw(standby restored);
END { local $?; system('pg_ctl', '-D', "$dir/$_", '-s', '-m', 'immediate', 'stop') for grep { -e "$dir/$_/postmaster.pid" } sort keys %made; }
my $bao;
mkdir "$dir/bin";
append_to_file("$dir/bin/sudo", qq{#!/bin/sh\nwhile :; do case \$1 in -u) shift 2;; -*) shift;; *) break;; esac; done\nexec "\$@"\n});
chmod 0755, "$dir/bin/sudo";
symlink OpenBao::program(), "$dir/bin/bao" if OpenBao::program();

# The pages' words for what is elsewhere in a test.
sub translate
{
	my ($code) = @_;
	my $user = getpwuid $>;
	my $publisher = sprintf 'host=%s port=%d', $node{publisher}->host, $node{publisher}->port;
	$code =~ s{/etc/pg_vault_tde}{$dir/etc}g;
	$code =~ s{/var/backups}{$dir}g;
	$code =~ s{/var/lib/postgresql/}{$dir/}g;
	$code =~ s{\b5433\b}{$made{restored}}g;
	$code =~ s/^(hot_standby_feedback = on)$/port = $made{standby}\n$1/mg;
	$code =~ s/-o postgres\b/-o $user/g;
	$code =~ s/host=publisher\b/$publisher/g;
	$code =~ s/host=promoted\b/$publisher =~ s{port=.*}{port=$made{standby}}r/ge;
	if ($bao)
	{
		my $address = $bao->address;
		$code =~ s{https://vault\.example:8200}{$address}g;
		$code =~ s/(vault_role_id = )'…'/"$1'" . $bao->api('GET', 'auth\/approle\/role\/postgresql\/role-id')->{data}{role_id} . "'"/ge;
		$code =~ s/^pg_vault_tde\.vault_ca_cert.*\n//mg;
	}
	return $code;
}

sub is_there
{
	my ($name) = @_;
	return 1 if !defined $name;
	return OpenBao::program() if $name eq 'bao';
	return has_plugin($name);
}

# --- running a block ------------------------------------------------------------------------------------------------------

# Lines for the configuration: the server's name for each is checked by its start.
sub configure
{
	my ($block) = @_;
	my $lines = translate($block->{code});
	$lines =~ s/^output_plugin_libraries.*\n//m if !Vault::setting_exists('output_plugin_libraries');
	my $node = $node{publisher};
	$node->append_conf('postgresql.conf', $lines);
	$node->restart;
	return (1, '');
}

# Returns whether it ended well, and what it printed.
sub run_block
{
	my ($block) = @_;
	return configure($block) if $block->{language} eq 'conf';
	my $node = $node{ $block->{where} eq 'subscriber' ? 'subscriber' : 'publisher' };
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $made{ $block->{where} } // $node->port, PGDATABASE => 'postgres', PATH => "$dir/bin:$ENV{PATH}");
	if ($block->{where} eq 'key-server')
	{
		if (!$bao) { $bao = OpenBao->new(dev => 1); $bao->start; $bao->call('DELETE', 'sys/mounts/transit'); }
		@ENV{qw(BAO_ADDR BAO_TOKEN HOME)} = ($bao->address, 'root', $dir);
	}
	my @command = $block->{language} eq 'sql' ? ('psql', '-X', '-v', 'ON_ERROR_STOP=1', '-P', 'pager=off', '-f', '-') : ('bash', '-e', '-o', 'pipefail');
	push @command, '-q' if $block->{language} eq 'sql';
	my ($in, $out, $err) = (translate($block->{code}), '', '');
	$in = "exec $in" if $block->{endless};    # one command, which gets the signal itself
	my $run = IPC::Run::start(\@command, '<', \$in, '>', \$out, '2>', \$err, init => sub { chdir $dir },
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	if ($block->{endless})
	{
		$run->pump until same_output($out, $block->{output} // '…');
		$run->kill_kill;
		no_slot_in_use('sub');
		return (1, $out);
	}
	my $ok = $run->finish;
	return ($ok, $ok ? $out : $out . $err =~ s/^psql:<stdin>:\d+: //mgr);
}

# Servers notice a little later that a client is gone.
sub no_slot_in_use
{
	my ($but) = @_;
	$node{publisher}->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_replication_slots WHERE active AND slot_name <> '$but')")
		or die 'a slot remains in use';
}

for my $page (@order)
{
	my @blocks = page_of("$root/$page");
	is_deeply([ map { "$page:$_->{line}: $_->{problem}" } grep { $_->{problem} } @blocks ], [], "$page: each block is run, or says why not");
	next if !@blocks;
	if ($given{$page})
	{
		no_slot_in_use('none');
		$node{publisher}->safe_psql('postgres', $given{$page});
	}
	for my $block (grep { !$_->{problem} } @blocks)
	{
		my $name = "$page:$block->{line} ($block->{info})";
		if (!is_there($block->{needs}))
		{
			note "$name: there is no $block->{needs}";
			next;
		}
		my ($ok, $out) = run_block($block);
		# what another server shows comes a little later
		for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
		{
			last if !$ok || $block->{where} eq '' || !defined $block->{output} || same_output($out, $block->{output});
			select undef, undef, undef, 0.1;
			($ok, $out) = run_block($block);
		}
		is(!$ok, !!$block->{fails}, $block->{fails} ? "$name fails" : $name) or diag($out), next;
		next if !defined $block->{output};
		ok(same_output($out, $block->{output}), "$name: what is shown") or diag("got:\n$out\nshown:\n$block->{output}");
	}
}

# --- the reference is complete --------------------------------------------------------------------------------------------

my $reference = slurp_file("$root/docs/reference.md");
my $db = 'postgres';
for (split /\n/, $node{publisher}->safe_psql($db, q{SELECT name, boot_val, context, unit FROM pg_settings WHERE name LIKE 'pg_vault_tde.%' ORDER BY name COLLATE "C"}))
{
	my ($name, $default, $context, $unit) = split /\|/;
	my ($row) = $reference =~ /^\| `\Q$name\E` \| ([^\n]*)$/m;
	ok(defined $row, "reference.md has $name") or next;
	my ($shown, $set_in) = split / \| /, $row;
	$default /= 1000, $default .= 's' if $unit && $unit eq 'ms';
	$default /= 1024, $default .= 'MB' if $unit && $unit eq 'kB';
	is($shown =~ s/[` ]//gr, $default eq '' ? 'none' : $default =~ s/ //gr, "... its default");
	my %contexts = (sighup => 'reload', postmaster => 'restart', superuser => 'superuser', user => 'user');
	is($set_in, $contexts{$context}, "... who sets it when");
}
for (split /\n/, $node{publisher}->safe_psql($db, q{
	SELECT format('%s(%s)', p.proname, pg_get_function_arguments(p.oid)) FROM pg_proc p
	WHERE pronamespace = 'vault_tde'::regnamespace AND (NOT has_function_privilege('public', oid, 'EXECUTE') OR proname IN ('is_encrypted'))
		AND proname NOT IN ('data_keys_rows', 'operator_class_commands')
	ORDER BY 1}))
{
	my ($name, $arguments) = /^(\w+)\((.*)\)$/;
	$arguments = join ', ', map { s/ DEFAULT /=/r =~ s/=/ = /r } grep { !/^OUT / } split /, /, $arguments;
	my $signature = "$name($arguments)";
	like($reference, qr/^#+ .*`\Q$signature\E`|^\| `\Q$signature\E/m, "reference.md has $signature");
}
for (split /\n/, $node{publisher}->safe_psql($db, q{
	SELECT relname FROM pg_class WHERE relnamespace = 'vault_tde'::regnamespace AND relkind IN ('v', 'm') ORDER BY 1}))
{
	my $view = $_;
	# a row of a table, or a section
	my ($text) = $reference =~ /^\| `\Q$view\E` \|(.*?)$/m ? $1 : $reference =~ /^#+ `\Q$view\E`(.*?)(?=^#|\z)/ms;
	ok(defined $text, "reference.md has the view $view") or next;
	for my $column (split /\n/, $node{publisher}->safe_psql($db, "SELECT attname FROM pg_attribute WHERE attrelid = 'vault_tde.$view'::regclass AND attnum > 0"))
	{
		like($text, qr/`\Q$column\E`/, "... and its column $column");
	}
}

$_->stop for values %node;
done_testing();
