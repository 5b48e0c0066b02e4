#!/usr/bin/env bash
# dev/check --packages [MAJOR…]    (default: 17 and 18)
#
# Makes the source archive (dev/dist), and for each MAJOR, in a small Debian of its own that has this major,
#
#   - builds the Debian source and binary packages, and the RPM, without network; lintian may find no error;
#   - looks at what is in them and what they depend on;
#   - installs the Debian package into another such Debian, where nothing but the server is, runs dev/demo there with what was
#     installed, removes the package, and looks for what is left of it.
#
# With 17 the commands of the Dockerfile are run, too. Needs root or sudo, debootstrap (dev/setup --packages installs what is
# missing) and about 3 GB a major, in target/packages/: the Debians are kept for a week, the packages and all logs until the next
# run. The last line is `packages: N passed, N failed`.
set -euo pipefail
# shellcheck source=dev/lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=dev/lib/roots.sh
. "$root/dev/lib/roots.sh"

majors=()
for arg; do
	case $arg in
		-h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit ;;
		*) is_major "$arg" || die "no such major: $arg (see --help)"; need_major "$arg"; majors+=("$arg") ;;
	esac
done
[ "${#majors[@]}" -gt 0 ] || majors=(17 18)

out=$root/target/packages
passed=0 failed=0

# Runs function or command $2… in a shell of its own, which any failing command ends, and counts; sets `ok`. Not to be called where
# a failure is tested for, as bash then goes on after failures inside. The output is in the log that is called after $1.
check() {
	local name=$1 log status
	log=$out/logs/$(sed 's/[^a-zA-Z0-9.]\{1,\}/-/g' <<<"$name").log
	shift
	set +e
	(set -e; "$@") >"$log" 2>&1 </dev/null
	status=$?
	set -e
	if [ "$status" = 0 ]; then
		say "ok - $name"
		passed=$((passed + 1)) ok=true
	else
		say "not ok - $name"
		tail -n 40 "$log"
		failed=$((failed + 1)) ok=false
	fi
}

finish() {
	say "packages: $passed passed, $failed failed"
	[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}

# Says in what the lines of two texts differ, if they do.
same_lines() { diff -u --label expected --label found <(sort <<<"$1") <(sort <<<"$2"); }

# Succeeds if a command fails. (`!` would not end the shell if it does not.)
none() { if "$@"; then return 1; fi; }

# --- building ---------------------------------------------------------------------------------------------------------

# A Debian with all that building needs, called `build`. Its user "builder" has the source in /home/builder/source.
make_build_root() {
	local stamp
	stamp=$(cat "$root/debian/control.in" "$roots/${suite[0]}.made" "$root/dev/lib/roots.sh" "$0" | cksum; stat -c %Y "$roots/${suite[0]}.made")
	if [ "$(cat "$roots/$build.made" 2>/dev/null)" != "$stamp" ]; then
		drop_root "$build"
		copy_root "${suite[0]}" "$build"
		apt_in "$build" update
		apt_in "$build" install build-essential lintian rpm
		run_in "$build" root useradd -m builder
		unpack_source
		apt_in "$build" ${suite[1]:+-t "${suite[1]}"} install "postgresql-server-dev-$major" # a preview is not in -all
		apt_in "$build" ${suite[1]:+-t "${suite[1]}"} build-dep /home/builder/source
		say "$stamp" | as_root tee "$roots/$build.made" >/dev/null
	fi
	unpack_source
}

unpack_source() {
	run_in "$build" root sh -c 'rm -rf /home/builder/* /home/builder/.[a-z]*'
	as_root cp "$archive" "$roots/$build/home/builder/pg-vault-tde_$version.orig.tar.gz"
	run_in "$build" builder sh -ec '
		cd /home/builder
		tar xzf pg-vault-tde_*.orig.tar.gz
		mv pg_vault_tde-* source
		cd source
		sed "s/PGVERSION/$1/g" debian/control.in >debian/control' sh "$major"
}

# The majors are those that this Debian's postgresql-common lists, as far as debian/pgversions wants them.
build_deb() {
	run_in "$build" builder env PG_SUPPORTED_VERSIONS="$major" DEB_BUILD_OPTIONS=parallel=2 sh -ec '
		cd /home/builder/source
		pg_buildext checkcontrol
		dpkg-buildpackage --no-sign'
	as_root cp "$roots/$build"/home/builder/*.{deb,dsc,changes,debian.tar.xz} "$out/"
}

lint_deb() { run_in "$build" builder sh -c 'cd /home/builder && lintian --info --tag-display-limit 0 --fail-on error *.changes'; }

build_rpm() {
	run_in "$build" builder sh -ec '
		cd /home/builder
		mkdir rpm
		cp pg-vault-tde_*.orig.tar.gz "rpm/pg_vault_tde-$2.tar.gz"
		# the packages that it wants have other names here
		# and its speed is not what is tested
		export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_BUILD_OVERRIDE_OPT_LEVEL=2
		rpmbuild -ba --nodeps --define "_topdir /home/builder/rpm" --define "_sourcedir /home/builder/rpm" \
			--define "pgmajorversion $1" --define "pginstdir /usr/lib/postgresql/$1" source/packaging/rpm/pg_vault_tde.spec' sh "$major" "$version"
	as_root cp "$roots/$build"/home/builder/rpm/RPMS/*/*.rpm "$roots/$build"/home/builder/rpm/SRPMS/*.rpm "$out/"
}

# --- what is in them --------------------------------------------------------------------------------------------------

# What every package has, but for documentation.
payload() {
	local script
	say "/usr/lib/postgresql/$major/lib/pg_vault_tde.so"
	say "/usr/lib/postgresql/$major/lib/pg_vault_tde/pgoutput.so"
	say "/usr/share/postgresql/$major/extension/pg_vault_tde.control"
	for script in "$root"/sql/*.sql; do say "/usr/share/postgresql/$major/extension/${script##*/}"; done
}

