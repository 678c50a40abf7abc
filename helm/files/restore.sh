# Puts a dump in the place of what the database holds: FILE, or the newest. No replica of the memory may run.
set -eu
file="${FILE:-$(basename "$(ls -1 /backup/*.dump | sort | tail -n 1)")}"
PGPASSWORD="$(cat /secrets/admin-password)" pg_restore -h "$PGHOST" -U postgres -d "$PGDATABASE" \
    --clean --if-exists --exit-on-error --single-transaction "/backup/$file"
echo "restored $file"
