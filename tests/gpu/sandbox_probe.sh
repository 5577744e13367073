#!/usr/bin/env bash
# sandbox_probe.sh BUNDLE_DIRECTORY OUT_DIRECTORY
#
# What the workers' sandbox reaches on a machine with a GPU, from a bundle: the level, a CUDA kernel tuned under it, the
# hostile examples, what a run worker sees and may do, what all that costs when a worker starts. Prints a short table
# last; whole results go to OUT_DIRECTORY. Ends with 1 if anything is not as it must be.
set -euo pipefail
exec python3 "$(dirname "${BASH_SOURCE[0]}")/sandbox_probe.py" "$@"
