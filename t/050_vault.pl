# The key provider "vault" with a real OpenBao server: first use, cold start, number of calls, and everything that can go wrong
# with the key server. What must work meanwhile works, what cannot is an ERROR that names the remedy, and all recovers without
# a restart of PostgreSQL. No secret shows anywhere.

use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use IO::Socket::INET;
use OpenBao;
use Time::HiRes qw(time);
use Vault;

need_openbao();
my $bao = OpenBao->new;
$bao->start;
my $dir = $bao->dir;
my $node = new_node('vault', $bao->settings('approle'), 'max_connections = 40', 'log_min_messages = debug1', 'log_statement = all', 'log_connections = on');
$node->start;

# Sets something, and waits until the server has taken it.
sub configure
{
	my ($name, $value) = @_;
	$node->append_conf('postgresql.conf', "pg_vault_tde.$name = '$value'");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT current_setting('pg_vault_tde.$name') = '$value'");
}

# What a new session says, all of it that could be an error; whether it takes longer than the time-out allows is checked, too.
my @errors;
sub fails_like
{
	my ($name, $sql, @patterns) = @_;
	my $begun = time;
	my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");
	isnt($status, 0, "$name: is an error");
	like($err, $_, "$name: says so") for @patterns;
	push @errors, $err;
}

sub status_of { my ($item) = @_; return $node->safe_psql('postgres', "SELECT ok, value FROM vault_tde.status() WHERE item = '$item'"); }

# --- first use ------------------------------------------------------------------------------------------------------------

$node->safe_psql('postgres', 'CREATE EXTENSION pg_vault_tde; CREATE TABLE plain AS SELECT 1 AS id');
is($bao->calls_during(sub {
	$node->safe_psql('postgres', q{
		CREATE TABLE t (id int PRIMARY KEY, x text) USING encrypted_heap;
		INSERT INTO t SELECT i, 'SECRET ' || i FROM generate_series(1, 1000) i;
		INSERT INTO t VALUES (1001, repeat('SECRET out of line ', 10000))});
}), 'datakey 1, decrypt 1, login 1', 'the first table has the key server make a data key, and unwrap it for certainty');
is($node->safe_psql('postgres', 'SELECT generation, provider, kek_version, wrapped IS NOT NULL FROM vault_tde.data_keys'), '1|vault|1|t', 'the key table knows the version of the key');
is($bao->calls_during(sub {
	$node->safe_psql('postgres', 'SELECT count(*), sum(length(x)) FROM t; INSERT INTO t SELECT i FROM generate_series(2001, 12000) i ON CONFLICT DO NOTHING') for 1 .. 5;
}), '', 'neither rows nor sessions cost a call when the data key is in shared memory');
$node->restart;
is($bao->calls_during(sub {
	is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id) FROM t'), '11001|11001', 'after a cold start');
	$node->safe_psql('postgres', 'SELECT max(x) FROM t; UPDATE t SET x = x WHERE id < 100') for 1 .. 5;
}), 'decrypt 1, login 1', '... one call and a login unwrap the data key for all');
# many sessions at once on a server that has just started: whoever comes first asks, the others wait for that
$node->restart;
my $calls = $bao->calls_during(sub {
	my @sessions = map { IPC::Run::start([ 'psql', '-XqAt', '-d', $node->connstr('postgres'), '-c', 'SELECT count(*), count(DISTINCT id), max(x) FROM t' ], '>', \my $out) } 1 .. 20;
	ok($_->finish, 'one of many sessions') for @sessions;
});
my ($decrypt) = $calls =~ /^decrypt (\d+), login \d+$/;
cmp_ok($decrypt, '<', 10, "sessions that need the same data key at once do not all ask for it (20 sessions: $calls)");
is($bao->calls_during(sub { is($node->safe_psql('postgres', 'SELECT vault_tde.rotate_key()'), 2, 'a rotation'); }),
	'datakey 1, decrypt 1, login 1', '... costs two calls and a login');
