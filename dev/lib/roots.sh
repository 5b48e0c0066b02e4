# shellcheck shell=bash
# Directories with a small Debian each, to build and install packages in. Source common.sh first. All of this needs root.
#
# `roots` is where they are kept from run to run; a base is made anew when it is a week old.

roots=$root/target/packages/roots

# Debian's suite that has PostgreSQL of major $1, and the one that it is laid over.
suite_of_major() {
	case $1 in
		17) say trixie ;;
		18) say forky ;;
		19) say sid experimental ;;
	esac
}

# Where this machine gets Debian from.
mirror() {
	local uri
	# shellcheck disable=SC2016 # apt expands these itself
	uri=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' | sed -n 's,^Debian Debian \(.*[^/]\)/*$,\1,p' | sed -n 1p)
	[ -n "$uri" ] || die "apt has no source of Debian here"
	say "$uri"
}

# Makes root $1 of suite $2 with nothing but apt in it, and also the sources of suite $3, if given.
make_base() {
	local dir=$roots/$1 script=
	if [ -e "$dir.made" ] && [ -z "$(find "$dir.made" -mtime +6)" ]; then return; fi
	as_root rm -rf "$dir" "$dir.made"
	mkdir -p "$roots"
	[ -e "/usr/share/debootstrap/scripts/$2" ] || script=/usr/share/debootstrap/scripts/sid # newer than this debootstrap
	as_root env PATH="$PATH:/usr/sbin:/sbin" debootstrap --variant=minbase "$2" "$dir" "$(mirror)" $script || return
	[ -z "${3:-}" ] || as_root tee -a "$dir/etc/apt/sources.list" >/dev/null <<<"deb $(mirror) $3 main" || return
	# no service is started, no cluster made, nothing installed that was not asked for, and no archive kept
	as_root mkdir -p "$dir/etc/postgresql-common/createcluster.d"
	as_root tee "$dir/etc/postgresql-common/createcluster.d/none.conf" >/dev/null <<<'create_main_cluster = false'
	as_root tee "$dir/usr/sbin/policy-rc.d" >/dev/null <<<$'#!/bin/sh\nexit 101'
	as_root chmod 755 "$dir/usr/sbin/policy-rc.d"
	as_root tee "$dir/etc/apt/apt.conf.d/plain" >/dev/null <<-'END'
		APT::Install-Recommends "false";
		DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb || true"; };
	END
	as_root touch "$dir.made"
}

copy_root() { as_root rm -rf "$roots/$2" && as_root cp -a --reflink=auto "$roots/$1" "$roots/$2"; }
drop_root() { as_root rm -rf --one-file-system "${roots:?}/$1"; }

# Runs a command in root $1 as its user $2, in namespaces of its own, so that nothing which it mounts or starts outlives it.
# Without network, unless $3 is "online".
run_in() {
	local dir=$roots/$1 user=$2 net=--net
	shift 2
	if [ "$1" = online ]; then
		net=
		as_root cp -L /etc/resolv.conf "$dir/etc/resolv.conf"
		shift
	fi
	# shellcheck disable=SC2016 # for the inner shell
	as_root unshare --mount --pid --fork --kill-child $net sh -c '
		dir=$1 user=$2
		shift 2
		mount -t proc proc "$dir/proc"
		mount --bind "$dir/proc/sys" "$dir/proc/sys" && mount -o remount,bind,ro "$dir/proc/sys" # there is one kernel only
		mount -t tmpfs -o mode=1777 tmpfs "$dir/dev/shm"
		mount -t devpts -o ptmxmode=666,newinstance devpts "$dir/dev/pts"
		cd /
		exec chroot "$dir" runuser -u "$user" -- env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			HOME=/tmp LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"' run_in "$dir" "$user" "$@" </dev/null
}

apt_in() { run_in "$1" root online apt-get -q -y -o Dpkg::Use-Pty=0 "${@:2}"; }
