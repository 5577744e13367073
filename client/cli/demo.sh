#!/usr/bin/env bash
# demo.sh BIN_DIRECTORY KERNELS_DIRECTORY
#
# Tunes a real kernel through the daemon: CUDA where there is a GPU, else C++ on the CPU. Then restarts the daemon and
# asks it for the winner. Uses a data directory of its own, so that it can be run again and again.
set -euo pipefail

bin=$1
export TUNEFARM_KERNELS=$2
TUNEFARM_DATA_DIR=$(mktemp -d "${TMPDIR:-/tmp}/tunefarm-demo.XXXXXX")
export TUNEFARM_DATA_DIR
unset TUNEFARM_SERVER

show() { printf '\n$ tunefarm %s\n' "$*" >&2; }
tunefarm() { show "$@"; "$bin/tunefarm" "$@"; }
cleanup() {
  "$bin/tunefarm" stop --now >/dev/null 2>&1 || true
  # The process that gets the lock knows that the daemon is gone and writes nothing more into what is being removed.
  flock -w 60 "$TUNEFARM_DATA_DIR/tunefarmd.lock" true 2>/dev/null || true
  rm -rf "$TUNEFARM_DATA_DIR"
}
trap cleanup EXIT

kernel=matmul_host
device=host
if "$bin/tunefarm" devices --output json | grep -q DEVICE_KIND_CUDA; then
  kernel=matmul
  device=cuda
fi

tunefarm devices
tunefarm kernels space "$kernel" --device "$device"
tunefarm tune "$kernel" --device "$device" --policy fast
printf '\nNow the daemon is restarted; the answer comes from the database.\n' >&2
tunefarm stop
tunefarm best "$kernel" --device "$device" --exact
