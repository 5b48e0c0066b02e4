# shellcheck shell=bash
# What every script under dev/ needs: messages, the way to root, the PostgreSQL of a major, the Rust toolchain, the build.
# Source it; it sets `root` to the checkout.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
all_majors=(17 18 19)
RUST_MIN=1.85 # as rust-version in Cargo.toml says
# The caller's environment must not decide which server psql talks to, nor in which language tools answer.
unset "${!PG@}" MAKEFLAGS MFLAGS MAKELEVEL
export LC_ALL=C

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

is_major() { [[ $1 =~ ^[0-9]+$ ]]; }
need_major() { [[ $1 =~ ^1[789]$ ]] || die "PostgreSQL $1 is not supported: 17, 18 and 19 are"; }

# Runs a command as root.
as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Prints the path of major $1's pg_config; fails if there is none.
pg_config_of() {
	local candidate
	for candidate in "/usr/lib/postgresql/$1/bin/pg_config" "/usr/pgsql-$1/bin/pg_config" "$(command -v pg_config || true)"; do
		if [ -x "$candidate" ] && [[ $("$candidate" --version) =~ ^"PostgreSQL $1"[^0-9] ]]; then
			say "$candidate"
			return
		fi
	done
	return 1
}

# Puts a cargo that is new enough first in PATH; fails if there is none. The first in PATH may be too old, and a rustup
# toolchain may be there without being in PATH.
use_cargo() {
	local dir version
	for dir in "$(dirname "$(command -v cargo || say /nowhere/cargo)")" "${HOME:-/root}/.cargo/bin" /usr/bin; do
		[ -x "$dir/cargo" ] || continue
		version=$(cd / && "$dir/cargo" --version 2>/dev/null | cut -d' ' -f2) || continue
		if [ "$(printf '%s\n' "$RUST_MIN" "$version" | sort -V | head -n 1)" = "$RUST_MIN" ]; then
			export PATH="$dir:$PATH"
			return
		fi
	done
	return 1
}

# Prints the path of the program `bao` that dev/setup has installed, or of another; fails if there is none.
openbao() {
	if [ -x "$root/target/openbao/bao" ]; then say "$root/target/openbao/bao"; else command -v bao; fi
}

# Runs a command with its output in file $1, and shows the end of that only if the command fails.
quietly() {
	local log=$1
	shift
	if ! "$@" >"$log" 2>&1 </dev/null; then
		tail -n 60 "$log" >&2
		return 1
	fi
}

# make for the PostgreSQL whose pg_config is $1.
make_for() {
	local pg_config=$1
	shift
	make --no-print-directory -C "$root" "PG_CONFIG=$pg_config" "$@"
}

# Installs what was built for the PostgreSQL whose pg_config is $1.
install_extension() {
	as_root make --no-print-directory -C "$root" "PG_CONFIG=$1" install
}
