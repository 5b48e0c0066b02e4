# shellcheck shell=bash disable=SC2154,SC2034
# The workloads of dev/bench: `workload_NAME` measures one. Source bench-measure.sh first. Targets are those that the project has
# set itself; see docs/performance.md.

workloads=(
	select_only tpcb
	copy copy_indexed insert_select insert_select_indexed
	count exists index_only read_one read_all lookup
	update_hot update_indexed update_scan delete
	big_write big_read big_slice
	create_index create_index_int create_index_text vacuum analyze
	decode_text decode_pgoutput
	bytes memory
)

# --- tables; each is made when a workload first needs it -----------------------------------------------------------------------

declare -A made=()
make_once() {
	[ -z "${made[$1]:-}" ] || return 0
	made[$1]=yes
	"make_$1"
}

# The rows themselves, on heap on both sides.
make_source() {
	both "CREATE UNLOGGED TABLE source USING heap AS
		SELECT i AS id, i % 1000 AS a, i % 97 AS b, 'some words of a row, number ' || i AS c, timestamptz '2026-01-01' + i * interval '1 s' AS d,
			(i * 1.5)::numeric AS e FROM generate_series(1, $rows) i;
		VACUUM FREEZE ANALYZE source"
}

# For reading.
make_read() {
	make_once source
	both 'CREATE TABLE t (LIKE source); INSERT INTO t SELECT * FROM source; ALTER TABLE t ADD PRIMARY KEY (id); VACUUM FREEZE ANALYZE t'
}

# For writing: with room for HOT updates of a tenth of the rows. What a run writes it undoes, and VACUUM clears away.
make_write() {
	make_once source
	both 'CREATE TABLE u (LIKE source) WITH (fillfactor = 80); INSERT INTO u SELECT * FROM source; ALTER TABLE u ADD PRIMARY KEY (id);
		CREATE INDEX ON u (b); VACUUM FREEZE ANALYZE u'
}
clear_up='VACUUM (FREEZE, INDEX_CLEANUP on) u;'

# Keys in no order, texts with a common beginning.
make_keys() {
	both "SELECT setseed(0.5); CREATE TABLE k AS SELECT (random() * 2e9)::int AS n, 'https://example.org/item/' || (random() * 1e12)::bigint AS w
		FROM generate_series(1, $rows); VACUUM FREEZE ANALYZE k"
}

make_load() {
	make_once source
	both 'CREATE TABLE l (LIKE source); CREATE TABLE li (LIKE source, PRIMARY KEY (id))'
	sql heap <<<"COPY source TO '$work/rows'"
}

# Values of 10 kB that do not compress.
big_rows=0
make_big() {
	big_rows=$((rows / 50))
	both "CREATE UNLOGGED TABLE big_source USING heap AS SELECT i AS id, string_agg(md5((i * 1000 + j)::text), '') AS v
			FROM generate_series(1, 100) i, generate_series(1, 320) j GROUP BY i;
		CREATE TABLE big (id int PRIMARY KEY, v text STORAGE EXTERNAL);
		CREATE TABLE big_load (id int, v text STORAGE EXTERNAL);
		INSERT INTO big SELECT n * 100 + id, v FROM big_source, generate_series(0, $big_rows / 100 - 1) n; VACUUM FREEZE ANALYZE big"
}

# --- pgbench -------------------------------------------------------------------------------------------------------------------

make_pgbench() {
	local side
	for side in "${sides[@]}"; do
		quietly "$work/pgbench.log" as_user pgbench -i -q -s "$scale" "$side"
	done
}

# A target that holds when indexes are encrypted ($1), and the one when they are not ($2).
target() { if [ "$indexes" = on ]; then say "$1"; else say "$2"; fi; }

# pgbench with the options in $3…; what is recorded is milliseconds a transaction, and the target $2 is in these terms.
pgbench_runs() {
	local name=$1 limit=$2 i side cpu tps transactions
	make_once pgbench
	empty heap.times encrypted.times heap.tps encrypted.tps
	for ((i = 0; i < repeat; i++)); do
		for side in "${sides[@]}"; do
			both 'VACUUM pgbench_branches; VACUUM pgbench_tellers'
			sleep 0.2 # until the postmaster has seen them end
			cpu=$(children_cpu)
			as_user pgbench -n -M prepared -c 2 -j 2 -T "$seconds" "${@:3}" "$side" >"$work/pgbench.out" 2>&1 || die "$name failed"
			sleep 0.2
			tps=$(awk '/^tps/ { print $3 }' "$work/pgbench.out")
			transactions=$(awk '/^number of transactions actually/ { print $NF + 0 }' "$work/pgbench.out")
			say "$tps" >>"$work/$side.tps"
			say "$(compute "2000 / $tps" 6) $(compute "($(children_cpu) - $cpu) / $transactions" 6)" >>"$work/$side.times"
		done
	done
	note "$name" tps "$(median <"$work/heap.tps")" "$(median <"$work/encrypted.tps")"
	record "${name} (a transaction)" ms "$limit"
}
# 0.85, 0.93 and 0.97 of heap's transactions a second
workload_select_only() { pgbench_runs select_only "$(target 1.176 1.031)" -S; }
workload_tpcb() { pgbench_runs tpcb "$(target 1.075 1.031)"; }

