#!/bin/sh
# Makes the memory's roles and pgvector when `compose.yaml` starts PostgreSQL for the first time.
set -eu
psql --set=ON_ERROR_STOP=1 --username=postgres --dbname="$POSTGRES_DB" \
    --set=owner="$E3RG_OWNER_PASSWORD" --set=memory="$E3RG_MEMORY_PASSWORD" <<'SQL'
CREATE ROLE e3rg_owner LOGIN PASSWORD :'owner';
CREATE ROLE e3rg_memory LOGIN PASSWORD :'memory';
CREATE EXTENSION vector;
ALTER SCHEMA public OWNER TO e3rg_owner;
GRANT USAGE ON SCHEMA public TO e3rg_memory;
SQL
