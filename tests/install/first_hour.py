#!/usr/bin/env python3
"""first_hour.py --bin DIRECTORY: what README.md promises somebody new, in an empty folder with kernels that are not ours: a
C++ stencil with five parameters and a rule, a CUDA kernel with a template type and a text parameter (on a machine without a
GPU it is checked and counted, and the refusal says what to do), and a kernel with NumPy. Only commands and options that
README.md names are used. Each step prints its time; one that fails without saying what to do ends the script with 1.
"""

import argparse
import array
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SECONDS_MAX = 900  # of one command; a hang, not a judgement of speed

STENCIL = """// Five points, on one core.
#include <algorithm>

extern "C" void stencil(const float* in, float* out, int nx, int ny) {
  const auto point = [&](int x, int y) {
    const float* p = in + static_cast<long>(y) * nx + x;
    out[static_cast<long>(y) * nx + x] = CENTER_FIRST ? 0.5f * p[0] + 0.125f * ((p[-1] + p[1]) + (p[-nx] + p[nx]))
                                                      : 0.125f * ((p[-1] + p[1]) + (p[-nx] + p[nx])) + 0.5f * p[0];
  };
  std::fill(out, out + static_cast<long>(nx) * ny, 0.0f);
  for (int y0 = 1; y0 < ny - 1; y0 += TILE_Y)
    for (int x0 = 1; x0 < nx - 1; x0 += TILE_X) {
      const int y1 = std::min(y0 + TILE_Y, ny - 1), x1 = std::min(x0 + TILE_X, nx - 1);
#if ORDER_rows
      for (int y = y0; y < y1; ++y)
        for (int x = x0; x < x1; x += STEP)
          for (int s = 0; s < STEP; ++s)
            if (x + s < x1) point(x + s, y);
#else
      for (int x = x0; x < x1; x += STEP)
        for (int y = y0; y < y1; ++y)
          for (int s = 0; s < STEP; ++s)
            if (x + s < x1) point(x + s, y);
#endif
    }
}

extern "C" void stencil_reference(const float* in, float* out, int nx, int ny) {
  for (int y = 0; y < ny; ++y)
    for (int x = 0; x < nx; ++x) {
      const float* p = in + static_cast<long>(y) * nx + x;
      const bool inside = x > 0 && y > 0 && x < nx - 1 && y < ny - 1;
      out[static_cast<long>(y) * nx + x] = inside ? 0.5f * p[0] + 0.125f * (p[-1] + p[1] + p[-nx] + p[nx]) : 0.0f;
    }
}
"""
STENCIL_DEFINITION = """display_name: "stencil"
language: HOST_CXX
sources { path: "stencil.cc" }
dims { name: "nx" default_value: 512 min: 3 lookup: LOG }
dims { name: "ny" default_value: 512 min: 3 lookup: LOG }
parameters { name: "TILE_X" values: [32, 128, 512] }
parameters { name: "TILE_Y" values: [8, 64, 512] }
parameters { name: "STEP" values: [1, 4, 8] }
parameters { name: "ORDER" values: ["rows", "columns"] }
parameters { name: "CENTER_FIRST" values: [true, false] }
constraints { expression: "TILE_X * TILE_Y <= 65536 and TILE_X % STEP == 0" reason: "a tile fits the cache" }
arguments { name: "in" buffer { data_type: F32 length: "nx * ny" access: IN } }
arguments { name: "out" buffer { data_type: F32 length: "nx * ny" access: OUT } }
arguments { name: "nx" scalar { data_type: I32 value: "nx" } }
arguments { name: "ny" scalar { data_type: I32 value: "ny" } }
launches { kernel { entry: "stencil" arguments: ["in", "out", "nx", "ny"] } }
reference { steps { kernel { entry: "stencil_reference" arguments: ["in", "out", "nx", "ny"] } } }
flops: "6 * nx * ny"
"""
COPY = """template <typename Word>
__global__ void copy(const float* x, float* y, int n) {
  const int count = n / (sizeof(Word) / sizeof(float));
  const Word* from = reinterpret_cast<const Word*>(x);
  Word* to = reinterpret_cast<Word*>(y);
#if ORDER_strided
  for (int i = blockIdx.x * BLOCK + threadIdx.x; i < count; i += gridDim.x * BLOCK) to[i] = from[i];
#else
  const int each = (count + gridDim.x * BLOCK - 1) / (gridDim.x * BLOCK);
  const int first = (blockIdx.x * BLOCK + threadIdx.x) * each;
  for (int i = first; i < min(first + each, count); ++i) to[i] = from[i];
#endif
}

extern "C" __global__ void copy_reference(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
"""
COPY_DEFINITION = """display_name: "copy"
language: CUDA
sources { path: "copy.cu" }
dims { name: "N" default_value: 4194304 min: 4 lookup: LOG }
parameters { name: "WORD" values: ["float", "float2", "float4"] }
parameters { name: "ORDER" values: ["strided", "chunked"] }
parameters { name: "BLOCK" values: [128, 256, 512] }
constraints { expression: "N % 4 == 0" reason: "whole words" }
arguments { name: "x" buffer { data_type: F32 length: "N" access: IN } }
arguments { name: "y" buffer { data_type: F32 length: "N" access: OUT } }
arguments { name: "n" scalar { data_type: I32 value: "N" } }
launches { kernel { entry: "copy<WORD>" grid: "4 * device.sm_count" block: "BLOCK" arguments: ["x", "y", "n"] } }
reference { steps { kernel { entry: "copy_reference" grid: "ceil_div(N, 256)" block: 256 arguments: ["x", "y", "n"] } } }
tolerance { atol: 0 rtol: 0 }
bytes: "8 * N"
"""
ROWS = '''import numpy


def make_run_and_gt(config):
    x = numpy.random.default_rng(config.seed).standard_normal((config["M"], config["N"]))
    y = numpy.empty(config["M"])

    def run():
        for first in range(0, config["M"], config["ROWS"]):
            numpy.sum(x[first:first + config["ROWS"]], axis=1, out=y[first:first + config["ROWS"]])

    run.outputs = (y,)
    return run, numpy.array([numpy.sum(row) for row in x])
'''
ROWS_DEFINITION = """display_name: "rows"
language: PYTHON
python { device: HOST }
sources { path: "rows.py" }
dims { name: "M" default_value: 512 }
dims { name: "N" default_value: 1000 }
parameters { name: "ROWS" values: [8, 64, 512] }
tolerance { atol: 1e-9 rtol: 1e-9 }
"""


