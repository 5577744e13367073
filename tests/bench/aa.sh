#!/usr/bin/env bash
# aa.sh BUNDLE_DIRECTORY OUT_DIRECTORY [PAIRS]
#
# The A/A test on a GPU: matmul against itself at sizes from about 50 us on, PAIRS (default 200) pairs each. Reports and
# JSON go to OUT_DIRECTORY; prints a table last. Ends with 1 if the intervals are not what they say, or are wider than
# 0.5 % at the median. DEVICE, ROUNDS and POLICY may be set.
set -euo pipefail

bundle=$(cd "$1" && pwd)
out=$2
pairs=${3:-200}
mkdir -p "$out"
export PATH="$bundle/bin:$PATH"
TUNEFARM_DATA_DIR=$(mktemp -d "${TMPDIR:-/tmp}/tunefarm-aa.XXXXXX")
export TUNEFARM_DATA_DIR
trap 'cp "$TUNEFARM_DATA_DIR/log/tunefarmd.log" "$out/" 2>/dev/null || true; tunefarm stop --now >/dev/null 2>&1 || true' EXIT

failed=0
for case in "bf16 2048" "f32 1024" "bf16 4096"; do
  read -r dtype size <<<"$case"
  name="aa_${dtype}_$size"
  start=$SECONDS
  tunefarm doctor --repeatability --kernel matmul --device "${DEVICE:-cuda}" --dim dtype="$dtype" --dim M="$size" --dim N="$size" \
    --dim K="$size" --pairs "$pairs" --rounds "${ROUNDS:-8}" --policy "${POLICY:-default}" --output json \
    >"$out/$name.json" 2>"$out/$name.err" || true
  echo "$name took $((SECONDS - start)) s"
done

python3 - "$out" <<'PYTHON' || failed=1
import json, pathlib, sys
out = pathlib.Path(sys.argv[1])
bad = 0
print(f"\n{'A/A of matmul':16} {'time us':>9} {'pairs':>5} {'excl. 1':>7} {'allowed':>7} {'half-width':>10} {'bias':>7} "
      f"{'drift':>7} {'MHz':>5} {'W':>5} {'discarded':>9}  verdict")
for path in sorted(out.glob("aa_*.json")):
    try:
        r = json.loads(path.read_text())
    except ValueError:
        print(f"{path.stem:16} failed: {path.with_suffix('.err').read_text().strip().splitlines()[-1:]}")
        bad += 1
        continue
    good = r["honest"] and r["median_half_width"] <= 0.005
    bad += not good
    print(f"{path.stem:16} {r['median_ns'] / 1e3:9.1f} {r['pairs']:5} {r['excluding_one']:7} {r['excluding_one_max']:7} "
          f"{r['median_half_width']:10.2%} {r['median_ratio'] - 1:+7.2%} {r['drift_range']:7.1%} {r['clock_mhz']:5.0f} "
          f"{r['power_watts']:5.0f} {r['discarded_samples']:9}  {'ok' if good else 'NOT OK'}")
sys.exit(bad > 0)
PYTHON
exit $failed
