# A real OpenBao server with a Transit engine for tests of the key provider "vault". The program is the one that the environment
# variable BAO names, or `bao` in PATH; dev/setup puts it into target/.
package OpenBao;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use HTTP::Tiny;
use IPC::Run;
use JSON::PP qw(decode_json encode_json);
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Vault;

our @EXPORT = qw(need_openbao);

my @running;

# The path of the program; without it the whole test is skipped.
sub need_openbao
{
	my ($bao) = program();
	plan skip_all => 'no OpenBao: dev/setup installs it, or set BAO to the path of "bao"' if !$bao;
	return $bao;
}

sub program
{
	my ($first) = grep { -x } $ENV{BAO} // (), map { "$_/bao" } split /:/, $ENV{PATH};
	return $first;
}

# Makes a server that is not started: with dev => 1 one that keeps nothing, else one with files, TLS, an audit log, and AppRole.
# Below its directory are "ca.pem", "token" (of the policy) and "secret-id".
sub new
{
	my ($class, %options) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $self = bless { %options, dir => $dir, port => PostgreSQL::Test::Cluster::get_free_port(),
		admin_port => PostgreSQL::Test::Cluster::get_free_port(), cluster_port => PostgreSQL::Test::Cluster::get_free_port(),
		http => HTTP::Tiny->new(timeout => 20) }, $class;
	$self->make_certificates if !$options{dev};
	return $self;
}

sub dir { my ($self) = @_; return $self->{dir}; }

# What PostgreSQL is to connect to, and how: lines for postgresql.conf. By AppRole, or by the token file.
sub address
{
	my ($self) = @_;
	return ($self->{dev} ? 'http' : 'https') . "://127.0.0.1:$self->{port}";
}

sub settings
{
	my ($self, $auth) = @_;
	my $dir = $self->{dir};
	return ("pg_vault_tde.key_provider = 'vault'", "pg_vault_tde.vault_addr = '" . $self->address . "'",
		"pg_vault_tde.vault_key_name = 'pg'", "pg_vault_tde.vault_timeout = '10s'",
		($self->{dev} ? () : "pg_vault_tde.vault_ca_cert = '$dir/ca.pem'"),
		$auth eq 'approle'
		? ("pg_vault_tde.vault_role_id = '$self->{role_id}'", "pg_vault_tde.vault_secret_id_file = '$dir/secret-id'")
		: "pg_vault_tde.vault_token_file = '$dir/token'");
}

# --- the server's life ----------------------------------------------------------------------------------------------------

