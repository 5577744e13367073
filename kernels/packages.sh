#!/usr/bin/env bash
# packages.sh BIN KERNELS OUT CARD
#
# Makes OUT/KERNEL_CARD.tfpack of each KERNELS/KERNEL/bests/CARD.json, on a daemon of its own; CARD `all`: of all of them.
# Needs the compiler of the kernels (NVRTC of the CUDA Toolkit), and no GPU.
set -euo pipefail

bin=$1 kernels=$2 out=$3 card=$4
[ "$card" != all ] || card='*'

unset TUNEFARM_SERVER
TUNEFARM_DATA_DIR=$(mktemp -d)
export TUNEFARM_DATA_DIR
stop() {
  "$bin/tunefarm" stop >/dev/null 2>&1 || true
  rm -rf "$TUNEFARM_DATA_DIR"
}
trap stop EXIT

mkdir -p "$out"
found=0
# A card is a pattern only where it is `all`.
# shellcheck disable=SC2231
for bests in "$kernels"/*/bests/$card.json; do
  [ -e "$bests" ] || continue
  found=1
  folder=$(dirname "$(dirname "$bests")")
  name=$(basename "$folder")_$(basename "$bests" .json)
  "$bin/tunefarm" export package "$out/$name.tfpack" --bests "$bests"
done
if [ "$found" = 0 ]; then
  printf 'packages.sh: there are no stored bests: no %s\n' "$kernels/*/bests/$card.json" >&2
  exit 1
fi
