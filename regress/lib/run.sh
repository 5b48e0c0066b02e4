# shellcheck shell=sh
# What lib/twin and lib/decode share: running a workload on either side. Source it; the workload's name is in $workload.
results=$PG_ABS_BUILDDIR/results
# no NOTICEs, of which encrypted tables have some of their own
export PGOPTIONS="${PGOPTIONS:-} -c client_min_messages=warning -c pg_vault_tde.plaintext_indexes=allow"

prepare() {
	psql -X -q -c 'CREATE EXTENSION IF NOT EXISTS pg_vault_tde' -c 'DROP SCHEMA IF EXISTS encrypted, heap, twin CASCADE'
}

# Runs the workload with access method $1. Its schema is then called $2, its output is in the workload's results file $2.
run() {
	{
		echo "CREATE SCHEMA twin; SET search_path = twin, public; SET default_table_access_method = $1;"
		echo '\set QUIET off' # so that command tags are compared, too
		cat "$PG_ABS_SRCDIR/workloads/$workload.sql"
	} | psql -X -q -v am="$1" -f - >"$results/$workload.$2" 2>&1
	psql -X -q -c "ALTER SCHEMA twin RENAME TO $2"
}

# Compares files $1 (of heap) and $2, as $3 says; shows the beginning of a difference.
same() {
	if diff "$1" "$2" >"$2.diff"; then
		echo "$(wc -l <"$2") lines of $3, the same on both"
	else
		echo "$3 differs:"
		head -n 50 "$2.diff" | cut -c 1-300
	fi
}