class Failed(Exception):
    """A step that is not as README.md says."""


class Noisy(Exception):
    """No config could be measured well enough; the part ends."""


class Newcomer:
    def __init__(self, programs, home):
        self.home = home
        self.environment = {"HOME": str(home), "LANG": "C.UTF-8", "PATH": f"{programs}:{os.environ['PATH']}",
                            "XDG_DATA_HOME": str(home / "data"), "XDG_RUNTIME_DIR": str(home / "runtime")}
        (home / "runtime").mkdir(mode=0o700)

    def step(self, folder, *words, code=0, says=()):
        """Runs a command as README.md has it. One that fails must say why and name a command or an option."""
        line = "tunefarm " + " ".join(map(str, words))
        self.check_readme(words)
        begin = time.monotonic()
        done = subprocess.run(["tunefarm", *map(str, words)], cwd=self.home / folder, env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS_MAX)
        print(f"{time.monotonic() - begin:7.2f} s  {folder + '$' if folder else '$'} {line}  -> {done.returncode}", flush=True)
        output = done.stdout + done.stderr
        if code is None:
            return output  # It reports what it finds.
        if done.returncode == 5 and words[0] in ("tune", "run") and re.search(r"\bNOISY\b", output):
            print("          the machine is too noisy to measure here: nothing is kept")
            raise Noisy
        if done.returncode != code:
            raise Failed(f"{line} ended with {done.returncode}, not with {code}:\n{output}")
        for text in says:
            if not re.search(text, output):
                raise Failed(f"{line} does not say {text!r}:\n{output}")
        if code != 0 and not re.search(r"tunefarm \w|--\w|:\d+:\d+: ", output):
            raise Failed(f"{line} fails without saying what to do:\n{output}")
        return output

    @staticmethod
    def check_readme(words):
        command = " ".join(word for word in words[:2] if re.fullmatch(r"[a-z]+", str(word))) or words[0]
        known = [command, str(words[0])] if words[0] != "kernels" else [command]
        if not any(f"tunefarm {text}" in README for text in known):
            raise Failed(f"README.md does not name tunefarm {command}")
        for word in words:
            if str(word).startswith("--") and str(word) not in README:
                raise Failed(f"README.md does not name {word}")

    def write(self, folder, **files):
        (self.home / folder).mkdir(exist_ok=True)
        for name, text in files.items():
            (self.home / folder / name.replace("__", ".")).write_text(text)


