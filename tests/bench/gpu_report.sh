#!/usr/bin/env bash
# gpu_report.sh BUNDLE_DIRECTORY OUT_DIRECTORY
#
# What the README and tests/bench/results claim of a GPU, from a bundle: tunes matmul at 4096^3 in fp32 and bf16, runs every
# fault of faulty_cuda, and prints a short table last. Whole results go to OUT_DIRECTORY. Ends with 1 if anything is not as
# it must be.
set -euo pipefail

bundle=$(cd "$1" && pwd)
out=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$out"
export PATH="$bundle/bin:$PATH"
TUNEFARM_DATA_DIR=$(mktemp -d "${TMPDIR:-/tmp}/tunefarm-gpu.XXXXXX")
export TUNEFARM_DATA_DIR
export TUNEFARM_LAUNCH_TIMEOUT_MS=3000
trap 'cp "$TUNEFARM_DATA_DIR/log/tunefarmd.log" "$out/" 2>/dev/null || true; tunefarm stop --now >/dev/null 2>&1 || true' EXIT

tunefarm doctor | tee "$out/doctor.txt"
tunefarm devices --output json >"$out/devices.json"
for dtype in f32 bf16; do
  echo "== matmul $dtype 4096^3"
  start=$(date +%s.%N)
  tunefarm tune matmul --device cuda --dim M=4096 --dim N=4096 --dim K=4096 --dim dtype=$dtype --policy "${POLICY:-fast}" ${EXTRA:-} \
    >"$out/matmul_$dtype.txt" 2>"$out/matmul_$dtype.err" || { tail -20 "$out/matmul_$dtype.err"; exit 1; }
  printf 'wall seconds %s\n' "$(echo "$(date +%s.%N) - $start" | bc 2>/dev/null || python3 -c "import time;print(round(time.time()-$start,1))")" | tee -a "$out/matmul_$dtype.txt"
  tail -16 "$out/matmul_$dtype.txt"
done
echo "== faulty_cuda"
tunefarm tune faulty_cuda --device cuda --policy fast >"$out/faulty.txt" 2>"$out/faulty.err" || true
tail -12 "$out/faulty.txt"
for job in 1 2 3; do tunefarm results $job --all --output csv >"$out/job$job.csv" || true; done
tunefarm results 3 --all --output json >"$out/faulty.json"
tunefarm best matmul --device cuda --dim M=4096 --dim N=4096 --dim K=4096 --dim dtype=bf16 --exact | tee "$out/best.txt"
python3 "$here/gpu_report.py" "$out"
