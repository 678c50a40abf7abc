# Does what the entry point of PostgreSQL's public image does with the variables that the chart sets: initialises an empty
# PGDATA, makes POSTGRES_DB, runs the scripts in /docker-entrypoint-initdb.d, then serves.
set -eu
if [ ! -e "$PGDATA/PG_VERSION" ]; then
    initdb -D "$PGDATA" -U postgres --pwfile "$POSTGRES_PASSWORD_FILE" --auth-local trust --auth-host scram-sha-256 \
        --encoding UTF8 --locale C > /dev/null
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
    export PGHOST=/var/run/postgresql
    pg_ctl -D "$PGDATA" -w -o "-c listen_addresses='' -c unix_socket_directories=$PGHOST" start
    psql -v ON_ERROR_STOP=1 -U postgres -c "CREATE DATABASE \"$POSTGRES_DB\""
    for script in /docker-entrypoint-initdb.d/*.sh; do . "$script"; done
    pg_ctl -D "$PGDATA" -m fast -w stop
fi
exec postgres -D "$PGDATA" -c "listen_addresses=*" -c unix_socket_directories=/var/run/postgresql "$@"
