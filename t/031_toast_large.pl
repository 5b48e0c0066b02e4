# Values of 100 MB and of 600 MB: inserted, read back by slices and whole, decoded. (At most 5 GB of disk at a time.)

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use Digest::MD5;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

my $node = new_node('toast_large', 'max_wal_size = 1GB', 'checkpoint_timeout = 1h');
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_vault_tde;
	CREATE TABLE piece AS SELECT string_agg(md5(i::text), '') AS a FROM generate_series(1, 31250) i; -- 1 MB
	CREATE SCHEMA encrypted;
	CREATE SCHEMA heap;
	CREATE TABLE encrypted.t (id int PRIMARY KEY, a text STORAGE EXTERNAL) USING encrypted_heap;
	CREATE TABLE heap.t (id int PRIMARY KEY, a text STORAGE EXTERNAL) USING heap;
});

# The md5 of the value of the one INSERT that a slot decodes, read in pieces.
sub decode
{
	my ($slot) = @_;
	my $file = $node->basedir . "/$slot";
	my $lsn = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	$node->command_ok([ 'pg_recvlogical', '-d', $node->connstr('postgres'), '-S', $slot, '--start', '-f', $file, '--endpos', $lsn, '--no-loop', '-o', 'skip-empty-xacts=1', '-o', 'include-xids=0' ], "$slot: decoded");
	open my $handle, '<:raw', $file or die "$file: $!";
	my ($md5, $length, $before) = (Digest::MD5->new, 0, '');
	while (read $handle, my $data, 1 << 20)
	{
		if ($length == 0)
		{
			$data =~ s/^(BEGIN\ntable \w+\.t: INSERT: id\[integer\]:\d+ a\[text\]:')//;
			$before = $1;
		}
		$length += length $data;
		if ($length > -s $file) { die }
		$data =~ s/'\nCOMMIT\n\z//;
		$md5->add($data);
	}
	close $handle;
	unlink $file;
	$node->safe_psql('postgres', "SELECT pg_drop_replication_slot('$slot')");
	return (defined $before, $md5->hexdigest);
}

# $n MB in row $id, in each of the schemas.
sub check
{
	my ($id, $n, @schemas) = @_;
	my $expected = $node->safe_psql('postgres', "SELECT md5(repeat(a, $n)) FROM piece");
	for my $schema (@schemas)
	{
		my $name = "$n MB, $schema";
		$node->safe_psql('postgres', "SELECT pg_create_logical_replication_slot('$schema', '" . ($schema eq 'heap' ? 'test_decoding' : 'pg_vault_tde') . "')");
		$node->safe_psql('postgres', "INSERT INTO $schema.t SELECT $id, repeat(a, $n) FROM piece");
		is($node->safe_psql('postgres', "SELECT length(a) FROM $schema.t WHERE id = $id"), $n * 1_000_000, "$name: length");
		# slices at the ends, around borders of chunks, and at places all over
		is($node->safe_psql('postgres', qq{
			SELECT count(*), count(*) FILTER (WHERE substr(t.a, o, 3000) <> left(substr(p.a || p.a, (o - 1) % 1000000 + 1, 3000), ($n * 1000000 - o + 1)))
			FROM $schema.t t, piece p, (SELECT 1 + i * ($n * 10000 - 1) AS o FROM generate_series(0, 99) i UNION ALL SELECT $n * 1000000 - 2999 UNION ALL SELECT $n * 1000000 - 10
				UNION ALL SELECT 1967 * i + d FROM (VALUES (1), (1000), (50000)) v (i), generate_series(-1, 2) d) o
			WHERE t.id = $id}), '114|0', "$name: slices");
		is($node->safe_psql('postgres', "SELECT md5(a) FROM $schema.t WHERE id = $id"), $expected, "$name: whole");
		my ($found, $md5) = decode($schema);
		ok($found, "$name: there is an INSERT in the stream");
		is($md5, $expected, "$name: its value");
		unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal|out of memory/, "$name: no crash");
		$node->safe_psql('postgres', "TRUNCATE $schema.t; CHECKPOINT");
	}
}
check(1, 100, 'encrypted', 'heap');
check(2, 600, 'encrypted');

$node->stop;
$node->clean_node;
done_testing();
