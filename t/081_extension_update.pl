# From each released version of the extension's SQL to the current one, by ALTER EXTENSION ... UPDATE: what a database looks
# like afterwards, what the administrator has granted and built on it, and the time between, when the library is newer than the SQL.

use strict;
use warnings FATAL => 'all';
use Digest::SHA;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

# Scripts of released versions, which nobody may edit any more: databases have been made by them.
my %released = ('pg_vault_tde--1.0.sql' => '610b584496a1d60abeb26f8d53acda43fa2094c7e3cc815cf1da2b6555c861f9');

my ($share) = run_command([ 'pg_config', '--sharedir' ]);
my $scripts = "$share/extension";
is(Digest::SHA->new(256)->addfile("$scripts/$_")->hexdigest, $released{$_}, "$_ is as it was released") for sort keys %released;
my ($current) = slurp_file("$scripts/pg_vault_tde.control") =~ /^default_version = '(.*)'$/m;

# What an extension consists of, with all that a script can decide: one line an object, or privilege, or dependency.
my $catalogs = <<'END';
SET search_path = pg_catalog, pg_temp;
CREATE TEMP VIEW member AS
	SELECT d.classid, d.objid, i.type || ' ' || i.identity AS name
	FROM pg_depend d JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e',
		pg_identify_object(d.classid, d.objid, 0) i
	WHERE e.extname = 'pg_vault_tde';
CREATE TEMP VIEW described AS
	SELECT name, 'member ' || COALESCE(obj_description(objid, classid::regclass::name), '(no comment)') AS what FROM member
	UNION ALL
	SELECT name, 'function ' || pg_get_functiondef(objid) || p.prorows || ' ' || p.procost || ' ' || p.proowner::regrole
	FROM member JOIN pg_proc p ON p.oid = objid AND classid = 'pg_proc'::regclass
	UNION ALL
	SELECT name, 'relation ' || c.relkind::text || c.relpersistence::text || ' ' || c.relowner::regrole || ' ' || COALESCE(c.reloptions::text, '')
		|| ' ' || COALESCE((SELECT amname FROM pg_am WHERE oid = c.relam), '') || ' ' || COALESCE(pg_get_viewdef(c.oid), '')
		|| (SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull || attidentity::text || COALESCE(col_description(c.oid, attnum), ''), ', ' ORDER BY attnum)
			FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped)
		|| COALESCE((SELECT string_agg(pg_get_indexdef(indexrelid), ', ' ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid = c.oid), '')
	FROM member JOIN pg_class c ON c.oid = objid AND classid = 'pg_class'::regclass
	UNION ALL
	SELECT name, 'type ' || concat_ws(' ', t.typlen, t.typbyval, t.typtype, t.typstorage, t.typalign, t.typinput, t.typoutput, t.typreceive, t.typsend, t.typcollation, t.typdefault)
	FROM member JOIN pg_type t ON t.oid = objid AND classid = 'pg_type'::regclass
	UNION ALL
	SELECT name, 'access method ' || a.amhandler::regproc || ' ' || a.amtype::text FROM member JOIN pg_am a ON a.oid = objid AND classid = 'pg_am'::regclass
	UNION ALL
	SELECT name, 'operator ' || concat_ws(' ', o.oprkind, o.oprcanmerge, o.oprcanhash, o.oprresult::regtype, o.oprcom::regoperator, o.oprnegate::regoperator, o.oprcode, o.oprrest, o.oprjoin)
	FROM member JOIN pg_operator o ON o.oid = objid AND classid = 'pg_operator'::regclass
	UNION ALL
	SELECT name, 'operator class ' || concat_ws(' ', o.opcdefault, o.opcintype::regtype, o.opckeytype::regtype, (SELECT opfname FROM pg_opfamily f WHERE f.oid = o.opcfamily))
	FROM member JOIN pg_opclass o ON o.oid = objid AND classid = 'pg_opclass'::regclass
	UNION ALL
	SELECT name, 'operator of family ' || concat_ws(' ', o.amopstrategy, o.amopopr::regoperator, o.amoppurpose)
	FROM member JOIN pg_amop o ON o.amopfamily = objid AND classid = 'pg_opfamily'::regclass
	UNION ALL
	SELECT name, 'function of family ' || concat_ws(' ', o.amprocnum, o.amproclefttype::regtype, o.amprocrighttype::regtype, o.amproc::regprocedure)
	FROM member JOIN pg_amproc o ON o.amprocfamily = objid AND classid = 'pg_opfamily'::regclass
	UNION ALL
	SELECT name, 'privilege ' || concat_ws(' ', x.grantee::regrole, x.privilege_type, x.is_grantable)
	FROM member
		LEFT JOIN pg_proc p ON p.oid = objid AND classid = 'pg_proc'::regclass
		LEFT JOIN pg_class c ON c.oid = objid AND classid = 'pg_class'::regclass
		LEFT JOIN pg_type t ON t.oid = objid AND classid = 'pg_type'::regclass
		LEFT JOIN pg_namespace n ON n.oid = objid AND classid = 'pg_namespace'::regclass,
		aclexplode(COALESCE(proacl, relacl, typacl, nspacl, acldefault(CASE classid WHEN 'pg_proc'::regclass THEN 'f' WHEN 'pg_class'::regclass THEN 'r'
			WHEN 'pg_type'::regclass THEN 'T' ELSE 'n' END::"char", COALESCE(proowner, relowner, typowner, nspowner)))) x
	WHERE classid IN ('pg_proc'::regclass, 'pg_class'::regclass, 'pg_type'::regclass, 'pg_namespace'::regclass)
	UNION ALL
	SELECT name, 'initial privileges ' || i.initprivs::text FROM member m JOIN pg_init_privs i ON i.classoid = m.classid AND i.objoid = m.objid AND i.objsubid = 0
	UNION ALL
	SELECT name, 'dependency ' || d.deptype::text || ' ' || pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid)
	FROM member m JOIN pg_depend d ON d.classid = m.classid AND d.objid = m.objid
	WHERE d.refclassid <> 'pg_extension'::regclass
	UNION ALL
	SELECT 'schema vault_tde', 'holds ' || pg_describe_object(classid, oid, 0)
	FROM (SELECT 'pg_proc'::regclass, oid, pronamespace FROM pg_proc UNION ALL SELECT 'pg_class'::regclass, oid, relnamespace FROM pg_class
		UNION ALL SELECT 'pg_type'::regclass, oid, typnamespace FROM pg_type UNION ALL SELECT 'pg_operator'::regclass, oid, oprnamespace FROM pg_operator) o(classid, oid, namespace)
	WHERE namespace = 'vault_tde'::regnamespace
	UNION ALL
	SELECT 'extension', concat_ws(' ', extversion, extnamespace::regnamespace, extrelocatable, extowner::regrole, extconfig::regclass[], extcondition) FROM pg_extension WHERE extname = 'pg_vault_tde';
