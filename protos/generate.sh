#!/bin/sh
# Generates protos/gen from the contracts: `protos/generate.sh OUT` (run from the root, with the tools on PATH).
set -eu
out=${1:-protos/gen}
mkdir -p "$out"
python -m grpc_tools.protoc -Iprotos --python_out="$out" --pyi_out="$out" --grpc_python_out="$out" \
    --mypy_grpc_out=quiet:"$out" $(find protos/e3rg -name '*.proto' | LC_ALL=C sort)
