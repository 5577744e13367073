#!/usr/bin/env python3
"""Honest kernels that look odd: threads, as many threads as there may be, tables made at the first call, memory of their own, sorting, scatters in place,
parts of the output left alone. None of their configs may be refused: the other side of cheats.py.

    honest.py --bin build/release/bin [--warm-cache] [--only NAME | --drawn N] [--quiet]

tunes each family, all configs, and prints a row for each with the outcomes. --drawn N: so many families (sample.py), all of
them with TUNEFARM_NIGHTLY=1. Exit status 1 where a config is refused."""

import argparse
import collections
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CONFIGS_MIN = 200
HEADER = """#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>
"""


def buffer(name, data_type, length, access="IN", fill="", init="", restore="", **_):
    extra = (f" fill {{ {fill} }}" if fill else "") + (f" init: INIT_{init}" if init else "") + \
        (f" restore: RESTORE_{restore}" if restore else "")
    return (f'arguments {{ name: "{name}" buffer {{ data_type: DATA_TYPE_{data_type} length: "{length}" '
            f'access: ACCESS_{access}{extra} }} }}\n')


class Family:
    """`parameters`: name -> values; `arguments`: texts of buffer(). `body` and `reference` are functions' bodies; the
    reference's is the body with the default config where it is not given."""

    def __init__(self, parameters, arguments, signature, body, reference=None, helpers="", tolerance="", sizes=(1000,)):
        self.parameters = parameters
        self.arguments = arguments
        self.signature = signature
        self.body = body
        self.reference = reference
        self.helpers = helpers
        self.tolerance = tolerance
        self.sizes = sizes

    def write(self, folder, name):
        folder.mkdir()
        source = HEADER + self.helpers + f'extern "C" void work({self.signature}) {{\n{self.body}\n}}\n'
        if self.reference is not None:
            source += f'extern "C" void plain({self.signature}) {{\n{self.reference}\n}}\n'
        (folder / "work.cc").write_text(source)
        passed = ", ".join(f'"{text.split(chr(34))[1]}"' for text in self.arguments)
        step = 'kernel { entry: "%s" arguments: [' + passed + "] }"
        text = f'display_name: "honest_{name}"\nlanguage: LANGUAGE_HOST_CXX\nsources {{ path: "work.cc" }}\n'
        text += 'compile_options: ["-O2"]\n'
        text += f'dims {{ name: "N" default_value {{ int_value: {self.sizes[0]} }} bind: BIND_COMPILE }}\n'
        for parameter, values in self.parameters.items():
            kind = "strings" if isinstance(values[0], str) else "ints"
            listed = ", ".join(f'"{value}"' if kind == "strings" else str(value) for value in values)
            text += f'parameters {{ name: "{parameter}" values {{ {kind}: [{listed}] }} }}\n'
        text += "".join(self.arguments)
        text += f"launches {{ {step % 'work'} }}\n"
        text += f"reference {{ steps {{ {step % ('work' if self.reference is None else 'plain')} }} }}\n"
        text += self.tolerance
        (folder / "kernel.pbtxt").write_text(text)


X = buffer("x", "F32", "N")
Y = buffer("y", "F32", "N", "OUT")
XY = "const float* x, float* y"
LOOSE = "tolerance { atol: 1e-3 rtol: 1e-3 }\n"
UNIFORM = "uniform { low: 0 high: 1 }"