SELECT line FROM (SELECT DISTINCT name || ': ' || regexp_replace(what, '\s+', ' ', 'g') AS line FROM described) d ORDER BY line COLLATE "C";
END

sub catalog { my ($node, $db) = @_; return $node->safe_psql($db, $catalogs) =~ s/^(?:SET|CREATE VIEW)\n//mgr }

# What an administrator and the users may have made in the meantime. Whatever an update script drops, one of these depends on.
my $content = <<'END';
CREATE TABLE t (id int PRIMARY KEY, x text STORAGE EXTERNAL, n numeric) USING encrypted_heap;
INSERT INTO t SELECT g, repeat('x' || g, CASE WHEN g % 10 = 0 THEN 3000 ELSE 3 END), g FROM generate_series(1, 200) g;
CREATE INDEX encrypted ON t USING encrypted_btree (n);
CREATE MATERIALIZED VIEW m USING encrypted_heap AS SELECT * FROM t WHERE id < 20;
SELECT vault_tde.rotate_key();
INSERT INTO t VALUES (1000, repeat('second key', 2000), 1);
END
my $checksum = q{SELECT count(*), md5(string_agg(t::text, ',' ORDER BY id)), (SELECT count(*) FROM m) FROM t};
my $objects = <<'END';
SELECT format('CREATE VIEW public.%I AS SELECT * FROM %s', 'of_' || relname, oid::regclass) FROM pg_class WHERE relnamespace = 'vault_tde'::regnamespace AND relkind IN ('v', 'm')
UNION ALL
SELECT format('GRANT SELECT ON %s TO auditor', oid::regclass) FROM pg_class WHERE relnamespace = 'vault_tde'::regnamespace AND relkind IN ('v', 'm')
UNION ALL
SELECT format('GRANT EXECUTE ON ROUTINE %s TO auditor', oid::regprocedure) FROM pg_proc WHERE pronamespace = 'vault_tde'::regnamespace
END
my $grants = q{SELECT count(*) FROM pg_shdepend WHERE refclassid = 'pg_authid'::regclass AND refobjid = 'auditor'::regrole AND deptype = 'a'
	AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())};

my $node = new_node('updated');
$node->start;
$node->safe_psql('postgres', 'CREATE ROLE auditor; CREATE DATABASE fresh');
$node->safe_psql('fresh', 'CREATE EXTENSION pg_vault_tde');
is($node->safe_psql('fresh', q{SELECT extversion FROM pg_extension WHERE extname = 'pg_vault_tde'}), $current, "a new database has version $current");
my $fresh = catalog($node, 'fresh');
cmp_ok(scalar(split /\n/, $fresh), '>', 1000, 'the catalogs say something');

