"""Which part of a long table a run of a test takes: the same part each time; with TUNEFARM_ROTATING_SAMPLE=1 (continuous
integration) another one for each revision; with TUNEFARM_NIGHTLY=1 all of it. TUNEFARM_SAMPLE_SEED=N repeats a draw.

As a program it reads names from stdin, a line each, and prints those that are not in the half that is drawn."""

import os
import random
import subprocess
import sys


def _seed():
    if given := os.environ.get("TUNEFARM_SAMPLE_SEED"):
        return given
    if os.environ.get("TUNEFARM_ROTATING_SAMPLE") != "1":
        return "1"
    revision = subprocess.run(["git", "-C", os.path.dirname(__file__), "rev-parse", "HEAD"], capture_output=True, text=True,
                              check=False)
    return revision.stdout.strip() or "1"


def drawn(names, count, to=sys.stdout):
    """`count` of the names, in their order; says on `to` which draw that is."""
    names = list(names)
    if os.environ.get("TUNEFARM_NIGHTLY") == "1" or count >= len(names):
        return names
    seed = _seed()
    chosen = set(random.Random(seed).sample(names, count))
    print(f"{count} of {len(names)}: TUNEFARM_SAMPLE_SEED={seed} draws them again", file=to, flush=True)
    return [name for name in names if name in chosen]


if __name__ == "__main__":
    every = sys.stdin.read().split()
    taken = drawn(every, (len(every) + 1) // 2, to=sys.stderr)
    print("\n".join(name for name in every if name not in taken))