# --- loading -------------------------------------------------------------------------------------------------------------------

workload_copy() { make_once load; measured copy 1.20 "COPY l FROM '$work/rows';" 'TRUNCATE l;'; }
workload_copy_indexed() { make_once load; measured copy_indexed 1.20 "COPY li FROM '$work/rows';" 'TRUNCATE li;'; }
workload_insert_select() { make_once load; measured insert_select 1.20 'INSERT INTO l SELECT * FROM source;' 'TRUNCATE l;'; }
workload_insert_select_indexed() { make_once load; measured insert_select_indexed 1.20 'INSERT INTO li SELECT * FROM source;' 'TRUNCATE li;'; }

# --- reading -------------------------------------------------------------------------------------------------------------------

keys='generate_series(1, 100000) g'
workload_count() { make_once read; measured count 1.05 'SELECT count(*) FROM t;'; }
workload_exists() {
	make_once read
	measured exists 1.05 "SELECT count(*) FILTER (WHERE EXISTS (SELECT FROM t WHERE id = g * 7919 % $rows)) FROM $keys;" 'SET enable_indexonlyscan = off;'
}
workload_index_only() { make_once read; measured index_only 1.05 'SELECT count(*) FROM t WHERE id > 0;' 'SET enable_seqscan = off; SET enable_bitmapscan = off;'; }
workload_read_one() { make_once read; measured read_one floor:1.3 'SELECT sum(a) FROM t;'; }
workload_read_all() { make_once read; measured read_all floor:1.3 'SELECT sum(id), sum(a), sum(b), max(length(c)), max(d), sum(e) FROM t;'; }
workload_lookup() { make_once read; measured lookup '' "SELECT sum((SELECT a FROM t WHERE id = g * 7919 % $rows)) FROM $keys;"; }

# --- changing ------------------------------------------------------------------------------------------------------------------

# A tenth of the rows, found by key. (Found by a scan, all rows are decrypted to find them: update_scan.)
by_key='SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN;'
tenth() { say "generate_series(3, $rows, 10) g WHERE u.id = g"; }

# The share of HOT updates, in percent, of update $2.
hot_share() {
	sql "$1" <<-SQL | tail -n 1
		$by_key
		$2
		SELECT round(100.0 * n_tup_hot_upd / n_tup_upd, 1) FROM pg_stat_xact_user_tables WHERE relname = 'u';
		ROLLBACK;
		$clear_up
	SQL
}
# updates NAME TARGET SET [WHERE]
updates() {
	local update="UPDATE u SET $3 ${4:-FROM $(tenth)};"
	make_once write
	measured "$1" "$2" "$update" "$by_key" "ROLLBACK; $clear_up"
	note "$1 (HOT)" % "$(hot_share heap "$update")" "$(hot_share encrypted "$update")"
}
workload_update_hot() { updates update_hot 1.20 'a = a + 1'; }
workload_update_indexed() { updates update_indexed 1.20 'b = b + 1'; }
workload_update_scan() { updates update_scan '' 'a = a + 1' 'WHERE id % 10 = 3'; }
workload_delete() { make_once write; measured delete 1.20 "DELETE FROM u USING $(tenth);" "$by_key" "ROLLBACK; $clear_up"; }

# --- large values --------------------------------------------------------------------------------------------------------------

workload_big_write() {
	make_once big
	measured big_write 1.15 "INSERT INTO big_load SELECT id, v FROM big_source, generate_series(1, $big_rows / 100);" 'TRUNCATE big_load;'
}
workload_big_read() { make_once big; measured big_read 1.15 "SELECT sum(length(v || '')) FROM big;"; }
workload_big_slice() { make_once big; measured big_slice 1.30 'SELECT sum(length(substr(v, 5000, 100))) FROM big;'; }

# --- maintenance ---------------------------------------------------------------------------------------------------------------

workload_create_index() { make_once read; measured create_index '' 'CREATE INDEX by_d ON t (d);' '' 'DROP INDEX by_d;'; }
# index_build NAME TARGET COLUMN
index_build() {
	make_once keys
	measured "$1" "$2" "CREATE INDEX i ON k ($3);" '' 'DROP INDEX i;'
	both "CREATE INDEX i ON k ($3)"
	note "$1 (bytes/key)" B "$(index_bytes heap)" "$(index_bytes encrypted)"
	both 'DROP INDEX i'
}
index_bytes() { sql "$1" <<<"SELECT round(pg_relation_size('i') / $rows.0, 2)" | tail -n 1; }
workload_create_index_int() { index_build create_index_int "$(target 2.0 '')" n; }
workload_create_index_text() { index_build create_index_text "$(target 2.5 '')" w; }
workload_vacuum() { make_once write; measured vacuum 1.05 'VACUUM u;' 'BEGIN; UPDATE u SET a = a + 1 WHERE id % 10 = 3; ROLLBACK;' "$clear_up"; }
workload_analyze() { make_once read; measured analyze '' 'ANALYZE t;'; }