sub start
{
	my ($self) = @_;
	my $dir = $self->{dir};
	my @command = (program());
	if ($self->{dev})
	{
		push @command, 'server', '-dev', '-dev-root-token-id=root', '-dev-no-store-token', "-dev-listen-address=127.0.0.1:$self->{port}";
		$self->{root} = 'root';
	}
	else
	{
		mkdir "$dir/data";
		append_to_file("$dir/config.hcl", qq{
			storage "raft" { path = "$dir/data"
				node_id = "one"
				performance_multiplier = 1 }
			listener "tcp" { address = "127.0.0.1:$self->{port}"
				tls_cert_file = "$dir/server.pem"
				tls_key_file = "$dir/server.key" }
			listener "tcp" { address = "127.0.0.1:$self->{admin_port}"
				tls_disable = true }
			api_addr = "https://127.0.0.1:$self->{port}"
			cluster_addr = "https://127.0.0.1:$self->{cluster_port}"
			audit "file" "audit" { options { file_path = "$dir/audit.log" } }
		}) if !-e "$dir/config.hcl";
		push @command, 'server', "-config=$dir/config.hcl";
	}
	local $ENV{HOME} = $dir;
	$self->{run} = IPC::Run::start([ @command[ 0, 1 ], @command[ 2 .. $#command ] ], '<', \undef, '>', "$dir/log", '2>&1');
	$self->{pid} = $self->{run}{KIDS}[0]{PID};
	push @running, $self->{pid};
	wait_until('OpenBao to listen', sub { $self->call('GET', 'sys/seal-status')->{status} != 599 });
	if ($self->{dev})
	{
		$self->set_up if !$self->{is_set_up}++;
		return;
	}
	if (!$self->{unseal})
	{
		my $init = $self->api('POST', 'sys/init', { secret_shares => 1, secret_threshold => 1 });
		@$self{qw(unseal root)} = ($init->{keys}[0], $init->{root_token});
		$self->unseal;
		$self->set_up;
		return;
	}
	$self->unseal;
}

# The Transit engine and its key, the policy of docs/keys.md, a token, and the AppRole.
sub set_up
{
	my ($self) = @_;
	$self->api('POST', 'sys/mounts/transit', { type => 'transit' });
	$self->api('POST', 'transit/keys/pg', {});
	$self->set_policy(qw(datakey/plaintext decrypt rewrap encrypt));
	write_key("$self->{dir}/token", $self->new_token);
	return if $self->{dev};
	$self->api('POST', 'sys/auth/approle', { type => 'approle' });
	$self->api('POST', 'auth/approle/role/pg', { token_policies => 'pg', token_ttl => '1h' });
	$self->{role_id} = $self->api('GET', 'auth/approle/role/pg/role-id')->{data}{role_id};
	$self->{secret_id} = $self->api('POST', 'auth/approle/role/pg/secret-id', {})->{data}{secret_id};
	write_key("$self->{dir}/secret-id", "$self->{secret_id}\n");
}

# Lets the policy allow these operations of the Transit key, and to read it.
sub set_policy
{
	my ($self, @operations) = @_;
	my $policy = join "\n", (map { qq(path "transit/$_/pg" { capabilities = ["update"] }) } @operations),
		'path "transit/keys/pg" { capabilities = ["read"] }';
	$self->api('PUT', 'sys/policies/acl/pg', { policy => $policy });
}

sub new_token
{
	my ($self) = @_;
	return $self->{token} = $self->api('POST', 'auth/token/create', { policies => ['pg'], ttl => '1h' })->{auth}{client_token};
}

sub stop
{
	my ($self) = @_;
	kill 'CONT', $self->{pid};
	kill 'KILL', $self->{pid};
	$self->{run}->finish;
	@running = grep { $_ != $self->{pid} } @running;
}

sub seal { my ($self) = @_; return $self->api('PUT', 'sys/seal', {}); }

sub unseal
{
	my ($self) = @_;
	$self->api('POST', 'sys/unseal', { key => $self->{unseal} });
	wait_until('OpenBao to be active', sub { $self->call('GET', 'sys/mounts')->{success} });
}

sub pause  { my ($self) = @_; kill 'STOP', $self->{pid} or die $!; }
sub resume { my ($self) = @_; kill 'CONT', $self->{pid} or die $!; }

# --- requests -------------------------------------------------------------------------------------------------------------

sub call
{
	my ($self, $method, $path, $data) = @_;
	my $port = $self->{dev} ? $self->{port} : $self->{admin_port};
	return $self->{http}->request($method, "http://127.0.0.1:$port/v1/$path", {
		headers => { $self->{root} ? ('X-Vault-Token' => $self->{root}) : () },
		$data ? (content => encode_json($data)) : () });
}

# The answer of a request by the administrator, which must succeed. After a start it may not at once.
sub api
{
	my ($self, $method, $path, $data) = @_;
	my $answer;
	wait_until("$method $path", sub {
		$answer = $self->call($method, $path, $data);
		die "$method $path: $answer->{status} $answer->{content}" if $answer->{status} =~ /^4/;
		return $answer->{success};
	});
	return length $answer->{content} ? decode_json($answer->{content}) : {};
}

# The audit log so far: how often which operation of the Transit key (or login) was asked for, as "decrypt 2, login 1".
sub calls
{
	my ($self) = @_;
	my %count;
	for (split /\n/, slurp_file("$self->{dir}/audit.log"))
	{
		my $entry = decode_json($_);
		next unless $entry->{type} eq 'request';
		$count{ $1 =~ s{/.*}{}r }++ if $entry->{request}{path} =~ m{^(?:transit|auth/approle)/(datakey|decrypt|encrypt|rewrap|login)};
	}
	return \%count;
}

# The calls that some code leads to, of those of the provider.
sub calls_during
{
	my ($self, $code) = @_;
	my $before = $self->calls;
	$code->();
	my $after = $self->calls;
	return join ', ', map { my $n = $after->{$_} - ($before->{$_} // 0); $n ? "$_ $n" : () } sort keys %$after;
}

# --- TLS ------------------------------------------------------------------------------------------------------------------

sub make_certificates
{
	my ($self) = @_;
	my $dir = $self->{dir};
	for my $ca (qw(ca other-ca))
	{
		quiet('openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', 2, '-subj', "/CN=$ca",
			'-keyout', "$dir/$ca.key", '-out', "$dir/$ca.pem");
	}
	quiet('openssl', 'req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-subj', '/CN=server',
		'-keyout', "$dir/server.key", '-out', "$dir/server.csr");
	append_to_file("$dir/server.ext", "subjectAltName = IP:127.0.0.1\n");
	quiet('openssl', 'x509', '-req', '-in', "$dir/server.csr", '-CA', "$dir/ca.pem", '-CAkey', "$dir/ca.key", '-CAcreateserial', '-days', 2,
		'-extfile', "$dir/server.ext", '-out', "$dir/server.pem");
}

sub quiet
{
	my (@command) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([@command], '>', \$out, '2>', \$err) or die "@command: $err";
}

END { kill 'KILL', @running if @running; }

1;
