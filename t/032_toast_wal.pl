# What out-of-line values cost in WAL: no message where nobody decodes, and at most twice the value where somebody may.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

my $node = new_node('toast_wal', 'max_wal_size = 4GB', 'checkpoint_timeout = 1h', 'wal_level = replica');
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_vault_tde;
	CREATE FUNCTION noise(n int, seed int) RETURNS text LANGUAGE sql AS $$ SELECT left(string_agg(md5(i::text || seed), ''), n) FROM generate_series(0, n / 32) i $$;
	CREATE TABLE source AS SELECT i AS id, noise(1000000, i) AS a, noise(5000, i) AS small, repeat('pattern ', 1000000) AS pattern FROM generate_series(1, 5) i;
	VACUUM source; -- the first reader would, since 19, and write WAL for it
});
for my $side ('encrypted', 'heap')
{
	my $method = $side eq 'heap' ? 'heap' : 'encrypted_heap';
	$node->safe_psql('postgres', qq{
		CREATE SCHEMA $side;
		SET search_path = $side;
		SET default_table_access_method = $method;
		CREATE TABLE external (id int PRIMARY KEY, a text STORAGE EXTERNAL);
		CREATE TABLE small (id int PRIMARY KEY, a text STORAGE EXTERNAL);
		CREATE TABLE compressed (id int PRIMARY KEY, a text);
		CREATE TABLE identity (id int PRIMARY KEY, a text STORAGE EXTERNAL, n int);
		ALTER TABLE identity REPLICA IDENTITY FULL;
		CREATE UNLOGGED TABLE unlogged (a text STORAGE EXTERNAL);
	});
}

# Runs a statement; returns how many bytes of WAL it wrote, how many logical messages, and how many bytes those had.
sub written
{
	my ($sql) = @_;
	my ($from, $to) = split /\n/, $node->safe_psql('postgres', qq{
		SELECT pg_current_wal_insert_lsn();
		$sql;
		SELECT pg_current_wal_insert_lsn()});
	$node->safe_psql('postgres', 'SELECT pg_switch_wal()');    # so that all of it is on disk
	my ($out, $err) = run_command([ 'pg_waldump', '-p', $node->data_dir . '/pg_wal', '-s', $from, '-e', $to, '--rmgr=LogicalMessage' ]);
	my @lengths = $out =~ m{LogicalMessage len \(rec/tot\):\s*\d+/\s*(\d+)}g;
	my $bytes = 0;
	$bytes += $_ for @lengths;
	my $wal = $node->safe_psql('postgres', "SELECT '$to'::pg_lsn - '$from'::pg_lsn");
	return ($wal, scalar @lengths, $bytes);
}

my @cases = (
	# what, a statement, the bytes of its values, how often a value may be written
	[ '1 MB values', 'INSERT INTO S!.external SELECT id, a FROM source', 5_000_000, 2 ],
	[ '5 kB values', 'INSERT INTO S!.small SELECT id + j * 10, small FROM source, generate_series(1, 200) j', 5_000_000, 2 ],
	[ 'updates', 'UPDATE S!.external SET a = a || id', 5_000_000, 2 ],
	[ 'deletions', 'DELETE FROM S!.external', 5_000_000, 0.1 ],
	[ 'rewrites', 'VACUUM FULL S!.small', 5_000_000, 2 ],
	[ 'FULL: insertions', 'INSERT INTO S!.identity SELECT id, a, 0 FROM source', 5_000_000, 2 ],
	[ 'FULL: updates of others', 'UPDATE S!.identity SET n = 1', 5_000_000, 1 ],    # as in the row that heap logs
	[ 'FULL: updates', 'UPDATE S!.identity SET a = a || id', 5_000_000, 3 ],
	[ 'FULL: deletions', 'DELETE FROM S!.identity', 5_000_000, 1.1 ],
	[ 'unlogged', 'INSERT INTO S!.unlogged SELECT a FROM source', 5_000_000, 0.1 ],);

for my $level ('replica', 'logical')
{
	$node->append_conf('postgresql.conf', "wal_level = $level");
	$node->restart;
	for (@cases)
	{
		my ($what, $statement, $size, $limit) = @$_;
		my ($encrypted, $heap) = ($statement, $statement);
		$encrypted =~ s/S!/encrypted/g;
		$heap =~ s/S!/heap/g;
		my ($wal, $messages, $message_bytes) = written($encrypted);
		my ($heap_wal) = written($heap);
		note(sprintf '%-8s %-25s %5.3f bytes of WAL a byte (heap: %5.3f), in messages %5.3f (%d)',
			$level, $what, $wal / $size, $heap_wal / $size, $message_bytes / $size, $messages);
		if ($level eq 'replica')
		{
			is($messages, 0, "$level, $what: no message");
			cmp_ok($wal, '<', $heap_wal * 1.03 + 200_000, "$level, $what: little more WAL than heap's");
		}
		else
		{
			# 10 %: what heap has, too, for headers of records and rows and for index entries, 29 bytes a chunk, and a message a chunk
			cmp_ok($wal, '<', $size * $limit * 1.1 + 200_000, "$level, $what: each byte at most $limit times");
			cmp_ok($message_bytes, '<', $size * 1.08 * ($limit > 2 ? 2 : 1) + 1000, "$level, $what: each value in messages once (FULL: the old one, too)");
			is($messages > 0, $what !~ /^(deletions|rewrites|unlogged)/, "$level, $what: messages where there are values to be decoded") unless $what eq 'rewrites';
		}
	}
	$node->safe_psql('postgres', "TRUNCATE $_.external, $_.small, $_.identity, $_.unlogged") for 'encrypted', 'heap';
}

$node->stop;
done_testing();
