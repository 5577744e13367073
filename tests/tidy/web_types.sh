#!/usr/bin/env bash
# web_types.sh FOLDER PYTHON: whether the page's sources agree with the types of the public API. FOLDER: where the page is
# built. PYTHON: an interpreter that has protobuf.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$1"
if [ ! -e node_modules/typescript ]; then
  echo "NOT TESTED: the page is not built here; npm is missing, could not fetch its packages, or TUNEFARM_WEB is OFF."
  [ "${TUNEFARM_REQUIRE_BROWSER:-}" != 1 ] || exit 1
  exit 77
fi
protoc -I "$root/proto" --descriptor_set_out=api.descriptors "$root"/proto/tunefarm/v1/*.proto
"$2" "$root/client/web/api_types.py" api.descriptors api.d.ts
cat >tsconfig.json <<JSON
{"extends": "$root/client/web/tsconfig.json",
 "compilerOptions": {"paths": {"api": ["./api.d.ts"], "*": ["./node_modules/*"]}},
 "include": ["$root/client/web/src"]}
JSON
node_modules/.bin/tsc --noEmit -p . && echo "The page's sources agree with their types."
