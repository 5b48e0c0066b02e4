# Out-of-line values in crash recovery and on a physical standby, where pg_vault_tde need not be loaded: WAL is core's own. The data
# are readable once the library is preloaded again.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

my $primary = new_node('primary');
$primary->start;
$primary->safe_psql('postgres', q{
	CREATE EXTENSION pg_vault_tde;
	CREATE FUNCTION noise(n int, seed int) RETURNS text LANGUAGE sql AS $$ SELECT left(string_agg(md5(i::text || seed), ''), n) FROM generate_series(0, n / 32) i $$;
	CREATE SCHEMA encrypted;
	CREATE SCHEMA heap;
	CREATE TABLE encrypted.t (id int PRIMARY KEY, a text STORAGE EXTERNAL, b text) USING encrypted_heap;
	CREATE TABLE heap.t (id int PRIMARY KEY, a text STORAGE EXTERNAL, b text) USING heap;
	CREATE UNLOGGED TABLE unlogged (a text) USING encrypted_heap;
	INSERT INTO unlogged VALUES (noise(5000, 1));
});

# Says that both tables hold the same rows.
sub twin_diff
{
	my ($node, $name) = @_;
	my $rows = sub { return $node->safe_psql('postgres', "SELECT t::text FROM $_[0].t t ORDER BY id") };
	my $heap = $rows->('heap');
	cmp_ok(length $heap, '>', 10_000, "$name: there are rows");
	is_same($rows->('encrypted'), $heap, "$name: the rows of the heap twin");
}

# Changes both tables in the same way.
sub change
{
	my ($sql) = @_;
	for my $schema ('encrypted', 'heap')
	{
		$primary->safe_psql('postgres', "SET search_path = $schema, public; $sql");
	}
}
my $checksum = q{SELECT count(*), md5(string_agg(concat_ws(',', id, a, b), ';' ORDER BY id)) FROM };

change('INSERT INTO t SELECT i, noise(i * 200, i), noise(3000, -i) FROM generate_series(1, 100) i');
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$standby->start;

change(q{
	UPDATE t SET a = noise(6000, id + 1000) WHERE id % 3 = 0;
	DELETE FROM t WHERE id % 10 = 0;
	INSERT INTO t VALUES (1000, noise(3000000, 7), repeat('pattern ', 1000000)) ON CONFLICT DO NOTHING;
	VACUUM FULL t;
	UPDATE t SET b = b || a WHERE id % 7 = 0;
	BEGIN; INSERT INTO t VALUES (2000, noise(5000, 3)); SAVEPOINT s; INSERT INTO t VALUES (2001, noise(5000, 4)); ROLLBACK TO s; COMMIT;
});

# Without the library, the standby replays everything, but does not read it.
$primary->wait_for_replay_catchup($standby);
is($standby->safe_psql('postgres', $checksum . 'heap.t'), $primary->safe_psql('postgres', $checksum . 'heap.t'), 'a standby without the library replays heap');
my ($rc, $out, $err) = $standby->psql('postgres', $checksum . 'encrypted.t');
isnt($rc, 0, '... and does not read encrypted tables');
like($err, qr/shared_preload_libraries/, '... saying why');
unlike($err, qr/terminated|closed the connection/, '... without a crash');
is($standby->safe_psql('postgres', 'SELECT 1'), 1, '... and goes on');
$standby->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_vault_tde'");
$standby->restart;
twin_diff($standby, 'standby, with the library again');
is($standby->safe_psql('postgres', $checksum . 'encrypted.t'), $primary->safe_psql('postgres', $checksum . 'encrypted.t'), 'as on the primary');
is($standby->safe_psql('postgres', 'SELECT substr(a, 2999990) FROM encrypted.t WHERE id = 1000'),
	$primary->safe_psql('postgres', 'SELECT substr(a, 2999990) FROM heap.t WHERE id = 1000'), 'by slices, too');

# A crash of the primary, then recovery without the library.
my $before = $primary->safe_psql('postgres', $checksum . 'encrypted.t');
change('CHECKPOINT; UPDATE t SET a = a || id; DELETE FROM t WHERE id % 4 = 1; INSERT INTO t SELECT i, noise(4000, i) FROM generate_series(3000, 3020) i');
my $session = $primary->background_psql('postgres');
$session->query_safe('BEGIN; INSERT INTO encrypted.t SELECT i, noise(40000, i) FROM generate_series(5000, 5020) i; UPDATE encrypted.t SET a = b WHERE id < 50');
my $after = $primary->safe_psql('postgres', $checksum . 'encrypted.t');
isnt($after, $before, 'there is something to recover');
$primary->stop('immediate');
$session->{run}->finish;
$primary->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$primary->start;
like(slurp_file($primary->logfile), qr/redo done/, 'crash recovery without the library');
($rc, $out, $err) = $primary->psql('postgres', $checksum . 'encrypted.t');
like($err, qr/shared_preload_libraries/, '... after which encrypted tables cannot be read');
($rc, $out, $err) = $primary->psql('postgres', 'VACUUM encrypted.t');
like($err, qr/shared_preload_libraries/, '... nor vacuumed');
is($primary->safe_psql('postgres', 'SELECT count(*) FROM heap.t'), $primary->safe_psql('postgres', 'SELECT count(*) FROM heap.t'), '... heap can');
$primary->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_vault_tde'");
$primary->restart;
is($primary->safe_psql('postgres', $checksum . 'encrypted.t'), $after, 'the data are there once it is preloaded again');
twin_diff($primary, 'primary after recovery');
is($primary->safe_psql('postgres', 'SELECT count(*) FROM unlogged'), 0, 'an unlogged table is empty after a crash');
$primary->safe_psql('postgres', 'INSERT INTO unlogged VALUES (noise(5000, 1)); VACUUM encrypted.t');

# Recovery with the library; and a promotion.
change('UPDATE t SET b = noise(5000, id) WHERE id % 5 = 0');
$primary->stop('immediate');
$primary->start;
twin_diff($primary, 'primary after recovery with the library');
$primary->wait_for_replay_catchup($standby);
twin_diff($standby, 'standby of that');
$standby->promote;
$standby->safe_psql('postgres', "UPDATE $_.t SET a = a || 'after promotion', b = noise(5000, 1)") for 'encrypted', 'heap';
twin_diff($standby, 'promoted standby');
unlike(slurp_file($_->logfile), qr/PANIC|terminated by signal/, 'no crash but those') for $standby;

$_->stop for $standby, $primary;
done_testing();