FAMILIES = {
    "scale": Family({"B": [1, 2, 4, 8, 16, 32, 64]}, [X, Y], XY,
                    "for (long i = 0; i < N; i += B) for (long j = i; j < std::min<long>(N, i + B); ++j) y[j] = 3 * x[j];",
                    sizes=(1000, 100000)),
    "sum": Family({"WAYS": [1, 2, 4, 8, 16]}, [X, buffer("y", "F32", "1", "OUT")], XY,
                  "float s[WAYS] = {}; for (long i = 0; i < N; ++i) s[i % WAYS] += x[i]; y[0] = 0; for (float v : s) y[0] += v;",
                  tolerance=LOOSE, sizes=(1000, 33)),
    "threads": Family({"T": [1, 2, 3, 4]}, [X, Y], XY, """
  std::vector<std::thread> workers;
  for (int t = 0; t < T; ++t) workers.emplace_back([=] { for (long i = N * t / T; i < N * (t + 1) / T; ++i) y[i] = x[i] + 1; });
  for (auto& worker : workers) worker.join();""", sizes=(20000,)),
    "idle_threads": Family({"T": [1000, 1, 8, 60]}, [X, Y], XY, """
  static const bool made = [] {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 1 << 16);
    pthread_t thread;
    const auto sleep = [](void*) -> void* { for (;;) pause(); };
    for (int t = 0; t < T && pthread_create(&thread, &attributes, sleep, nullptr) == 0; ++t) {}
    return true;
  }();
  for (long r = 0; r < 100; ++r) for (long i = 0; i < N; ++i) y[i] = x[i] * made + r;""",
                           helpers="#include <pthread.h>\n#include <unistd.h>\n", sizes=(10000,)),
    "table": Family({"BITS": [4, 6, 8, 10, 12]}, [X, Y], XY, """
  static const std::vector<float> table = [] { std::vector<float> t(1 << BITS); for (size_t i = 0; i < t.size(); ++i) t[i] = i * 2.0f / t.size(); return t; }();
  for (long i = 0; i < N; ++i) y[i] = x[i] * (table[table.size() / 2] + 1);""", sizes=(1000, 33)),
    "heap": Family({"PIECE": [16, 64, 256, 1024, 4096]}, [X, Y], XY, """
  for (long i = 0; i < N; i += PIECE) {
    const long n = std::min<long>(PIECE, N - i);
    auto copy = std::make_unique<float[]>(n);
    std::copy_n(x + i, n, copy.get());
    for (long j = 0; j < n; ++j) y[i + j] = copy[j] * copy[j];
  }""", sizes=(1000, 33)),
    "thread_local_scratch": Family({"PIECE": [8, 32, 128, 512]}, [X, Y], XY, """
  static thread_local std::vector<float> scratch(PIECE);
  for (long i = 0; i < N; i += PIECE) {
    const long n = std::min<long>(PIECE, N - i);
    for (long j = 0; j < n; ++j) scratch[j] = x[i + j] - 1;
    std::copy_n(scratch.data(), n, y + i);
  }""", sizes=(1000, 33)),
    "sort": Family({"WAY": ["std_sort", "heap_sort", "stable"]},
                   [buffer("x", "I32", "N", fill="uniform { low: -1000 high: 1000 }"), buffer("y", "I32", "N", "OUT")],
                   "const int32_t* x, int32_t* y", """
  std::copy_n(x, N, y);
#if defined(WAY_std_sort)
  std::sort(y, y + N);
#elif defined(WAY_heap_sort)
  std::make_heap(y, y + N); std::sort_heap(y, y + N);
#else
  std::stable_sort(y, y + N);
#endif""", reference="std::copy_n(x, N, y); std::sort(y, y + N);", sizes=(1000, 33)),
    "histogram": Family({"COPIES": [1, 2, 4, 8]},
                        [buffer("x", "U8", "N"), buffer("y", "I32", "256", "OUT", init="ZERO", restore="PER_SAMPLE")],
                        "const uint8_t* x, int32_t* y", """
  int32_t counts[COPIES][256] = {};
  for (long i = 0; i < N; ++i) ++counts[i % COPIES][x[i]];
  for (int c = 0; c < COPIES; ++c) for (int b = 0; b < 256; ++b) y[b] += counts[c][b];""", sizes=(5000,)),
    "scan": Family({"BLOCK": [1, 4, 16, 64, 256]},
                   [buffer("x", "I64", "N", fill="uniform { low: -9 high: 9 }"), buffer("y", "I64", "N", "OUT")],
                   "const int64_t* x, int64_t* y", """
  int64_t base = 0;
  for (long i = 0; i < N; i += BLOCK) {
    int64_t s = base;
    for (long j = i; j < std::min<long>(N, i + BLOCK); ++j) y[j] = s += x[j];
    base = s;
  }""", sizes=(1000, 33)),
    "gather": Family({"U": [1, 2, 4, 8]},
                     [X, buffer("at", "I32", "N", fill="uniform { low: 0 high: 999 }"), Y],
                     "const float* x, const int32_t* at, float* y",
                     "long i = 0; for (; i + U <= N; i += U) for (int u = 0; u < U; ++u) y[i + u] = x[at[i + u]]; for (; i < N; ++i) y[i] = x[at[i]];"),
    "scatter_add": Family({"U": [1, 2, 4, 8]},
                          [X, buffer("at", "I32", "N", fill="uniform { low: 0 high: 999 }"),
                           buffer("y", "F32", "N", "INOUT", restore="PER_SAMPLE")],
                          "const float* x, const int32_t* at, float* y",
                          "for (long i = 0; i < N; i += U) for (long j = i; j < std::min<long>(N, i + U); ++j) y[at[j]] += x[j];",
                          tolerance=LOOSE),
    "in_place": Family({"B": [1, 8, 64, 512]}, [buffer("y", "F32", "N", "INOUT", restore="PER_SAMPLE")], "float* y",
                       "for (long i = 0; i < N; i += B) for (long j = i; j < std::min<long>(N, i + B); ++j) y[j] = y[j] * 0.5f + 1;", sizes=(1000, 33)),
    "in_place_kept": Family({"B": [1, 16, 256]}, [buffer("y", "F32", "N", "INOUT")], "float* y",
                            "for (long i = 0; i < N; i += B) for (long j = i; j < std::min<long>(N, i + B); ++j) y[j] = std::min(y[j], 0.25f);"),
    "even_only": Family({"B": [2, 8, 32, 128]}, [X, Y], XY,
                        "for (long i = 0; i < N; i += B) for (long j = i; j < std::min<long>(N, i + B); j += 2) y[j] = x[j];", sizes=(1000, 33)),
    "nothing_for_some": Family({"FIRST": [0, 1]}, [X, buffer("y", "F32", "N", "OUT", init="ZERO")], XY,
                               "for (long i = 0; i < N; ++i) if (x[i] > 3) y[i] = x[i];"),
    "search": Family({"STEP": [1, 2, 4, 8, 16]},
                     [buffer("x", "F32", "N", fill=UNIFORM), buffer("y", "I64", "1", "OUT")], "const float* x, int64_t* y", """
  y[0] = -1;
  for (long i = 0; i < N && y[0] < 0; i += STEP)
    for (long j = i; j < std::min<long>(N, i + STEP); ++j) if (x[j] > 0.99f) { y[0] = j; break; }"""),
    "one_element": Family({"P": [1, 2, 3]}, [buffer("x", "F64", "1"), buffer("y", "F64", "1", "OUT")],
                          "const double* x, double* y", "y[0] = x[0] + 1;"),
    "counting": Family({"B": [1, 4, 16]}, [buffer("y", "I32", "N", "OUT")], "int32_t* y",
                       "for (int i = 0; i < N; i += B) for (int j = i; j < std::min<int>(N, i + B); ++j) y[j] = j;"),
    "vector_type": Family({"W": [2, 4, 8, 16]}, [X, Y], XY, """
  typedef float Lanes __attribute__((vector_size(4 * W), aligned(4)));
  long i = 0;
  for (; i + W <= N; i += W) { Lanes v; std::memcpy(&v, x + i, sizeof(v)); v = v * v; std::memcpy(y + i, &v, sizeof(v)); }
  for (; i < N; ++i) y[i] = x[i] * x[i];""", sizes=(1000, 33)),
    "transpose": Family({"TILE": [1, 2, 4, 8, 16, 32, 64]},
                        [buffer("x", "F32", "N * N"), buffer("y", "F32", "N * N", "OUT")], XY, """
  for (long a = 0; a < N; a += TILE) for (long b = 0; b < N; b += TILE)
    for (long i = a; i < std::min<long>(N, a + TILE); ++i) for (long j = b; j < std::min<long>(N, b + TILE); ++j) y[j * N + i] = x[i * N + j];""",
                        sizes=(100,)),
    "stencil": Family({"TX": [8, 16, 64], "TY": [1, 4, 16]},
                      [buffer("x", "F32", "N * N"), buffer("y", "F32", "N * N", "OUT")], XY, """
  const auto at = [x](long i, long j) { return x[std::clamp<long>(i, 0, N - 1) * N + std::clamp<long>(j, 0, N - 1)]; };
  for (long a = 0; a < N; a += TY) for (long b = 0; b < N; b += TX)
    for (long i = a; i < std::min<long>(N, a + TY); ++i) for (long j = b; j < std::min<long>(N, b + TX); ++j)
      y[i * N + j] = at(i, j) + at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1);""", sizes=(64,)),
    "product": Family({"BM": [4, 16, 32], "BK": [4, 16, 64]},
                      [buffer("a", "F32", "N * N"), buffer("b", "F32", "N * N"), buffer("c", "F32", "N * N", "OUT")],
                      "const float* a, const float* b, float* c", """
  std::fill_n(c, N * N, 0.0f);
  for (long i0 = 0; i0 < N; i0 += BM) for (long k0 = 0; k0 < N; k0 += BK)
    for (long i = i0; i < std::min<long>(N, i0 + BM); ++i) for (long k = k0; k < std::min<long>(N, k0 + BK); ++k)
      for (long j = 0; j < N; ++j) c[i * N + j] += a[i * N + k] * b[k * N + j];""", tolerance=LOOSE, sizes=(64, 33)),
    "softmax": Family({"U": [1, 2, 4, 8, 16]}, [buffer("x", "F32", "N * 64"), buffer("y", "F32", "N * 64", "OUT")], XY, """
  for (long r = 0; r < N; ++r) {
    float peak = -1e30f, sum = 0;
    for (int i = 0; i < 64; ++i) peak = std::max(peak, x[r * 64 + i]);
    for (int i = 0; i < 64; i += U) for (int u = i; u < i + U; ++u) sum += y[r * 64 + u] = std::exp(x[r * 64 + u] - peak);
    for (int i = 0; i < 64; ++i) y[r * 64 + i] /= sum;
  }""", tolerance=LOOSE, sizes=(50,)),
    "fft": Family({"LEAF": [1, 2, 4, 8]}, [buffer("x", "F64", "2048"), buffer("y", "F64", "2048", "OUT")],
                  "const double* x, double* y", "transform(x, y, 1024, 2);", helpers="""
static void transform(const double* x, double* y, int n, int stride) {
  if (n <= LEAF) {
    for (int k = 0; k < n; ++k) {
      y[2 * k] = y[2 * k + 1] = 0;
      for (int t = 0; t < n; ++t) {
        const double angle = -2 * M_PI * k * t / n, c = std::cos(angle), s = std::sin(angle);
        y[2 * k] += x[t * stride] * c - x[t * stride + 1] * s;
        y[2 * k + 1] += x[t * stride] * s + x[t * stride + 1] * c;
      }
    }
    return;
  }
  std::vector<double> half(2 * n);
  transform(x, half.data(), n / 2, 2 * stride);
  transform(x + stride, half.data() + n, n / 2, 2 * stride);
  for (int k = 0; k < n / 2; ++k) {
    const double angle = -2 * M_PI * k / n, c = std::cos(angle), s = std::sin(angle);
    const double re = half[n + 2 * k] * c - half[n + 2 * k + 1] * s, im = half[n + 2 * k] * s + half[n + 2 * k + 1] * c;
    y[2 * k] = half[2 * k] + re; y[2 * k + 1] = half[2 * k + 1] + im;
    y[2 * (k + n / 2)] = half[2 * k] - re; y[2 * (k + n / 2) + 1] = half[2 * k + 1] - im;
  }
}
""", tolerance="tolerance { atol: 1e-9 rtol: 1e-9 }\n"),
    "convolution": Family({"U": [1, 2, 4, 8, 16]}, [X, buffer("w", "F32", "17"), Y], "const float* x, const float* w, float* y", """
  for (long i = 0; i < N; ++i) {
    float s = 0;
    for (int k = 0; k < 17; k += U)
      for (int j = k; j < std::min(17, k + U); ++j) s += i + j - 8 >= 0 && i + j - 8 < N ? x[i + j - 8] * w[j] : 0;
    y[i] = s;
  }""", tolerance=LOOSE),
    "half": Family({"B": [1, 8, 64, 512]}, [buffer("x", "BF16", "N"), buffer("y", "BF16", "N", "OUT")],
                   "const uint16_t* x, uint16_t* y",
                   "for (long i = 0; i < N; i += B) for (long j = i; j < std::min<long>(N, i + B); ++j) y[j] = x[j] ^ 0x8000;", sizes=(1000, 33)),
    "copy": Family({"WAY": ["memcpy_all", "std_copy", "loop"], "PIECES": [1, 4, 16]}, [X, Y], XY, """
  for (int p = 0; p < PIECES; ++p) {
    const long first = N * p / PIECES, last = N * (p + 1) / PIECES;
#if defined(WAY_memcpy_all)
    std::memcpy(y + first, x + first, (last - first) * 4);
#elif defined(WAY_std_copy)
    std::copy(x + first, x + last, y + first);
#else
    for (long i = first; i < last; ++i) y[i] = x[i];
#endif
  }"""),
    "random_walk": Family({"STEPS_AT_ONCE": [1, 2, 4, 8]}, [buffer("seed", "U32", "N"), buffer("y", "U32", "N", "OUT")],
                          "const uint32_t* seed, uint32_t* y", """
  for (long i = 0; i < N; ++i) {
    uint32_t s = seed[i] | 1;
    for (int step = 0; step < 64; step += STEPS_AT_ONCE) for (int k = 0; k < STEPS_AT_ONCE; ++k) { s ^= s << 13; s ^= s >> 17; s ^= s << 5; }
    y[i] = s;
  }""", sizes=(1000, 33)),
    "exceptions": Family({"LIMIT": [1, 10, 100]}, [X, Y], XY,
                         "for (long i = 0; i < N; ++i) try { if (i % LIMIT == 0) throw 1; y[i] = x[i] * 1; } catch (int) { y[i] = x[i]; }", sizes=(1000, 33)),
    "two_outputs": Family({"FUSED": [0, 1]}, [X, Y, buffer("z", "I32", "N", "OUT")], "const float* x, float* y, int32_t* z", """
  if (FUSED) { for (long i = 0; i < N; ++i) { y[i] = x[i] * 2; z[i] = x[i] > 0; } }
  else { for (long i = 0; i < N; ++i) y[i] = x[i] * 2; for (long i = 0; i < N; ++i) z[i] = x[i] > 0; }"""),
    "big_stack": Family({"KIB": [16, 64, 256, 1024]}, [X, Y], XY, """
  volatile char stack[KIB * 1024];
  for (long i = 0; i < KIB * 1024; i += 4096) stack[i] = 1;
  for (long i = 0; i < N; ++i) y[i] = x[i] * stack[0];"""),
    "denormals": Family({"B": [1, 32]}, [X, Y], XY, "for (long i = 0; i < N; i += B) for (long j = i; j < std::min<long>(N, i + B); ++j) y[j] = x[j] * 1e-39f;",
                        tolerance="tolerance { atol: 1e-44 rtol: 1e-5 }\n"),
}


