# pg_upgrade of a cluster with encrypted tables and live logical slots: to the same major, and to the next one. What it has to
# bring along: keys, encrypted files with their TOAST, slots, and a subscription that goes on.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Decoding;
use Vault;

my ($bindir) = run_command([ 'pg_config', '--bindir' ]);
my ($here) = $bindir =~ m{^(.*)/bin$} or plan(skip_all => 'an unknown layout');
my $content = q{SELECT (SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM t) || (SELECT md5(string_agg(v::text, ',' ORDER BY id)) FROM view v)
	|| (SELECT md5(string_agg(p::text, ',' ORDER BY id)) FROM parts p) || (SELECT count(*) || md5(string_agg(h::text, ',' ORDER BY id)) FROM plain h)};
my $subscriber = new_node('subscriber', 'wal_retrieve_retry_interval = 100ms');
$subscriber->start;
my $tables = 'CREATE TABLE t (id int PRIMARY KEY, x text STORAGE EXTERNAL, n numeric)';

sub cluster
{
	my ($name, $path, $key) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name, $path eq $here ? () : (install_path => $path));
	my ($version) = (run_command([ "$path/bin/postgres", '--version' ]))[0] =~ /(\d+)/;
	# the defaults of 17 and 18 differ
	$node->init(allows_streaming => 'logical', extra => [ '--locale=C', '--encoding=UTF8', $version >= 18 ? '--no-data-checksums' : () ]);
	$node->adjust_conf('postgresql.conf', 'autovacuum_worker_slots', undef) if $version < 18;    # of 18's Cluster.pm, for 17
	my ($known) = run_command([ "$path/bin/postgres", '--describe-config' ]);
	$node->append_conf('postgresql.conf', join "\n", "shared_preload_libraries = 'pg_vault_tde'", "pg_vault_tde.key_file = '$key'", "dynamic_library_path = '" . link_path() . "'",
		'shared_buffers = 16MB', 'autovacuum = off', ($known =~ /^output_plugin_libraries\t/m ? "output_plugin_libraries = 'pg_vault_tde, pgoutput, test_decoding'" : ()), '');
	return ($node, $version);
}

