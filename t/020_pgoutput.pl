# pgoutput as the inner plugin, in all versions of its protocol: the same messages as from the heap twin by pgoutput alone.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Decoding;
use Vault;

my $node = decoding_node('pgoutput');
my $major = substr $node->safe_psql('postgres', 'SHOW server_version_num'), 0, 2;
make_twins($node);
$node->safe_psql($_, "SELECT pg_drop_replication_slot('$_')") for qw(encrypted heap);

my $virtual = $major >= 18 ? ', v int GENERATED ALWAYS AS (id * 3) VIRTUAL' : '';
both($node, qq{
	CREATE TYPE mood AS ENUM ('sad', 'ok');
	CREATE TABLE things (id int PRIMARY KEY, name text, big text STORAGE EXTERNAL, doc jsonb, amount numeric, at timestamptz,
		feeling mood, tags text[], twice int GENERATED ALWAYS AS (id * 2) STORED$virtual);
	CREATE TABLE whole (id int, big text STORAGE EXTERNAL, note text); ALTER TABLE whole REPLICA IDENTITY FULL;
	CREATE TABLE chosen (a int, b text NOT NULL, c text); CREATE UNIQUE INDEX chosen_b ON chosen (b);
	ALTER TABLE chosen REPLICA IDENTITY USING INDEX chosen_b;
	CREATE TABLE none (a int, b text); ALTER TABLE none REPLICA IDENTITY NOTHING;
	CREATE TABLE filtered (id int PRIMARY KEY, secret text, public text, big text STORAGE EXTERNAL);
	CREATE TABLE parts (id int, part int, big text STORAGE EXTERNAL, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
	CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
	CREATE TABLE parts_2 (big text STORAGE EXTERNAL, part int NOT NULL, id int NOT NULL);
	ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES IN (2);
	CREATE TABLE silent (id int PRIMARY KEY, big text STORAGE EXTERNAL);
	CREATE PUBLICATION everything FOR ALL TABLES WITH (publish_via_partition_root = false);
	CREATE PUBLICATION inserts FOR TABLE things, whole WITH (publish = 'insert');
	CREATE PUBLICATION parted FOR TABLE filtered (id, public, big) WHERE (id % 2 = 0), TABLE parts, TABLE things
		WITH (publish_via_partition_root = true);
});
both($node, 'CREATE PUBLICATION generated FOR TABLE things WITH (publish_generated_columns = stored)') if $major >= 18;

# Slots before the changes: plain, and for two-phase. Of pgoutput by name on both sides, and of pg_vault_tde on the encrypted.
$node->safe_psql('postgres', "ALTER DATABASE encrypted SET dynamic_library_path = '" . link_path() . "'");
twin_slots($node, 'plain', 'pgoutput', 0, 'pgoutput');
twin_slots($node, 'prepared', 'pgoutput', 1, 'pgoutput');
twin_slots($node, 'ours', 'pgoutput', 0);

sub workload
{
	my ($db) = @_;
	return qq{
	-- rows are found by their keys, since their places differ between the twins
	SET enable_seqscan = off; SET enable_bitmapscan = off;
	INSERT INTO things (id, name, big, doc, amount, at, feeling, tags) SELECT g, 'thing ' || g, repeat(md5(g::text), 500), jsonb_build_object('g', g, 'pad', repeat('j', 3000)),
		g * 1.10, '2026-01-01 00:00+00'::timestamptz + g * interval '1 hour', 'ok', ARRAY['x', NULL, g::text] FROM generate_series(1, 40) g;
	INSERT INTO things (id) VALUES (100);
	UPDATE things SET name = 'only the name' WHERE id > 0 AND id % 3 = 0;
	UPDATE things SET big = big || 'longer' WHERE id > 0 AND id % 4 = 0;
	UPDATE things SET id = id + 1000 WHERE id > 0 AND id % 5 = 0;
	DELETE FROM things WHERE id > 0 AND id % 6 = 1;
	INSERT INTO whole SELECT g, repeat(md5(g::text), 300), 'n' FROM generate_series(1, 10) g;
	UPDATE whole SET note = 'changed' WHERE id < 5;
	UPDATE whole SET big = 'short now' WHERE id = 6;
	DELETE FROM whole WHERE id = 7;
	INSERT INTO chosen VALUES (1, 'one', 'c'), (2, 'two', 'c'), (3, 'three', NULL);
	UPDATE chosen SET c = 'd' WHERE a = 1;
	UPDATE chosen SET b = 'TWO' WHERE a = 2;
	DELETE FROM chosen WHERE a = 3;
	INSERT INTO none VALUES (1, 'x');
	INSERT INTO filtered SELECT g, 'secret', 'public', repeat('f' || g, 3000) FROM generate_series(1, 8) g;
	UPDATE filtered SET id = id + 1 WHERE id = 8;
	UPDATE filtered SET public = 'p' WHERE id < 4;
	INSERT INTO parts SELECT g, 1 + g % 2, repeat('p' || g, 3000) FROM generate_series(1, 6) g;
	UPDATE parts SET part = 3 - part WHERE id < 3;
	SELECT pg_logical_emit_message(true, 'app', 'transactional'), pg_logical_emit_message(false, 'app', 'at once');
	BEGIN;
	INSERT INTO things (id, big) VALUES (200, repeat('before', 3000));
	SAVEPOINT a;
	INSERT INTO things (id, big) VALUES (201, repeat('undone', 3000));
	SAVEPOINT b;
	INSERT INTO things (id, big) VALUES (202, repeat('undone too', 3000));
	RELEASE b;
	ROLLBACK TO a;
	INSERT INTO things (id, big) VALUES (203, repeat('kept', 3000));
	SELECT pg_logical_emit_message(true, 'app', 'in it');
	ALTER TABLE chosen ADD COLUMN d int DEFAULT 7;
	UPDATE chosen SET c = 'e' WHERE a = 1;
	COMMIT;
	DO \$\$ BEGIN FOR i IN 1 .. 6 LOOP BEGIN
		INSERT INTO things (id, big) VALUES (300 + i, repeat('loop', 3000));
		IF i % 2 = 0 THEN RAISE division_by_zero; END IF;
	EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END \$\$;
	BEGIN; INSERT INTO things (id, big) VALUES (400, repeat('never', 3000)); ROLLBACK;
	TRUNCATE whole, none;
	BEGIN; INSERT INTO things (id, big) VALUES (500, repeat('prepared', 3000)); SAVEPOINT a;
	INSERT INTO things (id, big) VALUES (501, repeat('prepared', 3000)); ROLLBACK TO a; PREPARE TRANSACTION 'one_$db';
	BEGIN; INSERT INTO things (id, big) VALUES (510, repeat('prepared', 3000)); PREPARE TRANSACTION 'two_$db';
	COMMIT PREPARED 'one_$db';
	ROLLBACK PREPARED 'two_$db';
	CLUSTER things USING things_pkey; VACUUM FULL filtered;
	UPDATE things SET name = 'after' WHERE id < 5;
	SELECT pg_replication_origin_create('from_$db'), pg_replication_origin_session_setup('from_$db');
	INSERT INTO things (id, big) VALUES (600, repeat('from elsewhere', 3000));
	SELECT pg_replication_origin_session_reset();
	INSERT INTO silent SELECT g, repeat('s' || g, 3000) FROM generate_series(1, 5) g;
	};
}
$node->safe_psql($_, workload($_)) for qw(encrypted heap);

my @matrix = (
	{ proto_version => 1, publication_names => 'everything' },
	{ proto_version => 1, publication_names => 'everything', binary => 'true' },
	{ proto_version => 1, publication_names => 'parted' },
	{ proto_version => 1, publication_names => 'inserts,parted', messages => 'true' },
	{ proto_version => 2, publication_names => 'everything', messages => 'true', origin => 'none' },
	{ proto_version => 2, publication_names => 'everything', messages => 'true', streaming => 'on' },
	{ proto_version => 4, publication_names => 'parted', binary => 'true', streaming => 'parallel' },
	{ proto_version => 4, publication_names => 'everything', messages => 'true', streaming => 'parallel', origin => 'none' },
	($major >= 18 ? { proto_version => 4, publication_names => 'generated' } : ()));

# The encrypted twin's slot and settings, then those of the heap twin.
sub compare
{
	my ($slot, $settings, %options) = @_;
	my $streams = ($options{streaming} // 'off') ne 'off';
	my ($encrypted, $heap) =
		map { describe_pgoutput($_, $streams, binary_stream($node, $_, "${slot}_$_", $settings, %options)) } qw(encrypted heap);
	my $name = join ', ', map { "$_ $options{$_}" } sort keys %options;
	cmp_ok(length $heap, '>', 1000, "slot $slot: there are messages");
	is_same($encrypted, $heap, "slot $slot: $name" . ($settings ? ", $settings" : ''));
}

my $immediate = "SET debug_logical_replication_streaming = 'immediate';";
my $buffered = "SET logical_decoding_work_mem = '64kB';";
compare('plain', '', %$_) for @matrix;
compare('ours', '', %$_) for @matrix;
for my $options (grep { $_->{streaming} } @matrix)
{
	compare('plain', $immediate, %$options);
	compare('plain', $buffered, %$options);
}
for my $options ({ streaming => 'off' }, { streaming => 'parallel' }, { streaming => 'on', binary => 'true' })
{
	my %options = (proto_version => $options->{streaming} eq 'parallel' ? 4 : 3, publication_names => 'everything', two_phase => 'on', messages => 'on', %$options);
	compare('prepared', $_, %options) for '', $immediate, $buffered;
}

# Its errors are its own, and the slot works afterwards.
for my $wrong ([ "'proto_version', '99', 'publication_names', 'parted'", qr/client sent proto_version=99/ ],
	[ "'proto_version', '1'", qr/option "?publication_names"? missing|publication_names/ ],
	[ "'publication_names', 'parted'", qr/proto_version/ ],
	[ "'proto_version', '1', 'publication_names', 'parted', 'nonsense', '1'", qr/unrecognized pgoutput option: nonsense/ ],
	[ "'proto_version', '1', 'publication_names', 'absent'", qr/publication "absent" does not exist/ ])
{
	for my $slot (qw(plain ours))
	{
		my ($status, undef, $err) = $node->psql('encrypted', "SELECT count(*) FROM pg_logical_slot_peek_binary_changes('${slot}_encrypted', NULL, NULL, $wrong->[0])");
		next if $status == 0 && $major >= 18;    # 18 warns about a publication that is missing
		like($err, $wrong->[1], "slot $slot: $wrong->[0]");
	}
}
compare('ours', '', %{ $matrix[0] });

done_testing();
