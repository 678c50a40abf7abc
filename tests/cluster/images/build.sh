#!/usr/bin/env bash
# Builds the stand-ins: tests/cluster/images/build.sh MINIO_PROGRAM [OPTION OF BUILDAH …]
set -euo pipefail
minio=$1
shift
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp "$(dirname "$0")"/{Dockerfile,postgres.sh} "$context"
cp "$minio" "$context/minio"
for name in postgres seaweedfs minio; do
    buildah bud --layers --target "$name" --tag "localhost/e3rg-test-$name:test" "$@" "$context"
done
