#!/usr/bin/env bash
# demo.sh BIN_DIRECTORY
#
# Tunes a built-in kernel through the private daemon: CUDA where there is a GPU, else C++ on the CPU. Then restarts the
# daemon and asks it for the winner. The results stay in the data directory that every later command uses; a second run
# reuses them.
set -euo pipefail

bin=$1
# A daemon that somebody else runs is neither tuned on nor stopped.
server=${TUNEFARM_SERVER:-}
unset TUNEFARM_SERVER

show() { printf '\n$ tunefarm %s\n' "$*" >&2; }
tunefarm() { show "$@"; "$bin/tunefarm" "$@"; }

kernel=matmul_host
device=host
source=my.cc
if "$bin/tunefarm" devices --output json | grep -q DEVICE_KIND_CUDA; then
  kernel=matmul
  device=cuda
  source=my.cu
fi

tunefarm devices
tunefarm kernels space "$kernel" --device "$device"
tunefarm tune "$kernel" --device "$device" --policy fast
printf '\nNow the daemon is restarted; the answer comes from the database.\n' >&2
tunefarm stop
tunefarm best "$kernel" --device "$device" --exact
# The newest is the first.
job=$("$bin/tunefarm" jobs list --output csv | sed -n '2s/,.*//p')

printf '\nThe results are kept. Next:\n\n' >&2
# The reader's shell expands it.
# shellcheck disable=SC2016
printf '  export PATH=%q:"$PATH"\n' "$bin" >&2
[ -z "$server" ] || printf '  unset TUNEFARM_SERVER          # else commands ask the daemon at %s\n' "$server" >&2
printf '  tunefarm best %-16s # the answer again\n' "$kernel" >&2
printf '  tunefarm results %-13s # which parameters matter, which values are good\n' "$job --analyze" >&2
printf '  tunefarm kernels new %-9s # a kernel of your own\n' "$source" >&2
printf '\nOr look at it in a browser:\n' >&2
tunefarm dashboard || true  # where npm was missing it says so