deb_has_files() {
	local found
	found=$(dpkg-deb --fsys-tarfile "$deb" | tar t | sed -n 's,^\./,/,p' | grep -v /usr/share/doc/ | grep -v '/$')
	same_lines "$(payload)" "$found"
	# and the documentation
	dpkg-deb --fsys-tarfile "$deb" | tar t | grep -E "/doc/postgresql-$major-pg-vault-tde/(README.md|copyright|changelog.Debian|docs/keys.md)"
	[ "$(dpkg-deb --fsys-tarfile "$deb" | tar t | grep -cE '/(README\.md|copyright|changelog\.Debian\.gz|changelog\.gz|docs/keys\.md)(\.gz)?$')" = 5 ]
}

# The right server, the libraries it is linked with, and nothing else.
deb_depends() {
	local depends
	depends=$(dpkg-deb -f "$deb" Depends | tr ',' '\n' | sed 's/^ *//')
	say "$depends"
	same_lines "$(printf '%s\n' libc6 libgcc-s1 "libssl" "postgresql-$major")" \
		"$(sed -E 's/ .*//; s/^libssl3(t64)?$/libssl/' <<<"$depends" | sort -u)"
	[ "$(dpkg-deb -f "$deb" Version)" = "$version-1" ]
}

rpm_query() { run_in "$build" builder sh -c 'rpm -qp "$@" /home/builder/rpm/RPMS/*/*.rpm 2>/dev/null' rpm "$@"; }

rpm_has_files() {
	local list
	list=$(rpm_query -l)
	say "$list"
	same_lines "$(payload; say "/usr/lib/postgresql/$major/lib/pg_vault_tde")" "$(grep -E '^/usr/(lib|share)/postgresql' <<<"$list")"
	grep -qx '/usr/share/doc/.*/README.md' <<<"$list"
	grep -qx '/usr/share/doc/.*/docs/keys.md' <<<"$list"
	grep -qx '/usr/share/licenses/.*/LICENSE' <<<"$list"
	[ "$(rpm_query --queryformat '[%{FILENAMES} -> %{FILELINKTOS}\n]' | grep -c 'pgoutput.so -> ../pg_vault_tde.so$')" = 1 ]
}

rpm_depends() {
	local requires
	requires=$(rpm_query -R)
	say "$requires"
	grep -qx "postgresql$major-server" <<<"$requires"
	grep -q '^libssl\.so\.3(.*(64bit)$' <<<"$requires"
	grep -q '^libcrypto\.so\.3(.*(64bit)$' <<<"$requires"
	# nothing but these, the C library, and rpm itself
	none grep -vE "^(postgresql$major-server|lib(ssl|crypto|c|m|gcc_s|dl|pthread)\.so\..*|ld-linux-.*|rtld\(GNU_HASH\)|rpmlib\(.*)( .*)?$" <<<"$requires"
	[ -z "$(rpm_query --scripts)" ]
}

# --- installed --------------------------------------------------------------------------------------------------------

# A Debian with nothing but the server, called `clean`.
make_clean_root() {
	copy_root "${suite[0]}" "$clean"
	apt_in "$clean" update
	apt_in "$clean" ${suite[1]:+-t "${suite[1]}"} install "postgresql-$major"
	as_root cp "$deb" "$roots/$clean/var/tmp/package.deb"
	as_root mkdir -p "$roots/$clean/opt/pg_vault_tde"
	as_root cp -R "$root/dev" "$roots/$clean/opt/pg_vault_tde/"
	files_there >"$out/before"
}

files_there() {
	run_in "$clean" root find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /run -o -path /var/log \
		-o -path /var/cache/apt -o -path /var/lib/apt \) -prune -o -print | sort
}

# Without network: all that it depends on is there with the server.
install_deb() { run_in "$clean" root apt-get -y install /var/tmp/package.deb; }

removed() {
	run_in "$clean" root apt-get -y purge "postgresql-$major-pg-vault-tde"
	files_there >"$out/after"
	diff -u "$out/before" "$out/after"
	none run_in "$clean" root dpkg-query -W "postgresql-$major-pg-vault-tde"
}

# --- the Dockerfile ---------------------------------------------------------------------------------------------------