def tune(farm, farm_module, name, family, size, warm_cache):
    """Counts of outcomes of the family's trials, how many configs those are, and a message of one that was refused."""
    with tempfile.TemporaryDirectory(prefix="tunefarm-honest.") as parent:
        folder = pathlib.Path(parent) / name
        family.write(folder, name)
        job = farm.run("submit", "--quiet", folder, "--policy", "fast", "--dim", f"N={size}", "--measure", "no_reuse=true",
                       "--measure", "noisy_relative_half_width=-1", *(["--warm-cache"] if warm_cache else [])).strip()
        farm.cli("jobs", "watch", job, check=False)
    trials = farm.trials(job)
    refused = next((trial.get("message", "") for trial in trials if farm_module.outcome(trial) != "OK"), "")
    configs = {str(sorted(farm_module.config(trial).items())) for trial in trials}
    return collections.Counter(farm_module.outcome(trial) for trial in trials), len(configs), refused


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", default=os.environ.get("TUNEFARM_BIN_DIR"), help="folder of the programs")
    parser.add_argument("--warm-cache", action="store_true", help="measure with warm caches")
    parser.add_argument("--only", metavar="NAME", help="run one family")
    parser.add_argument("--drawn", metavar="N", type=int, default=len(FAMILIES), help="run N families")
    parser.add_argument("--quiet", action="store_true", help="print failures and the sum only")
    arguments = parser.parse_args()
    if not arguments.bin:
        sys.exit("honest.py: --bin names the folder of the programs")
    if arguments.only not in (None, *FAMILIES):
        sys.exit(f"honest.py: there is no family {arguments.only}; there are {', '.join(FAMILIES)}")
    os.environ["TUNEFARM_BIN_DIR"] = arguments.bin
    os.environ.setdefault("TUNEFARM_SOURCE_DIR", str(HERE.parent.parent.parent))
    sys.path.insert(0, str(HERE.parent.parent / "e2e"))
    import farm as farm_module
    from cheats import make_farm_class
    from sample import drawn
    names = [arguments.only] if arguments.only else drawn(FAMILIES, arguments.drawn)
    configs, failed = 0, False
    with make_farm_class(farm_module, gpu=False)() as farm:
        farm.start()
        for name in names:
            family = FAMILIES[name]
            for size in family.sizes:
                outcomes, tried, refused = tune(farm, farm_module, name, family, size, arguments.warm_cache)
                if set(outcomes) == {"OK", "LOST"}:  # a machine that stood still for seconds: nothing is refused
                    outcomes, tried, refused = tune(farm, farm_module, name, family, size, arguments.warm_cache)
                configs += tried
                is_bad = set(outcomes) != {"OK"}
                failed = failed or is_bad
                if is_bad or not arguments.quiet:
                    print(f"{name:22} N={size:<7} {dict(outcomes)} {refused}", flush=True)
    print(f"{configs} configs of {len(names)} families")
    if len(names) == len(FAMILIES) and configs < CONFIGS_MIN:
        sys.exit(f"honest.py: {configs} configs are fewer than {CONFIGS_MIN}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