my @versions = sort map { /^pg_vault_tde--([0-9.]+)\.sql$/ } keys %released;
for my $version (grep { $_ ne $current } @versions)
{
	my $what = "from $version";
	my $db = 'from_' . $version =~ tr/./_/r;
	my $done = sub { return $node->safe_psql($db, @_) };
	is($node->safe_psql('postgres', "SELECT path IS NOT NULL FROM pg_extension_update_paths('pg_vault_tde') WHERE source = '$version' AND target = '$current'"),
		't', "$what: there is a way to $current");
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$done->("CREATE EXTENSION pg_vault_tde VERSION '$version'");
	$done->("SELECT pg_create_logical_replication_slot('$db', 'pg_vault_tde')");
	$done->($_) for $content, split(/\n/, $done->($objects));
	my $granted = $done->($grants);
	cmp_ok($granted, '>', 20, "$what: privileges were granted");
	my $rows = $done->($checksum);

	# The library is newer than the SQL: everything that this version has works.
	is($done->(q{SELECT bool_and(ok) FROM vault_tde.status() WHERE item <> 'AES acceleration'}), 't', "$what, not yet updated: status()");
	$done->('UPDATE t SET n = n + 1 WHERE id <= 100; DELETE FROM t WHERE id = 3; SELECT vault_tde.rotate_key(); SELECT vault_tde.rewrap_keys()');
	$done->(q{CALL vault_tde.reencrypt('t')});
	$done->(q{CALL vault_tde.reencrypt('m')});
	is($done->(q{SELECT string_agg(DISTINCT generation::text, ',') FROM vault_tde.generations_in_use()}), '3', '... reencrypt(), generations_in_use()');
	is($done->(q{SELECT count(*) FROM vault_tde.verify('t')}), 0, '... verify()');
	is($done->(q{SELECT string_agg(generation || ' ' || is_current || ' ' || relations, ', ' ORDER BY generation) FROM vault_tde.keys}) =~ /^1 false 0, 2 false 0, 3 true [1-9]/, 1, '... keys');
	is($done->(q{SELECT vault_tde.is_encrypted('t'), (SELECT count(*) FROM vault_tde.stat_progress_reencrypt), (SELECT count(*) > 0 FROM vault_tde.exposed_columns),
		(SELECT encrypt_ns > 0 FROM vault_tde.cipher_speed(10))}), 't|0|t|t', '... the rest');
	is($done->('SET enable_seqscan = off; SELECT id FROM t WHERE n = 51'), 50, '... an encrypted index');
	my $peek = "SELECT data FROM pg_logical_slot_peek_changes('$db', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1')";
	my $stream = $done->($peek);
	is(scalar(() = $stream =~ /^table public\.t: (?:INSERT|UPDATE|DELETE)/mg), 201 + 100 + 1, '... decoding');
	$rows = $done->($checksum);

	# An update that is rolled back has changed nothing; only who may create the extension may update it.
	my $before = catalog($node, $db);
	$done->("BEGIN; ALTER EXTENSION pg_vault_tde UPDATE; SELECT count(*) FROM t; ROLLBACK");
	is_same(catalog($node, $db), $before, "$what: an update that is rolled back");
	isnt($node->psql($db, 'SET ROLE auditor; ALTER EXTENSION pg_vault_tde UPDATE'), 0, "$what: not by everyone");

	# While a session is at work that had looked everything up before.
	my $session = $node->background_psql($db, on_error_stop => 1);
	$session->query_safe('PREPARE q AS SELECT count(*) FROM t; EXECUTE q');
	$done->('ALTER EXTENSION pg_vault_tde UPDATE');
	is($done->(q{SELECT extversion FROM pg_extension WHERE extname = 'pg_vault_tde'}), $current, "$what: ALTER EXTENSION");
	is($session->query_safe('EXECUTE q'), 200, '... seen by a session that began before');
	$session->quit;
	is($done->($checksum), $rows, '... the rows');
	is_same($done->($peek), $stream, '... the stream of the slot that was made before');
	is($done->($grants), $granted, '... what was granted');
	is($done->(q{SELECT bool_and(ok) FROM vault_tde.status() WHERE item <> 'AES acceleration'}), 't', '... status()');
	$done->('REVOKE ALL ON ALL TABLES IN SCHEMA vault_tde FROM auditor; REVOKE ALL ON ALL ROUTINES IN SCHEMA vault_tde FROM auditor');
	is_same(catalog($node, $db), $fresh, "$what: the catalogs are those of a new database");
	$done->(q{INSERT INTO t VALUES (2000, repeat('after', 3000), 2); UPDATE t SET n = 3 WHERE id = 2000; VACUUM t});
	is($done->(q{SELECT count(*) FROM vault_tde.verify('t')}), 0, '... verify() afterwards');

	# and it can be dropped like any other
	$done->("SELECT pg_drop_replication_slot('$db')");
	$done->('DROP EXTENSION pg_vault_tde CASCADE');
	is($done->(q{SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace}), 0, "$what: DROP EXTENSION");
}
$node->stop;
done_testing();