like(status_of('key provider usable'), qr{^t\|yes: "transit/keys/pg" of "https://127}, 'status: usable');
like(status_of('key server token'), qr/^t\|service token by AppRole, expires in \d+ s, policies default, pg$/, 'status: the token');
is(status_of('key-encryption key version'), 't|1', 'status: the version of the key');
is(status_of('data keys'), 't|2', 'status: data keys');
is($node->safe_psql('postgres', q{SELECT count(*) FROM vault_tde.status() WHERE NOT ok}), 0, 'status: nothing is wrong');

# --- failures -------------------------------------------------------------------------------------------------------------

# In each failure a server that has just started cannot read encrypted tables, and can again when the failure has gone; one
# that has the data keys reads and writes on, and only cannot rotate.
my $session;
my $rows = 11001;

sub survives
{
	my ($what, $break, $mend, $pattern, $hint, $status, $timeout) = @_;
	$timeout //= '10s';    # what cannot get better is not tried again
	$break->();
	# cold
	$node->append_conf('postgresql.conf', "pg_vault_tde.vault_timeout = '$timeout'");
	$node->restart;
	is($node->safe_psql('postgres', 'SELECT id FROM plain'), 1, "$what, cold: plain tables can be read");
	fails_like("$what, cold: SELECT", 'SELECT max(x) FROM t', qr/ERROR:  58000: could not unwrap the data key of generation [12] \(key id [-0-9a-f]{36}\)|ERROR:  (?:F0000|58000|55000): /, $pattern, qr/HINT:  $hint/);
	fails_like("$what, cold: INSERT", "INSERT INTO t VALUES (0, 'SECRET')", $pattern);
	my $begun = time;
	like($node->safe_psql('postgres', q{SELECT string_agg(item || ': ' || value, ', ') FROM vault_tde.status() WHERE NOT ok}), $status, "$what: status()");
	cmp_ok(time - $begun, '<', 15, '... does not wait for ever');
	configure('vault_timeout', '10s');
	$mend->();
	is($node->safe_psql('postgres', 'SELECT count(*), count(x) > 0 FROM t'), "$rows|t", "$what: and it recovers without a restart");
	# warm
	$session = $node->background_psql('postgres');
	$session->query_safe('SELECT count(x) FROM t; BEGIN; INSERT INTO t VALUES (0); ROLLBACK');    # has both data keys now
	configure('vault_timeout', $timeout);
	$break->();
	is($session->query_safe('SELECT count(*) FROM t WHERE length(x) > 0 OR x IS NULL'), $rows, "$what, warm: reading goes on");
	$node->safe_psql('postgres', "INSERT INTO t VALUES (0, 'SECRET'); UPDATE t SET x = 'SECRET 0' WHERE id = 0; DELETE FROM t WHERE id = 0");
	fails_like("$what, warm: rotation", 'SELECT vault_tde.rotate_key()', $pattern);
	configure('vault_timeout', '10s');
	$mend->();
	$session->query_safe('BEGIN');
	like($session->query_safe('SELECT vault_tde.rotate_key()'), qr/^\d+$/, "$what: the session recovers");
	$session->query_safe('ROLLBACK');
	$session->quit;
}

survives('sealed', sub { $bao->seal }, sub { $bao->unseal }, qr/answered with status 503: Vault is sealed\./, 'Unseal the key server', qr/sealed/, '2s');
survives('stopped', sub { $bao->stop }, sub { $bao->start }, qr/no connection to the key server: Connection refused\./, 'Check that the key server runs', qr/Connection refused/, '1s');
survives('slow', sub { $bao->pause }, sub { $bao->resume }, qr/did not answer within "pg_vault_tde.vault_timeout"/, 'Check the key server, or raise', qr/did not answer/, '1s');
survives('wrong CA', sub { configure('vault_ca_cert', "$dir/other-ca.pem") }, sub { configure('vault_ca_cert', "$dir/ca.pem") },
	qr/could not be secured: .*certificate verify failed/, 'Check that "pg_vault_tde.vault_ca_cert"', qr/certificate verify failed/);
survives('the policy lacks the operations', sub { $bao->set_policy('rewrap') }, sub { $bao->set_policy(qw(datakey/plaintext decrypt rewrap encrypt)) },
	qr/answered with status 403: .*permission denied/, 'Check that the token .* allows "update" on "transit/decrypt/pg"', qr{lacks "update" on "transit/datakey/plaintext/pg"});

# a key that was deleted, and is restored from the backup that its owner had
$bao->api('POST', 'transit/keys/pg/config', { deletion_allowed => JSON::PP::true(), exportable => JSON::PP::true(), allow_plaintext_backup => JSON::PP::true() });
my $backup = $bao->api('GET', 'transit/backup/pg')->{data}{backup};
survives('key deleted', sub { $bao->api('DELETE', 'transit/keys/pg') }, sub { $bao->api('POST', 'transit/restore/pg', { backup => $backup }) },
	qr/status 400: encryption key not found\./, 'Check that key "transit/keys/pg" exists. If it was deleted, restore it', qr/encryption key not found|status 404/);

# --- the token ------------------------------------------------------------------------------------------------------------

# revoked tokens: AppRole logs in again, once
$session = $node->background_psql('postgres');
$session->query_safe('BEGIN; SELECT vault_tde.rotate_key(); ROLLBACK');    # has a token now
$bao->api('POST', 'sys/leases/revoke-prefix/auth/approle', {});
is($bao->calls_during(sub { $session->query_safe('BEGIN; SELECT vault_tde.rotate_key(); ROLLBACK') }), 'datakey 2, decrypt 1, login 1',
	'a revoked token of AppRole: a new login');
$session->quit;

configure('vault_role_id', '');
fails_like('AppRole without a role id', 'SELECT vault_tde.rotate_key()', qr/F0000: .*lacks its role id/, qr/HINT/);
configure('vault_secret_id_file', '');
fails_like('no way to log in', 'SELECT vault_tde.rotate_key()', qr/F0000: no token and no AppRole is set/, qr/HINT/);
configure('vault_token_file', "$dir/token");
like(status_of('key server token'), qr/^t\|service token from a file, expires in/, 'status: a token from a file');
my $lasting = $node->background_psql('postgres');
$lasting->query_safe('SELECT count(*) FROM t');
$bao->api('POST', 'auth/token/revoke', { token => $bao->{token} });
fails_like('token revoked', 'SELECT vault_tde.rotate_key()', qr/58000: .*could not make the data key of generation 3 .*\nDETAIL:  It answered with status 403/, qr/HINT:  Check that the token has not expired/);
like(status_of('key provider usable'), qr/^f\|/, 'status: token revoked');
write_key("$dir/token", $bao->new_token . "\n");
is($lasting->query_safe('SELECT vault_tde.rotate_key()'), 3, 'a new token in the file is used by a session that lives');
$lasting->quit;
for (
	[ 'missing', sub { rename "$dir/token", "$dir/token.away" }, qr/F0000: could not open token file ".*": No such file/ ],
	[ 'readable by others', sub { chmod 0644, "$dir/token" }, qr/F0000: permissions of token file .* too wide.*0644/s ],
	[ 'of two lines', sub { write_key("$dir/token", "a\nb\n") }, qr/F0000: token file .* does not hold one line of text/ ],
	[ 'empty', sub { write_key("$dir/token", '') }, qr/F0000: token file .* does not hold/ ])
{
	my ($what, $break, $pattern) = @$_;
	$break->();
	fails_like("a token file that is $what", 'SELECT vault_tde.rotate_key()', $pattern, qr/HINT/);
	write_key("$dir/token", $bao->{token});
}

# --- settings -------------------------------------------------------------------------------------------------------------

configure('vault_timeout', '2s');
for (
	[ 'vault_addr', '', qr/F0000: "pg_vault_tde.vault_addr" is not set/ ],
	[ 'vault_addr', '127.0.0.1:8200', qr/F0000: .*is not an address/ ],
	[ 'vault_addr', 'https://user:SECRET@127.0.0.1', qr/F0000: .*is not an address/ ],
	[ 'vault_addr', 'http://127.0.0.1:' . $bao->{port}, qr/58000: .*HTTP/s ],    # plain http to a port of https
	[ 'vault_addr', 'https://no-such-host.invalid:8200', qr/58000: .*no connection to the key server/s ],
	[ 'vault_addr', 'https://127.0.0.1:' . $bao->{port} . '/somewhere/else', qr/58000: .*status 404/s ],
	[ 'vault_key_name', '', qr/F0000: "pg_vault_tde.vault_key_name" is not set/ ],
	[ 'vault_key_name', '../sys/seal', qr/F0000: .*is not a name/ ],
	[ 'vault_key_name', 'other', qr/58000: .*status 403/s ],
	[ 'vault_transit_mount', 'nowhere', qr/58000: .*status 40[34]/s ],
	[ 'vault_namespace', 'nowhere', qr/58000: .*status 40[34]/s ],
	[ 'vault_ca_cert', "$dir/nowhere", qr/F0000: could not read CA file/ ],
	[ 'vault_ca_cert', "$dir/config.hcl", qr/F0000: CA file .* does not hold certificates/ ])
{
	my ($setting, $value, $pattern) = @$_;
	my $before = $node->safe_psql('postgres', "SELECT current_setting('pg_vault_tde.$setting')");
	configure($setting, $value);
	fails_like("$setting = '$value'", 'SELECT vault_tde.rotate_key()', $pattern, qr/HINT/);
	is($node->safe_psql('postgres', "SELECT ok, value ~ 'SECRET' FROM vault_tde.status() WHERE item = 'key provider usable'"), 'f|f', "$setting = '$value': status() says so");
	configure($setting, $before);
}
configure('vault_timeout', '10s');
is($node->safe_psql('postgres', 'SELECT vault_tde.rotate_key()'), 4, 'with the right settings it works');

# A standby node of a cluster sends its clients to the active one. Here something small in Perl does.
my $redirector = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1', ReuseAddr => 1) or die $!;
my $child = fork;
if (!$child)
{
	while (my $client = $redirector->accept)
	{
		my ($request, $length) = ('', 0);
		$request .= <$client> // last until $request =~ /\r\n\r\n$/;
		read $client, my $body, $1 if $request =~ /^content-length: (\d+)/im;
		my ($path) = $request =~ m{^\S+ (\S+)};
		print $client "HTTP/1.1 307 Temporary Redirect\r\nLocation: https://127.0.0.1:$bao->{port}$path\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
		close $client;
	}
	POSIX::_exit(0);
}
configure('vault_addr', 'http://127.0.0.1:' . $redirector->sockport);
is($bao->calls_during(sub { $node->safe_psql('postgres', 'BEGIN; SELECT vault_tde.rotate_key(); ROLLBACK') }), 'datakey 1, decrypt 1', 'a redirect is followed, with body and token');
kill 'KILL', $child;
waitpid $child, 0;
configure('vault_addr', $bao->address);

# a statement that waits for the key server can be ended
$bao->stop;
configure('vault_timeout', '10min');
my $waiting = $node->background_psql('postgres', on_error_stop => 0);
$waiting->query_until(qr/go/, "\\echo go\nSELECT vault_tde.rotate_key();\n");
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND wait_event = 'PgVaultTdeKeyServer'});
$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgVaultTdeKeyServer'});
$waiting->query('SELECT 1');
like($waiting->{stderr}, qr/canceling statement due to user request/, 'a statement that waits for the key server can be canceled');
$waiting->quit;
my ($out, $err);
($_, $out, $err) = $node->psql('postgres', q{SET statement_timeout = '300ms'; SELECT vault_tde.rotate_key()});
like($err, qr/canceling statement due to statement timeout/, '... and times out');
configure('vault_timeout', '10s');
$bao->start;

# --- nothing secret shows -------------------------------------------------------------------------------------------------

my $log = slurp_file($node->logfile);
my $settings = $node->safe_psql('postgres', q{SELECT string_agg(name || setting, ' ') FROM pg_settings WHERE name LIKE 'pg_vault_tde%'});
my $as_user = $node->safe_psql('postgres', q{CREATE ROLE someone; SET ROLE someone; SELECT string_agg(name, ' ') FROM pg_settings WHERE name LIKE 'pg_vault_tde%'});
unlike($as_user, qr/token_file|secret_id_file|role_id/, 'ordinary users do not see where secrets are');
unlike($node->safe_psql('postgres', q{SELECT string_agg(query, ' ') FROM pg_stat_activity}), qr/s\.[A-Za-z0-9]{20}/, 'no token in pg_stat_activity');
for my $secret ($bao->{token}, $bao->{secret_id}, $bao->{root})
{
	ok(length $secret > 5 && index("$settings @errors", $secret) < 0, 'no secret in settings and errors');
	is(index($log, $secret), -1, 'nor in the log');
}
unlike("@errors", qr/SECRET/, 'no plaintext in errors');
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id) FROM t'), "$rows|$rows", 'all rows are there');
$node->stop;
$bao->stop;
done_testing();
