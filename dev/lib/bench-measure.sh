# shellcheck shell=bash disable=SC2154,SC2034
# How dev/bench measures: twins in two databases, runs in turn, medians, the table and the JSON. Source cluster.sh first.
#
# Sets: results, one line a workload: `name|unit|heap|encrypted|ratio|best|heap cpu|encrypted cpu|cpu ratio|target|met`, where best is
# the ratio of the best runs.

sides=(heap encrypted)
results=()
declare -A memory=([heap]=0 [encrypted]=0) # the most private memory, in kB, that a backend has had

# Empties files of the workspace.
empty() {
	local file
	for file; do : >"$work/$file"; done
}

progress() { if [ -t 2 ]; then printf '\r\033[K%s' "$1" >&2; fi; }

# psql in database $1, with a script from standard input.
sql() { as_user psql -X -q -A -t -v ON_ERROR_STOP=1 -d "$1"; }
both() {
	local side
	for side in "${sides[@]}"; do sql "$side" <<<"$1" >/dev/null; done
}

make_twins() {
	sql postgres <<-SQL
		CREATE DATABASE heap;
		CREATE DATABASE encrypted;
	SQL
	both 'CREATE EXTENSION pg_vault_tde'
	sql encrypted <<-SQL
		ALTER DATABASE encrypted SET default_table_access_method = encrypted_heap;
		SELECT format('ALTER DATABASE encrypted SET %s = %L', name, '$indexes') FROM pg_settings WHERE name = 'pg_vault_tde.encrypt_indexes' \gexec
	SQL
}

# The middle one of the numbers on standard input.
median() { sort -g | awk '{ v[NR] = $1 } END { if (NR) print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
compute() { awk "BEGIN { printf \"%.${2:-3}f\", $1 }"; }

# What the cipher alone costs in ns: sets floor_encrypt and floor_decrypt for the rows of the tables here.
floor() {
	local speeds
	speeds=$(sql encrypted <<<'SELECT encrypt_ns, decrypt_ns FROM generate_series(1, 5), vault_tde.cipher_speed(80)')
	floor_encrypt=$(cut -d'|' -f1 <<<"$speeds" | median) floor_decrypt=$(cut -d'|' -f2 <<<"$speeds" | median)
}

# One run: `measured`'s three scripts in one session in database $1. Prints milliseconds waited, milliseconds computed, and kB of
# private memory at the end.
run_once() {
	sql "$1" <<-SQL | tail -n 1
		${2:-}
		SELECT extract(epoch FROM clock_timestamp()) AS t0, split_part(pg_read_file('/proc/self/schedstat'), ' ', 1) AS c0 \gset
		$3
		SELECT (extract(epoch FROM clock_timestamp()) - :t0) * 1000 AS waited,
			(split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::numeric - :c0) / 1e6 AS computed,
			substring(pg_read_file('/proc/self/status') FROM 'RssAnon:\s*(\d+)') AS private \gset
		${4:-}
		SELECT :'waited', :'computed', :'private';
	SQL
}

# measured NAME TARGET SQL [BEFORE [AFTER]]: runs SQL on both sides, `repeat` times in turn; BEFORE and AFTER are not timed.
# TARGET is the most that the ratio of times may be, or `floor:N` for heap's time and N times the cipher's, for each row.
measured() {
	local name=$1 target=$2 i side waited computed private
	warm_up "$@"
	empty heap.times encrypted.times floor.times
	for ((i = 0; i < repeat; i++)); do # in turn, so that what disturbs hits both
		if [[ $target = floor:* ]]; then floor; say "$floor_decrypt" >>"$work/floor.times"; fi
		for side in "${sides[@]}"; do
			IFS='|' read -r waited computed private < <(run_once "$side" "${4:-}" "$3" "${5:-}") || die "$name failed"
			say "$waited $computed" >>"$work/$side.times"
			if [ "$private" -gt "${memory[$side]}" ]; then memory[$side]=$private; fi
		done
	done
	record "$name" ms "$target"
}

# With a checkpoint, so that segments of WAL are there to be used again, and a run that is not measured: it writes the full pages
# that follow a checkpoint.
warm_up() {
	local side
	sql postgres <<<'CHECKPOINT'
	for side in "${sides[@]}"; do run_once "$side" "${4:-}" "$3" "${5:-}" >/dev/null || die "$1 failed"; done
}

least() { sort -g | head -n 1; }

# Records what the two files of times say: milliseconds waited and computed in each line.
record() {
	local name=$1 unit=$2 target=$3 h e best hc ec limit met=''
	h=$(cut -d' ' -f1 "$work/heap.times" | median) e=$(cut -d' ' -f1 "$work/encrypted.times" | median)
	best=$(compute "$(cut -d' ' -f1 "$work/encrypted.times" | least) / $(cut -d' ' -f1 "$work/heap.times" | least)")
	hc=$(cut -d' ' -f2 "$work/heap.times" | median) ec=$(cut -d' ' -f2 "$work/encrypted.times" | median)
	case $target in
		floor:*)
			limit=$(compute "($h + ${target#floor:} * $(median <"$work/floor.times") * $rows / 1e6) / $h")
			target="<= $(compute "$limit" 2)"
			;;
		'') limit= ;;
		*) limit=$target target="<= $target" ;;
	esac
	if [ -n "$limit" ]; then met=$(compute "$e / $h <= $limit ? 1 : 0" 0); fi
	results+=("$name|$unit|$h|$e|$(compute "$e / $h")|$best|$hc|$ec|$(compute "$hc ? $ec / $hc : 0")|$target|$met")
}

