#!/usr/bin/env bash
# all.sh BUNDLE_DIRECTORY OUT_DIRECTORY [GROUP ...]
#
# The tests and benches that need a GPU and Python, from a bundle and the source tree that this file lies in. Prints a line for
# each with its exit status and seconds and the end of its output; everything goes to OUT_DIRECTORY. A group takes 4 to 7
# minutes on an H200 with 16 cores; without GROUP all run. Needs torch, Triton 3.6, CuPy, grpcio and protobuf in python3. TABLE
# may name a file of configs that vLLM reads, which the winners are compared with. Ends with 1 if one of them fails.
#
#   triton   kernels in Triton: captured, autotuned, remote cache, ranks, against Triton's own launches; kernels in Python
#   winners  tune-moe against an exhaustive search
#   moe      a whole table of tune-moe in two calls, the fused kernel, kernels and data files of Python programs
#   honest   kernels that cheat, and the A/A test
set -euo pipefail

bundle=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
shift 2
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$source"
export TUNEFARM_BIN_DIR=$bundle/bin TUNEFARM_SOURCE_DIR=$source PYTHONUNBUFFERED=1
export TUNEFARM_LAUNCH_LIBRARY=$bundle/python/tunefarm/libtunefarm-launch.so.1
export PYTHONPATH=$bundle/python:tests/e2e:tests/fault${PYTHONPATH:+:$PYTHONPATH}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/tunefarm-all.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
failed=0

# run NAME SECONDS_MAX LINES COMMAND...: shows the last LINES of what it prints.
run() {
  local name=$1 limit=$2 lines=$3 start=$SECONDS status=0
  shift 3
  timeout -k 5 "$limit" "$@" >"$out/$name.log" 2>&1 </dev/null || status=$?
  [ "$status" -eq 0 ] || failed=1
  printf '## %s: exit status %s after %s s\n' "$name" "$status" $((SECONDS - start))
  tail -n "$lines" "$out/$name.log" | cut -c1-220
}

triton() {
  run capture 150 3 python3 tests/gpu/triton_capture_test.py
  run autotune 120 7 python3 tests/gpu/triton_autotune_test.py
  run remote_cache 90 3 python3 tests/gpu/triton_remote_cache_test.py
  run tune 90 4 python3 tests/gpu/triton_tune_test.py
  run ranks 200 6 python3 tests/gpu/triton_ranks_test.py
  run same_judge 200 7 python3 tests/bench/triton_same_judge.py "$bundle"
  run decisions 180 9 python3 tests/bench/triton_decisions.py --triton
  run matmul 120 3 python3 tests/gpu/triton_matmul_test.py
}

winners() {
  run winners 480 8 python3 tests/bench/fused_moe_winners.py "$bundle/bin" --time-limit 400 --data-dir "$scratch/winners" \
    ${TABLE:+--table "$TABLE"}
}

# The first call is cut off, and the second one continues it.
moe() {
  timeout 80 python3 tests/bench/fused_moe_table.py "$bundle/bin" --data-dir "$scratch/table" --time-limit 45 \
    >"$out/table_begun.log" 2>&1 </dev/null || true
  run table 400 4 python3 tests/bench/fused_moe_table.py "$bundle/bin" --data-dir "$scratch/table" --time-limit 380
  run fused_moe 180 3 python3 tests/gpu/fused_moe_test.py
  run tune_kernel 90 3 python3 tests/gpu/tune_kernel_cuda_test.py
  run data_files 90 3 python3 tests/gpu/data_files_cuda_test.py
}

honest() {
  run memfd 120 16 python3 tests/gpu/memfd_probe.py
  run cheats 240 28 python3 tests/fault/cheats/cheats.py --gpu
  run aa 600 12 python3 tests/bench/aa.py "$bundle" "$out/aa" --pairs 100
}

[ $# -gt 0 ] || set -- triton winners moe honest
for group in "$@"; do
  case $group in
    triton) triton ;;
    winners) winners ;;
    moe) moe ;;
    honest) honest ;;
    *)
      printf 'all.sh: there is no group %s; there are triton, winners, moe, honest\n' "$group" >&2
      exit 2
      ;;
  esac
done
exit "$failed"