# Does in directories what an engine would do in containers. The context is the source archive, so that nothing but apt needs the
# network. Knows the instructions that the Dockerfile has, no others.
build_image() {
	local line word rest from='' dir=/ image='' names=()
	while read -r line; do
		read -r word rest <<<"$line"
		say "--- $line"
		case $word in
			FROM)
				[[ $rest =~ ^debian:([a-z]+)-slim(\ AS\ ([a-z]+))?$ ]]
				names+=("${BASH_REMATCH[3]:-last}")
				image=image-${names[-1]} dir=/
				make_base "${BASH_REMATCH[1]}" "${BASH_REMATCH[1]}"
				copy_root "${BASH_REMATCH[1]}" "$image"
				as_root rm "$roots/$image/etc/postgresql-common/createcluster.d/none.conf"
				;;
			ENV) [ "$rest" = LANG=C.UTF-8 ] ;; # as in all of these directories
			WORKDIR) dir=$rest; as_root mkdir -p "$roots/$image$dir" ;;
			COPY)
				if [ "$rest" = '. .' ]; then
					as_root tar xzf "$archive" -C "$roots/$image$dir" --strip-components=1 --no-same-owner
				else
					[[ $rest =~ ^--from=([a-z]+)\ (/[a-z]+)\ /$ ]]
					from=$roots/image-${BASH_REMATCH[1]}${BASH_REMATCH[2]}
					as_root cp -R --no-dereference "$from/." "$roots/$image/"
				fi
				;;
			RUN)
				[[ $rest = apt-get* ]] && online=online || online=
				run_in "$image" root $online env CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
					CARGO_PROFILE_RELEASE_BUILD_OVERRIDE_OPT_LEVEL=2 sh -ec "cd $dir; $rest"
				;;
			USER) [ "$rest" = postgres ] ;;
			CMD) say "$rest" >"$out/image-command" ;;
			*) die "what is $word?" ;;
		esac
	done < <(sed -e ':a' -e '/\\$/{N;s/\\\n *//;ba' -e '}' "$root/Dockerfile" | grep -v -e '^#' -e '^$')
}

try_image() {
	run_in image-last postgres sh -ec '
		sh -c "$1" &
		server=$!
		for i in $(seq 600); do psql -qXc "" 2>/dev/null && break || sleep 0.1; done
		psql -Xv ON_ERROR_STOP=1 <<-END
			CREATE EXTENSION pg_vault_tde;
			CREATE TABLE t (id int PRIMARY KEY, x text) USING encrypted_heap;
			SELECT pg_create_logical_replication_slot($$s$$, $$pg_vault_tde$$);
			INSERT INTO t VALUES (1, $$one$$);
			SELECT 1 / (count(*) = 1)::int FROM pg_logical_slot_get_changes($$s$$, NULL, NULL) WHERE data LIKE $$%INSERT%one%$$;
			SELECT 1 / (getdatabaseencoding() = $$UTF8$$)::int;
			SELECT * FROM vault_tde.status();
		END
		kill -INT $server
		wait $server' sh "$(cat "$out/image-command")"
}

# ----------------------------------------------------------------------------------------------------------------------

package_major() {
	read -r -a suite <<<"$(suite_of_major "$major")"
	build=${suite[0]}-build clean=${suite[0]}-clean
	deb=$out/postgresql-$major-pg-vault-tde_$version-1_$(dpkg --print-architecture).deb
	say "--- PostgreSQL $major, Debian ${suite[*]}"
	check "$major: a Debian" make_base "${suite[0]}" "${suite[@]}"
	$ok || return 0
	check "$major: a Debian to build in" make_build_root
	$ok || return 0
	check "$major: RPM, built offline" build_rpm
	if $ok; then
		check "$major: files of the RPM" rpm_has_files
		check "$major: dependencies of the RPM" rpm_depends
	fi
	check "$major: Debian package, built offline" build_deb
	$ok || return 0
	check "$major: lintian finds no error" lint_deb
	check "$major: files of the Debian package" deb_has_files
	check "$major: dependencies of the Debian package" deb_depends
	check "$major: a Debian with the server alone" make_clean_root
	$ok || return 0
	check "$major: installed, without anything else" install_deb
	$ok || return 0
	check "$major: dev/demo with what was installed" run_in "$clean" root /opt/pg_vault_tde/dev/demo --installed "$major"
	check "$major: removed without a trace" removed
	drop_root "$clean"
}

"$root/dev/setup" --packages
mkdir -p "$out"
find "$out" -maxdepth 1 -type f -delete
rm -rf "$out/logs"
mkdir "$out/logs"
check "source archive" "$root/dev/dist"
if $ok; then
	archive=$(echo "$root"/target/dist/pg_vault_tde-*.tar.gz)
	version=${archive##*/pg_vault_tde-} version=${version%.tar.gz}
	for major in "${majors[@]}"; do package_major; done
	if [[ " ${majors[*]} " == *" 17 "* ]]; then
		say "--- Dockerfile"
		check "Dockerfile: built" build_image
		! $ok || check "Dockerfile: the image works" try_image
		drop_root image-build
		drop_root image-last
	fi
fi
finish
