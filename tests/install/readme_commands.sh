#!/usr/bin/env bash
# readme_commands.sh [FOLDER...]
#
# Runs ./dev demo and ./dev test, the two commands of README.md, as a machine without a CUDA Toolkit runs them: in a new
# clone of this checkout's HEAD below build/, in a mount namespace where an empty folder covers each FOLDER that exists.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

say() { printf 'readme_commands: %s\n' "$*" >&2; }

folders=()
for folder in "$@"; do
  # Several names may lead to one folder.
  if [ -d "$folder" ]; then folders+=("$(readlink -f "$folder")"); fi
done

if [ "${#folders[@]}" -gt 0 ] && [ "${TUNEFARM_MOUNT_NAMESPACE:-}" != 1 ]; then
  if why=$(unshare --mount mount --bind "${folders[0]}" "${folders[0]}" 2>&1); then
    TUNEFARM_MOUNT_NAMESPACE=1 exec unshare --mount "tests/install/$(basename "$0")" "$@"
  fi
  say "skipped: the CUDA Toolkit in ${folders[0]} cannot be hidden, since mounts are not permitted here ($why)."
  [ "${TUNEFARM_REQUIRE_NAMESPACES:-}" != 1 ] || exit 1
  exit 0
fi

work=$PWD/build/readme_commands
rm -rf "$work"
mkdir -p "$work/empty"
for folder in "${folders[@]}"; do mount --bind "$work/empty" "$folder"; done
unset CUDA_HOME CUDA_PATH TUNEFARM_MOUNT_NAMESPACE TUNEFARM_WERROR
git clone --quiet . "$work/clone"
cd "$work/clone"

# What the demo finds is there afterwards.
export TUNEFARM_DATA_DIR=$work/data
./dev demo
build/release/bin/tunefarm best matmul_host --exact
build/release/bin/tunefarm stop
if ! grep -q '^TUNEFARM_CUDA_INCLUDE_DIR:PATH=.*-NOTFOUND$' build/release/CMakeCache.txt; then
  say "CMake found a CUDA Toolkit: $(grep '^TUNEFARM_CUDA_INCLUDE_DIR' build/release/CMakeCache.txt). Hide its folder too."
  exit 1
fi
./dev test
