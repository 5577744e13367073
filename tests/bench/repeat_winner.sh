#!/usr/bin/env bash
# repeat_winner.sh BUNDLE_DIRECTORY OUT_DIRECTORY [REPEATS]
#
# Tunes matmul REPEATS (default 5) times from nothing (each in a data directory of its own), then measures all winners
# against each other in one interleaved final and prints the ratio of each to the best. Ends with 1 if a winner is more
# than 2 % behind the best. DEVICE, POLICY, DTYPE, SIZE and KERNEL may be set.
set -euo pipefail

bundle=$(cd "$1" && pwd)
out=$2
repeats=${3:-5}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$out"
export PATH="$bundle/bin:$PATH"
root=$(mktemp -d "${TMPDIR:-/tmp}/tunefarm-repeat.XXXXXX")
kernel=${KERNEL:-matmul}
dims=()
if [ "$kernel" = matmul ]; then
  dims=(--dim dtype="${DTYPE:-bf16}" --dim M="${SIZE:-4096}" --dim N="${SIZE:-4096}" --dim K="${SIZE:-4096}")
fi
trap 'for d in "$root"/*/; do TUNEFARM_DATA_DIR=$d tunefarm stop --now >/dev/null 2>&1 || true; done' EXIT

for i in $(seq "$repeats"); do
  export TUNEFARM_DATA_DIR="$root/$i/"
  start=$SECONDS
  tunefarm tune "$kernel" --device "${DEVICE:-cuda}" "${dims[@]}" --seed "$i" --policy "${POLICY:-fast}" ${EXTRA:-} \
    >"$out/tune_$i.txt" 2>"$out/tune_$i.err" || { tail -5 "$out/tune_$i.err"; exit 1; }
  tunefarm results 1 --output json >"$out/trials_$i.json"
  tunefarm best "$kernel" --device "${DEVICE:-cuda}" "${dims[@]}" --exact --output json >"$out/best_$i.json"
  echo "tuning $i took $((SECONDS - start)) s"
  tunefarm stop --now >/dev/null 2>&1 || true
done

# All winners side by side, each in five runs that take turns.
export TUNEFARM_DATA_DIR="$root/compare/"
python3 "$here/repeat_winner.py" "$out" "$repeats" "$kernel" "${DEVICE:-cuda}" "${dims[@]}"
