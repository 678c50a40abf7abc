# Makes the roles that docs/memory.md describes, once, on an empty volume.
psql -v ON_ERROR_STOP=1 -U postgres -d "$POSTGRES_DB" -v database="$POSTGRES_DB" \
    -v owner="$E3RG_OWNER" -v owner_password="$(cat /secrets/owner-password)" \
    -v service="$E3RG_USER" -v service_password="$(cat /secrets/password)" \
    -v backup_password="$(cat /secrets/backup-password)" << 'SQL'
CREATE ROLE :"owner" LOGIN PASSWORD :'owner_password';
CREATE ROLE :"service" LOGIN PASSWORD :'service_password';
CREATE ROLE e3rg_backup LOGIN BYPASSRLS PASSWORD :'backup_password';
CREATE EXTENSION vector;
ALTER DATABASE :"database" OWNER TO :"owner";
REVOKE ALL ON DATABASE :"database" FROM PUBLIC;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
ALTER SCHEMA public OWNER TO :"owner";
GRANT CONNECT ON DATABASE :"database" TO :"service", e3rg_backup;
GRANT USAGE ON SCHEMA public TO :"service";
GRANT pg_read_all_data TO e3rg_backup;
SQL
