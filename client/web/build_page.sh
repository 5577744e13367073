#!/usr/bin/env bash
# build_page.sh FOLDER
#
# Makes the page's files in FOLDER: index.html, app.js and app.css, which ends with the licences of the libraries in
# app.js. Where npm is missing, or cannot fetch the packages that package-lock.json names, all three are empty, and one
# sentence says so: everything else is built, without the page.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
cd "$1"

leave_out() {
  printf 'tunefarm is built without the dashboard: %s\n' "$1" >&2
  for file in index.html app.js app.css; do : >$file; done
  exit 0
}

if ! cmp -s "$source/package-lock.json" node_modules/installed.json; then
  command -v npm >/dev/null || leave_out "npm is not installed (Debian: apt-get install nodejs npm)."
  cp "$source"/{.npmrc,package.json,package-lock.json} .
  npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --prefer-offline \
    --fetch-timeout=20000 --fetch-retries=1 --fetch-retry-mintimeout=1000 >npm.log 2>&1 ||
    leave_out "npm could not fetch the packages of its page; $PWD/npm.log says why."
  cp package-lock.json node_modules/installed.json
fi
# app.css is what app.tsx imports of style sheets.
NODE_PATH=$PWD/node_modules node_modules/.bin/esbuild "$source/src/app.tsx" --outfile=app.js --bundle --minify \
  --target=es2022 --format=esm --jsx=automatic --jsx-import-source=preact --legal-comments=none --log-level=warning
for library in preact uplot; do
  printf '\n/* %s\n%s */\n' "$library" "$(cat node_modules/$library/LICENSE)" >>app.js
done
cp "$source/index.html" .