# note NAME UNIT HEAP ENCRYPTED [TARGET [MET]]: something that is not a time.
note() { results+=("$1|$2|$3|$4|$(compute "$3 ? $4 / $3 : 0")||||0|${5:-}|${6:-}"); }

# Milliseconds that ended children of the postmaster have computed.
children_cpu() {
	local pid stat
	read -r pid <"$PGDATA/postmaster.pid"
	read -r stat <"/proc/$pid/stat"
	stat=${stat##*) }
	# shellcheck disable=SC2086
	set -- $stat
	say $(((${14} + ${15}) * 1000 / $(getconf CLK_TCK)))
}

# --- the report --------------------------------------------------------------------------------------------------------------

digits() { compute "$1" "$(compute "$1 < 10 ? 3 : $1 < 1000 ? 1 : 0" 0)"; }

report() {
	local line name unit h e ratio best hc ec cpu target met
	printf '\n%-28s %11s %15s %6s %6s %6s  %s\n' 'medians; heap = 1.00' heap encrypted ratio best cpu target
	for line in "${results[@]}"; do
		IFS='|' read -r name unit h e ratio best hc ec cpu target met <<<"$line"
		case $met in 1) met=ok ;; 0) met=missed ;; esac
		[ "$cpu" != 0 ] && [ "$cpu" != 0.000 ] || cpu=''
		printf '%-28s %11s %15s %6.2f %6s %6s  %-8s %s\n' "$name" "$(digits "$h")" "$(digits "$e") $unit" "$ratio" \
			"${best:+$(compute "$best" 2)}" "${cpu:+$(compute "$cpu" 2)}" "$target" "$met"
	done
	[ -z "$json" ] || as_json >"$json"
}

as_json() {
	local line first=true name unit h e ratio best hc ec cpu target met
	printf '{"server": "%s", "wal_level": "%s", "rows": %s, "repeat": %s, "seconds": %s, "scale": %s,\n' \
		"$("$pg_config" --version)" "$wal" "$rows" "$repeat" "$seconds" "$scale"
	printf ' "cipher_ns": {"encrypt": %.1f, "decrypt": %.1f},\n "workloads": [' "$floor_encrypt" "$floor_decrypt"
	for line in "${results[@]}"; do
		IFS='|' read -r name unit h e ratio best hc ec cpu target met <<<"$line"
		$first || printf ','
		first=false
		case $met in 1) met=true ;; 0) met=false ;; *) met=null ;; esac
		printf '\n  {"name": "%s", "unit": "%s", "heap": %s, "encrypted": %s, "ratio": %s, "best": %s,' \
			"$name" "$unit" "$h" "$e" "$ratio" "${best:-null}"
		printf ' "cpu_heap": %s, "cpu_encrypted": %s, "target": "%s", "met": %s}' "${hc:-null}" "${ec:-null}" "$target" "$met"
	done
	printf '\n ]}\n'
}
