#!/usr/bin/env bash
# Builds the stand-ins: tests/cluster/images/build.sh MINIO_PROGRAM [OPTION OF BUILDAH …]
# With E3RG_TEST_ADAPTER, the program of prometheus-adapter, also those that the test of scaling needs.
set -euo pipefail
minio=$1
shift
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp "$(dirname "$0")"/{Dockerfile,postgres.sh} "$context"
cp "$minio" "$context/minio"
names=(postgres seaweedfs minio)
if [ -n "${E3RG_TEST_ADAPTER:-}" ]; then
    cp "$E3RG_TEST_ADAPTER" "$context/adapter"
    names+=(prometheus adapter)
fi
for name in "${names[@]}"; do
    buildah bud --layers --target "$name" --tag "localhost/e3rg-test-$name:test" "$@" "$context"
done
