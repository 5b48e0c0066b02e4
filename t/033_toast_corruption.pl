# Chunks that were tampered with, or damaged, are refused with ERRCODE_DATA_CORRUPTED and an error that names the TOAST table
# and the value; the server and the other values go on.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

my $node = new_node('toast_corruption');
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_vault_tde;
	CREATE TABLE t (id int PRIMARY KEY, a text STORAGE EXTERNAL) USING encrypted_heap;
	CREATE TABLE other (id int PRIMARY KEY, a text STORAGE EXTERNAL) USING encrypted_heap;
	INSERT INTO t SELECT i, repeat(md5(i::text), 200) FROM generate_series(1, 40) i; -- chunks 0 to 3
	INSERT INTO other SELECT i, repeat(md5(i::text), 200) FROM generate_series(1, 2) i;
});
my $toast = $node->safe_psql('postgres', q{SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 't'::regclass});
my $toast_name = $toast =~ s/.*\.//r;
my $other = $node->safe_psql('postgres', q{SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 'other'::regclass});
sub value_id
{
	my ($id, $table) = @_;
	return $node->safe_psql('postgres', 'SELECT pg_column_toast_chunk_id(a) FROM ' . ($table // 't') . " WHERE id = $id");
}

# Core refuses to change a TOAST table even to a superuser, unless it looks like another table. And whoever reads a value
# sees deleted chunks, too, until they are vacuumed.
sub tamper
{
	my ($sql) = @_;
	$node->safe_psql('postgres', qq{
		SET allow_system_table_mods = on;
		BEGIN;
		UPDATE pg_class SET relkind = 'r' WHERE oid = '$toast'::regclass;
		$sql;
		UPDATE pg_class SET relkind = 't' WHERE oid = '$toast'::regclass;
		COMMIT;
		VACUUM $toast});
}

# Says that the whole value of a row is refused; and that a slice is, which has only the named chunk (unless that is undef).
my $tampered = 0;
sub is_refused
{
	my ($id, $what, $chunk, $message) = @_;
	my $value_id = value_id($id);
	$tampered++;
	my @reads = (
		[ "SELECT md5(a) FROM t WHERE id = $id", 'whole' ],
		[ "CREATE TABLE copy_$id AS SELECT a || '' FROM t WHERE id = $id", 'copied' ],
		(defined $chunk ? [ "SELECT substr(a, 1967 * $chunk + 1, 100) FROM t WHERE id = $id", 'a slice' ] : ()));
	for (@reads)
	{
		my ($sql, $how) = @$_;
		my ($rc, $out, $err) = $node->psql('postgres', $sql, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
		like($err, qr/ERROR:  XX001: $message of toast value $value_id in "$toast_name"/, "$what: $how");
	}
}
my $unauthentic = qr/could not decrypt chunk \d/;
my $misplaced = qr/missing or unexpected chunk \d/;

# a bit flipped, in the first byte (the key generation), the IV, the ciphertext, the tag
my $id = 0;
for my $place (0, 1, 12, 13, 14, 500, 1979, 1980, 1995)
{
	my $v = value_id(++$id);
	my $chunk = $id % 3;
	tamper("UPDATE $toast SET chunk_data = set_byte(chunk_data, $place, get_byte(chunk_data, $place) # 4) WHERE chunk_id = $v AND chunk_seq = $chunk");
	is_refused($id, "bit flipped in byte $place", $chunk, $place == 0 ? qr/(?:$unauthentic|chunk \d)/ : $unauthentic);
}
# truncated, lengthened, emptied
for my $data ('left(chunk_data::text, -2)::bytea', q{chunk_data || '\x00'}, q{'\x'::bytea}, 'substr(chunk_data, 1, 29)', 'substr(chunk_data, 1, 28)', 'substr(chunk_data, 2)')
{
	for my $chunk (1, 3)
	{
		my $v = value_id(++$id);
		tamper("UPDATE $toast SET chunk_data = $data WHERE chunk_id = $v AND chunk_seq = $chunk");
		is_refused($id, "chunk $chunk as $data", $chunk, qr/(?:$misplaced|$unauthentic)/);
	}
}
# reordered
my $v = value_id(++$id);
tamper("UPDATE $toast SET chunk_seq = -1 WHERE chunk_id = $v AND chunk_seq = 1;
	UPDATE $toast SET chunk_seq = 1 WHERE chunk_id = $v AND chunk_seq = 2;
	UPDATE $toast SET chunk_seq = 2 WHERE chunk_id = $v AND chunk_seq = -1");
is_refused($id, 'two chunks swapped', 1, $unauthentic);
# missing
for my $chunk (0, 2, 3)
{
	$v = value_id(++$id);
	tamper("DELETE FROM $toast WHERE chunk_id = $v AND chunk_seq = $chunk");
	is_refused($id, "chunk $chunk deleted", $chunk, $misplaced);
}
$v = value_id(++$id);
tamper("DELETE FROM $toast WHERE chunk_id = $v");
is_refused($id, 'all chunks deleted', 0, $misplaced);
# one too many; and the same twice (the index allows it while it is not unique)
$v = value_id(++$id);
tamper("INSERT INTO $toast SELECT chunk_id, 4, chunk_data FROM $toast WHERE chunk_id = $v AND chunk_seq = 3");
is_refused($id, 'an additional chunk', undef, $misplaced);
$v = value_id(++$id);
tamper("UPDATE pg_index SET indisunique = false WHERE indrelid = '$toast'::regclass;
	INSERT INTO $toast SELECT chunk_id, chunk_seq, chunk_data FROM $toast WHERE chunk_id = $v AND chunk_seq = 1;
	UPDATE pg_index SET indisunique = true WHERE indrelid = '$toast'::regclass");
is_refused($id, 'a chunk twice', 1, $misplaced);
# exchanged: the chunks of another value, of another table, of an older version of the value
my ($v1, $v2) = (value_id(++$id), value_id($id + 1));
tamper("UPDATE $toast SET chunk_id = 1 WHERE chunk_id = $v1; UPDATE $toast SET chunk_id = $v1 WHERE chunk_id = $v2; UPDATE $toast SET chunk_id = $v2 WHERE chunk_id = 1");
is_refused($id, "another value's chunks", 2, $unauthentic);
is_refused(++$id, "... and the other way round", 2, $unauthentic);
$v1 = value_id(++$id);
$v2 = value_id(1, 'other');
tamper("UPDATE $toast t SET chunk_data = o.chunk_data FROM (SELECT * FROM $other OFFSET 0) o WHERE t.chunk_id = $v1 AND o.chunk_id = $v2 AND o.chunk_seq = t.chunk_seq");
is_refused($id, "chunks of another table", 0, $unauthentic);

# The rest is as it was, in the same server.
is($node->safe_psql('postgres', "SELECT count(*), bool_and(a = repeat(md5(id::text), 200)) FROM t WHERE id > $id"), (40 - $id) . '|t', 'the other values are readable');
is($node->safe_psql('postgres', 'SELECT count(id) FROM t'), '40', 'rows are, too');
cmp_ok($tampered, '==', $id, 'every row that was tampered with was checked');
my ($rc, $out, $err) = $node->psql('postgres', "UPDATE t SET a = 'mended' WHERE id <= $id; SELECT count(*) FROM t WHERE a = 'mended'");
is($out, $id, 'they can be replaced');
$node->safe_psql('postgres', "DELETE FROM t WHERE id <= $id; VACUUM FULL t");
is($node->safe_psql('postgres', "SELECT bool_and(a = repeat(md5(id::text), 200)) FROM t"), 't', 'after which the table can be rewritten');
unlike(slurp_file($node->logfile), qr/PANIC|was terminated by signal/, 'no crash');

# Damage on disk: a byte of the file (without data checksums, which would notice first).
$node->safe_psql('postgres', 'CHECKPOINT');
my ($path, $block) = split /\|/, $node->safe_psql('postgres', "SELECT pg_relation_filepath('$toast'), 3");
$v = $node->safe_psql('postgres', "SELECT chunk_id FROM $toast WHERE ctid = '(3,2)'");
$node->stop;
my $file = $node->data_dir . "/$path";
open my $handle, '+<:raw', $file or die "$file: $!";
seek $handle, 3 * 8192 + 7000, 0;    # in the first tuples of a page, which stand at its end
read $handle, my $byte, 1;
seek $handle, 3 * 8192 + 7000, 0;
print $handle chr(ord($byte) ^ 1);
close $handle;
$node->append_conf('postgresql.conf', 'ignore_checksum_failure = on');
$node->start;
($rc, $out, $err) = $node->psql('postgres', 'SELECT md5(string_agg(a, chr(32))) FROM t', extra_params => [ '-v', 'VERBOSITY=verbose' ]);
like($err, qr/ERROR:  XX001: could not decrypt chunk \d+ of toast value \d+ in "$toast_name"/, 'a flipped bit on disk');

$node->stop;
done_testing();
