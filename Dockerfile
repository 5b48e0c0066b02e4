# An image for trying pg_vault_tde. Not for data that matter: the key is made in the container, and both go with it.
#
#   docker build -t pg_vault_tde .
#   docker run -d --rm --name pg_vault_tde pg_vault_tde
#   docker exec -it pg_vault_tde psql       # CREATE EXTENSION pg_vault_tde; CREATE TABLE ... USING encrypted_heap;
#   docker stop pg_vault_tde
#
# dev/check --packages runs the commands of this file in a directory instead of an engine.

FROM debian:trixie-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
    ca-certificates cargo gcc libc6-dev libclang-dev libssl-dev make pkgconf postgresql-server-dev-17
WORKDIR /build
COPY . .
RUN make PG_CONFIG=/usr/lib/postgresql/17/bin/pg_config && \
    make install PG_CONFIG=/usr/lib/postgresql/17/bin/pg_config DESTDIR=/installed

FROM debian:trixie-slim
ENV LANG=C.UTF-8
RUN apt-get update && apt-get install -y --no-install-recommends postgresql-17 && rm -rf /var/lib/apt/lists/*
COPY --from=build /installed /
RUN install -d -m 700 -o postgres /etc/pg_vault_tde && install -d -o postgres -g postgres /run/postgresql && printf '%s\n' \
    "shared_preload_libraries = 'pg_vault_tde'" \
    "pg_vault_tde.key_file = '/etc/pg_vault_tde/key'" \
    "wal_level = logical" \
    "output_plugin_libraries = 'pgoutput, test_decoding, pg_vault_tde'" \
    > /etc/postgresql/17/main/conf.d/pg_vault_tde.conf
USER postgres
CMD umask 077 && { [ -e /etc/pg_vault_tde/key ] || od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n' > /etc/pg_vault_tde/key; } && \
    exec /usr/lib/postgresql/17/bin/postgres -c config_file=/etc/postgresql/17/main/postgresql.conf
