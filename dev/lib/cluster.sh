# shellcheck shell=bash
# Throw-away clusters. Source common.sh first, then call `workspace MAJOR`, and `start_cluster NAME` as often as you like;
# whatever runs below the workspace is stopped, and the workspace removed, when the script ends, however it ends.
#
# Sets: pg_config, bindir, work (the workspace), user (who runs servers and tests: PostgreSQL refuses to run as root).
# After start_cluster: PGHOST, PGPORT, PGDATA, PGDATABASE, PGUSER and server_log are the cluster's.

work=
group=
user=
pg_config=
bindir=

# Makes the workspace for major $1, or for its server whose pg_config is $2: an empty directory that the unprivileged user owns.
workspace() {
	local major=$1
	pg_config=${2:-$(pg_config_of "$major")} || die "PostgreSQL $major is not installed"
	bindir=$("$pg_config" --bindir)
	user=$(id -un)
	if [ "$(id -u)" = 0 ]; then
		user=postgres
		if ! id "$user" >/dev/null 2>&1; then
			user=pgvault
			id "$user" >/dev/null 2>&1 || useradd --system --no-create-home --shell /usr/sbin/nologin "$user"
		fi
	fi
	trap drop_workspace EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	# short, since the path of a socket may have no more than 107 bytes
	work=$(mktemp -d "${TMPDIR:-/tmp}/pgvault.XXXXXX")
	give "$work"
	if ! as_user test -d "$work"; then # a TMPDIR of root's own
		rm -r "$work"
		work=$(mktemp -d /tmp/pgvault.XXXXXX)
		give "$work"
	fi
	as_user mkdir "$work/tmp"
	(umask 077 && od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n' >"$work/key")
	give "$work/key"
}

give() { [ "$(id -u)" != 0 ] || chown -R "$user:" "$@"; }

# Runs a command as the unprivileged user in the workspace, with nothing in its environment but what tests may rely on.
as_user() {
	local name run=(env -i LC_ALL=C "PATH=$bindir:/usr/local/bin:/usr/bin:/bin" "PG_CONFIG=$pg_config")
	run+=("HOME=$work" "TMPDIR=$work/tmp")
	for name in PGHOST PGPORT PGDATABASE PGUSER BAO TRANSACTIONS INDEX_TWIN_ROWS INITDB_TEMPLATE; do
		[ -z "${!name:-}" ] || run+=("$name=${!name}")
	done
	[ "$(id -u)" != 0 ] || run=(runuser -u "$user" -- "${run[@]}")
	(cd "$work" && exec "${run[@]}" "$@")
}

# Makes and starts a cluster called $1 with the extension preloaded; the settings in the other arguments are added.
start_cluster() {
	local name=$1 setting
	shift
	export PGDATA=$work/$name PGHOST=$work PGPORT=54321 PGDATABASE=postgres PGUSER=postgres
	server_log=$work/$name.log
	quietly "$work/initdb.log" as_user initdb --no-sync -A trust -U postgres -E UTF8 --locale=C -D "$PGDATA" || return
	{
		say "listen_addresses = ''" # the port only names a socket, in a directory where nobody else has one
		say "unix_socket_directories = '$work'"
		say "port = $PGPORT"
		say "fsync = off" # the machine does not crash; a server killed with -9 loses nothing
		say "wal_level = logical"
		say "max_prepared_transactions = 10"
		say "max_replication_slots = 20"
		say "max_wal_senders = 20"
		say "track_commit_timestamp = off"
		say "log_line_prefix = '%m [%p] %b %a '"
		say "shared_preload_libraries = 'pg_vault_tde'"
		say "pg_vault_tde.key_file = '$work/key'"
		say "pg_vault_tde.plaintext_indexes = allow" # heap twins get no such notices
		# The minors of August 2026 and later load only the output plugins that this lists; older ones do not know it.
		if as_user postgres -D "$PGDATA" -C output_plugin_libraries >/dev/null 2>&1; then
			say "output_plugin_libraries = 'pg_vault_tde, pgoutput, test_decoding'"
		fi
		for setting; do say "$setting"; done
	} >"$work/settings"
	as_user tee -a "$PGDATA/postgresql.conf" <"$work/settings" >/dev/null
	if ! as_user pg_ctl -D "$PGDATA" -l "$server_log" -w -t 60 start >"$work/start.log" 2>&1; then
		cat "$work/start.log" "$server_log" >&2
		return 1
	fi
}

# Stops every server whose data directory lies below directory $1.
stop_clusters_below() {
	local pid_file
	[ -d "$1" ] || return 0
	while IFS= read -r pid_file; do
		as_user pg_ctl -D "${pid_file%/*}" -m immediate -w stop >/dev/null 2>&1 || true
	done < <(find "$1" -name postmaster.pid)
}

# Stops every server of the workspace.
stop_clusters() { [ -z "$work" ] || stop_clusters_below "$work"; }

# Runs a command in a process group of its own, so that a signal to the script ends all of it at once.
in_group() {
	local status=0
	set -m
	"$@" &
	group=$!
	set +m
	wait "$group" || status=$?
	group=
	return "$status"
}

# KEEP=1 leaves the files for inspection, never a server.
drop_workspace() {
	[ -z "$group" ] || kill -- "-$group" 2>/dev/null || true
	stop_clusters
	[ -n "$work" ] || return 0
	if [ -n "${KEEP:-}" ]; then say "kept: $work"; else rm -rf "$work"; fi
	work=
}