# --- decoding ------------------------------------------------------------------------------------------------------------------

# A slot that has a million changes before it, to be copied for each run.
make_decode() {
	make_once source
	both 'CREATE TABLE d (LIKE source, PRIMARY KEY (id)); CREATE PUBLICATION p FOR TABLE d'
	slots heap test_decoding pgoutput
	slots encrypted pg_vault_tde pg_vault_tde
	both "INSERT INTO d SELECT * FROM source WHERE id <= $rows / 2; UPDATE d SET a = a + 1 WHERE id % 2 = 0; DELETE FROM d WHERE id % 2 = 1"
	end=$(sql postgres <<<'SELECT pg_current_wal_insert_lsn()')
	both "SELECT pg_log_standby_snapshot()"
}
slots() {
	sql "$1" <<-SQL >/dev/null
		SELECT pg_create_logical_replication_slot('$1_text', '$2'), pg_create_logical_replication_slot('$1_pgoutput', '$3')
	SQL
}
decodes() {
	local name=$1 format=$2 i side start cpu pid anon
	[ "$wal" = logical ] || return 0
	make_once decode
	empty heap.times encrypted.times
	for ((i = 0; i < repeat; i++)); do
		for side in "${sides[@]}"; do
			sql "$side" <<<"SELECT pg_copy_logical_replication_slot('${side}_$format', 'run')" >/dev/null
			sleep 0.2
			cpu=$(children_cpu) start=${EPOCHREALTIME/./}
			as_user pg_recvlogical -d "$side" -S run --start --no-loop -s 0 -E "$end" -f /dev/null "${@:3}" >"$work/decode.log" 2>&1 &
			# the walsender's memory, as often as can be looked at without disturbing it
			while kill -0 $! 2>/dev/null; do
				pid=$(pgrep -f "^postgres: walsender.*$side" | head -n 1) || pid=
				anon=$(awk '/^RssAnon/ { print $2 }' "/proc/${pid:-none}/status" 2>/dev/null) || anon=0
				if [ "${anon:-0}" -gt "${walsender_memory[$side]}" ]; then walsender_memory[$side]=$anon; fi
				sleep 0.05
			done
			wait $! || { cat "$work/decode.log" >&2; die "$name failed"; }
			start=$((${EPOCHREALTIME/./} - start))
			sleep 0.2
			say "$(compute "$start / 1000") $(($(children_cpu) - cpu))" >>"$work/$side.times"
			sql postgres <<<"SELECT pg_drop_replication_slot('run')"  >/dev/null
		done
	done
	record "$name" ms 1.10
}
declare -A walsender_memory=([heap]=0 [encrypted]=0)
workload_decode_text() { decodes decode_text text; }
workload_decode_pgoutput() { decodes decode_pgoutput pgoutput -o proto_version=1 -o publication_names=p; }

# --- sizes ---------------------------------------------------------------------------------------------------------------------

# bytes_of DB TABLE SQL: bytes a row that $3 adds to the table and to WAL.
bytes_of() {
	sql "$1" <<-SQL | tail -n 1
		CREATE TABLE $2 (LIKE source);
		SELECT pg_current_wal_insert_lsn() AS lsn \gset
		$3
		SELECT round(pg_relation_size('$2') / $rows.0, 2), round(pg_wal_lsn_diff(pg_current_wal_insert_lsn(), :'lsn') / $rows.0, 2);
	SQL
}
# At most 34 bytes, and what aligning rows and records may add to that.
bytes_noted() {
	local name=$1 heap_table heap_wal table wal_bytes
	make_once source
	IFS='|' read -r heap_table heap_wal < <(bytes_of heap "$name" "$2")
	IFS='|' read -r table wal_bytes < <(bytes_of encrypted "$name" "$2")
	note "bytes/row $name" B "$heap_table" "$table" '<= +40' "$(compute "$table - $heap_table <= 40 ? 1 : 0" 0)"
	note "WAL/row $name" B "$heap_wal" "$wal_bytes" '<= +40' "$(compute "$wal_bytes - $heap_wal <= 40 ? 1 : 0" 0)"
	both "DROP TABLE $name"
}
workload_bytes() {
	sql heap <<<"COPY source TO '$work/rows'"
	bytes_noted batch "COPY batch FROM '$work/rows';"
	bytes_noted single 'DO $$ DECLARE r source; BEGIN FOR r IN SELECT * FROM source LOOP INSERT INTO single VALUES (r.*); END LOOP; END $$;'
}

# Of what ran before; so it is the last.
workload_memory() {
	local side what
	for what in memory walsender_memory; do
		declare -n of=$what
		[ "${of[heap]}" = 0 ] || note "${what/_/ } (private)" kB "${of[heap]}" "${of[encrypted]}" '<= +8 MB' "$((of[encrypted] - of[heap] <= 8192 ? 1 : 0))"
	done
}