sub upgrade
{
	my ($from, $to, $mode) = @_;
	my $name = join '_', map { /(\w+)$/ } $from, $to;
	my $key = PostgreSQL::Test::Utils::tempdir . '/key';
	write_key($key);
	my ($old, $old_version) = cluster("old_$name", $from, $key);
	my ($new) = cluster("new_$name", $to, $key);
	my $what = "$old_version to " . ($to =~ /(\d+)$/)[0] . ", $mode";
	$old->start;
	$old->safe_psql('postgres', qq{CREATE EXTENSION pg_vault_tde; SET default_table_access_method = encrypted_heap;
		$tables; INSERT INTO t SELECT g, repeat(md5(g::text), 1 + g % 2 * 200), g * 1.1 FROM generate_series(1, 200) g;
		ALTER TABLE t ADD COLUMN gone text DEFAULT 'x'; UPDATE t SET gone = repeat('gone', 2000) WHERE id < 9; ALTER TABLE t DROP COLUMN gone;
		SELECT vault_tde.rotate_key();
		INSERT INTO t SELECT g, repeat(md5(g::text), 1 + g % 2 * 200), g * 1.1 FROM generate_series(201, 300) g; VACUUM FULL t;
		CREATE TABLE parts (id int, x text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
		CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100); CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (100) TO (200) USING heap;
		INSERT INTO parts SELECT g, repeat('p' || g, 3000) FROM generate_series(1, 199) g;
		CREATE MATERIALIZED VIEW view AS SELECT id, x FROM t WHERE id < 50;
		CREATE TABLE plain (id int PRIMARY KEY, x text) USING heap; INSERT INTO plain VALUES (1, 'plain');
		CREATE TABLE empty (id int, x text); CREATE PUBLICATION p FOR TABLE t});
	# 17.12 keeps an option "pg_attver" with each column, which pg_dump of 18.6, older than that, copies to a server that does not know
	# it: no pg_upgrade between these two comes to an end, of whatever tables. Without the option this test is of what is ours.
	$old->safe_psql('postgres', q{SET allow_system_table_mods = on; UPDATE pg_attribute SET attoptions = NULL WHERE attoptions::text LIKE '{pg_attver=%}'}) if $from ne $to;
	$old->safe_psql('postgres', qq{SELECT pg_create_logical_replication_slot('cdc', 'pg_vault_tde', false, true); INSERT INTO t VALUES (1000, 'not consumed')});
	$subscriber->safe_psql('postgres', "$tables; CREATE SUBSCRIPTION sub CONNECTION '" . $old->connstr . " dbname=postgres' PUBLICATION p");
	$subscriber->wait_for_subscription_sync($old, 'sub');
	$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION sub DISABLE');
	$old->poll_query_until('postgres', q{SELECT active_pid IS NULL FROM pg_replication_slots WHERE slot_name = 'sub'}) or die;
	my $expected = $old->safe_psql('postgres', $content);
	my $keys = $old->safe_psql('postgres', 'SELECT * FROM vault_tde.keys ORDER BY 1');
	$old->stop;

	my @command = ("$to/bin/pg_upgrade", '--no-sync', '-d', $old->data_dir, '-D', $new->data_dir, '-b', "$from/bin", '-B', "$to/bin", '-s', $new->host, '-p', $old->port, '-P', $new->port, $mode);
	my $directory = PostgreSQL::Test::Utils::tempdir;
	my $run = sub { return run_command([ 'sh', '-c', 'cd "$0" && exec "$@" 2>&1', $directory, @command, @_ ]) };
	my ($refused) = $run->('--check');
	like($refused, qr/logical replication slots that cannot be upgraded/, "$what: not while a slot has changes that are not consumed");
	$old->start;
	like($old->safe_psql('postgres', q{SELECT data FROM pg_logical_slot_get_changes('cdc', NULL, NULL)}), qr/not consumed/, "$what: the slot works after that");
	$old->stop;
	my ($out) = $run->();
	like($out, qr/^Upgrade Complete/m, "$what: pg_upgrade") or diag($out, map { slurp_file($_) =~ s/^(?!.*(ERROR|error)).*\n//mgr } glob $new->data_dir . '/pg_upgrade_output.d/*/log/*');
	$new->start;

	is($new->safe_psql('postgres', 'SELECT * FROM vault_tde.keys ORDER BY 1'), $keys, "$what: the keys");
	is($new->safe_psql('postgres', $content), $expected, "$what: the content");
	is($new->safe_psql('postgres', q{SELECT string_agg(relname || ' ' || vault_tde.is_encrypted(oid), ', ' ORDER BY relname) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'm')}),
		'empty true, parts_1 true, parts_2 false, plain false, t true, view true', "$what: the access methods");
	is($new->safe_psql('postgres', q{SELECT string_agg(DISTINCT amname, ',') FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid JOIN pg_am a ON a.oid = t.relam
		WHERE vault_tde.is_encrypted(c.oid)}), 'encrypted_toast', "$what: ... of TOAST tables");
	is($new->safe_psql('postgres', q{SELECT count(*) FROM vault_tde.status() WHERE NOT ok}), 0, "$what: status()");
	$new->safe_psql('postgres', q{INSERT INTO t SELECT g, repeat(md5(g::text), 200), 0 FROM generate_series(2001, 2010) g; UPDATE t SET n = -1 WHERE id % 2 = 0; UPDATE t SET x = x || 'x' WHERE id % 10 = 0;
		DELETE FROM t WHERE id = 5; SELECT vault_tde.rotate_key(); UPDATE t SET id = -id WHERE id = 7; VACUUM t; CREATE TABLE more (id int, x text) USING encrypted_heap; INSERT INTO more VALUES (1, repeat('more', 3000))});
	is($new->safe_psql('postgres', q{SELECT string_agg(slot_name || ' ' || plugin || ' ' || two_phase, ', ' ORDER BY slot_name) FROM pg_replication_slots}), 'cdc pg_vault_tde true, sub pgoutput false', "$what: the slots");
	my $stream = $new->safe_psql('postgres', q{SELECT data FROM pg_logical_slot_get_changes('cdc', NULL, NULL, 'skip-empty-xacts', '1')});
	ok($stream !~ /INSERT: .*not consumed/, "$what: the slot of our own goes on where it was");
	ok($stream =~ /UPDATE: old-key: id\[integer\]:7 new-tuple: id\[integer\]:-7 x\[text\]:unchanged-toast-datum/, '... with the changes after the upgrade');
	$subscriber->safe_psql('postgres', "ALTER SUBSCRIPTION sub CONNECTION '" . $new->connstr . " dbname=postgres'; ALTER SUBSCRIPTION sub ENABLE");
	$new->wait_for_catchup('sub');
	my $of_t = 'SELECT count(*), md5(string_agg(t::text, $$,$$ ORDER BY id)) FROM t';
	is($subscriber->safe_psql('postgres', $of_t), $new->safe_psql('postgres', $of_t), "$what: the subscription goes on");
	$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION sub; DROP TABLE t');

	# What the extension's script wrote into the catalog is not dumped: the order in which DROP EXTENSION drops the access methods.
	is($new->safe_psql('postgres', q{SELECT count(*) FROM pg_depend WHERE classid = 'pg_am'::regclass AND refclassid = 'pg_am'::regclass AND deptype = 'n'
		AND objid = (SELECT oid FROM pg_am WHERE amname = 'encrypted_heap') AND refobjid = (SELECT oid FROM pg_am WHERE amname = 'encrypted_toast')}), 1, "$what: the dependency between the access methods");
	$new->safe_psql('postgres', q{SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = 'cdc'; DROP EXTENSION pg_vault_tde CASCADE});
	is($new->safe_psql('postgres', q{SELECT count(*) FROM pg_class c LEFT JOIN pg_am a ON a.oid = c.relam WHERE c.relam <> 0 AND a.oid IS NULL}), 0, "$what: DROP EXTENSION");
	$new->stop;
}

upgrade($here, $here, '--copy');
SKIP:
{
	skip('not a Debian layout, or 17 not installed', 1) unless $here =~ m{^(/usr/lib/postgresql)/18$} && -x "$1/17/bin/postgres" && -e "$1/17/lib/pg_vault_tde.so";
	upgrade('/usr/lib/postgresql/17', $here, '--link');
}
$subscriber->stop;
done_testing();