def stencil(me):
    """C++ for the CPU."""
    me.write("stencil", stencil__cc=STENCIL)
    me.step("stencil", "kernels", "new", "stencil.cc", says=[r"Wrote kernel\.pbtxt"])
    me.step("stencil", "kernels", "check", ".", says=["OK"])
    # Slips are found all at once, each with its place and what was meant.
    slips = STENCIL_DEFINITION.replace("TILE_X % STEP", "TILE_X % STP").replace('"nx * ny" access: OUT', '"nx * nz" access: OUT')
    me.write("stencil", kernel__pbtxt=slips)
    me.step("stencil", "kernels", "check", ".", code=2,
            says=[r"kernel\.pbtxt:11:\d+: .*did you mean 'STEP'", r"kernel\.pbtxt:13:\d+: .*unknown name 'nz'"])
    me.write("stencil", kernel__pbtxt=STENCIL_DEFINITION.replace("data_type: F32", "data_type: FP32"))
    me.step("stencil", "kernels", "check", ".", code=2, says=["did you mean 'F32'"])
    me.write("stencil", kernel__pbtxt=STENCIL_DEFINITION)
    me.step("stencil", "kernels", "check", ".", says=["OK"])
    me.step("stencil", "help", "expressions", says=["ceil_div"])
    me.step("stencil", "kernels", "space", ".", "--device", "host", says=["a tile fits the cache"])
    me.step("stencil", "best", "stencil", code=3, says=["tunefarm tune"])
    me.step("stencil", "tune", ".", "--policy", "fast", "--max-trials", 20, says=["CENTER_FIRST="])
    me.step("stencil", "best", "stencil", says=["EXACT"])
    me.step("stencil", "best", "stencil", "--format", "defines", says=["#define TILE_X "])
    me.step("stencil", "results", 1, "--analyze")
    me.step("stencil", "run", ".", "TILE_X=32", "STEP=1", says=["OK"])
    # Data of one's own, which must fit the dims.
    (me.home / "stencil" / "in.bin").write_bytes(array.array("f", range(64 * 64)).tobytes())
    own = ("tune", ".", "--input", "in=in.bin", "--policy", "fast", "--max-trials", 20)
    me.step("stencil", *own, code=2, says=["have 16384 bytes, and buffer 'in' has 262144 elements of f32"])
    me.step("stencil", *own, "--dim", "nx=64", "--dim", "ny=64", says=["CENTER_FIRST=", "tunefarm best kernels/"])


def copy(me):
    """CUDA, with or without a GPU."""
    me.write("copy", copy__cu=COPY)
    me.step("copy", "kernels", "new", "copy.cu", says=["guessed from the source"])
    me.step("copy", "kernels", "check", ".", says=["OK"])
    me.write("copy", kernel__pbtxt=COPY_DEFINITION)
    me.step("copy", "kernels", "check", ".", says=["OK"])
    if "--compile" in README:
        compile_it = ("kernels", "check", ".", "--compile", "--device", "H100")
        if "without a CUDA Toolkit" in me.step("copy", "doctor", code=None):
            me.step("copy", *compile_it, code=1, says=["build it with CUDA Toolkit"])
        else:
            me.step("copy", *compile_it, says=["compiled"])
    me.step("copy", "kernels", "space", ".", "--device", "H100", says=["18  valid"])
    if re.search(r"device .*sm_\d", me.step("copy", "doctor", code=None, says=["ok "])):
        me.step("copy", "tune", ".", "--policy", "fast", "--max-trials", 20, says=["WORD="])
    else:
        me.step("copy", "tune", ".", code=3, says=["CUDA", "tunefarm doctor|--device|--compile"])


def rows(me):
    """Python, by an interpreter that has NumPy."""
    has_numpy = [path for path in (shutil.which("python3"), "/usr/bin/python3")
                 if path and subprocess.run([path, "-c", "import numpy"], capture_output=True).returncode == 0]
    if not has_numpy:
        print("          no python3 with NumPy here: the kernel in Python is left out")
        return
    me.write("rows", rows__py=ROWS)
    me.step("rows", "kernels", "new", "rows.py", says=["guessed from the source"])
    me.step("rows", "kernels", "check", ".", says=["OK"])
    me.write("rows", kernel__pbtxt=ROWS_DEFINITION)
    me.step("rows", "kernels", "check", ".", says=["OK"])
    if has_numpy[0] != shutil.which("python3"):
        # As the message of a module that is missing says.
        me.step("rows", "run", ".", code=5, says=["No module named 'numpy'", "--python"])
        me.step("rows", "stop")
        me.step("rows", "tune", ".", "--policy", "fast", "--python", has_numpy[0], says=["ROWS="])
    else:
        me.step("rows", "tune", ".", "--policy", "fast", says=["ROWS="])
    me.step("rows", "best", "rows", says=["EXACT"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path, help="the folder of the programs")
    programs = parser.parse_args().bin.resolve()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tunefarm-hour.", ignore_cleanup_errors=True) as folder:
        # Workers run under other users.
        pathlib.Path(folder).chmod(0o755)
        me = Newcomer(programs, pathlib.Path(folder))
        try:
            for part in (stencil, copy, rows):
                print(f"-- {part.__doc__}")
                with contextlib.suppress(Noisy):
                    part(me)
        except Failed as failure:
            print(f"first_hour: {failure}", file=sys.stderr)
            return 1
        finally:
            subprocess.run(["tunefarm", "stop", "--now"], env=me.environment, capture_output=True, timeout=SECONDS_MAX)
    print(f"{time.monotonic() - begin:7.2f} s  all steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
