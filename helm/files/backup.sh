# Writes a dump, whole or not at all, and deletes the oldest beyond KEEP.
set -eu
rm -f /backup/*.partial # Of dumps that failed.
name="/backup/$(date -u +%Y%m%dT%H%M%SZ).dump"
PGPASSWORD="$(cat /secrets/backup-password)" pg_dump -h "$PGHOST" -U e3rg_backup -Fc -f "$name.partial" "$PGDATABASE"
mv "$name.partial" "$name"
ls -1 /backup/*.dump | sort -r | tail -n "+$((KEEP + 1))" | while read -r old; do rm "$old"; done
ls -l /backup
