#include "client/cli/kernel_template.h"

#include <cctype>

#include "client/cli/sketch/definition_sketch.h"

namespace tunefarm::cli {
namespace {

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

constexpr char kDefinition[] =
    R"(# A kernel that tunefarm can tune. Everything here is data: names, values and expressions.
# Check it with:  tunefarm kernels check .        Tune it with:  tunefarm tune .

display_name: "@NAME@"
description: "Scales a vector; replace it with yours."
language: @LANGUAGE@

# The first source is compiled; others are headers that it may include.
@SOURCES@

# The problem: what a user of the kernel chooses. Passed at run time unless bind is COMPILE.
dims { name: "N" default_value: 1048576 lookup: LOG description: "elements" }

# The tunables: each becomes a macro of its name in the source.
@PARAMETERS@
# What must hold for a config to be tried: expressions in Python syntax (tunefarm help expressions).
constraints { expression: "@CONSTRAINT@" reason: "@REASON@" }

# Buffers and scalars by name. Inputs are filled with random numbers, or from a file: fill { file: "x.npy" }.
# Outputs are poisoned, then compared.
arguments { name: "x" buffer { data_type: F32 length: "N" access: IN } }
arguments { name: "y" buffer { data_type: F32 length: "N" access: OUT } }
arguments { name: "n" scalar { data_type: I32 value: "N" } }

# What is timed. Several launches run one after another.
launches {
  kernel {
    entry: "@NAME@"
@GRID@    arguments: ["x", "y", "n"]
  }
}

# What the outputs must equal: plain code that is surely right.
reference {
  steps {
    kernel {
      entry: "@NAME@_reference"
@REFERENCE_GRID@      arguments: ["x", "y", "n"]
    }
  }
}
tolerance { atol: 1e-6 rtol: 1e-6 }

# The work of one launch sequence, so that reports show GB/s and the distance to the device's limit.
flops: "N"
bytes: "8 * N"
)";

constexpr char kCudaSource[] = R"(// BLOCK_SIZE and ELEMENTS come from kernel.pbtxt, one value per config.

extern "C" __global__ void @NAME@(const float* x, float* y, int n) {
  const int first = (blockIdx.x * ELEMENTS) * BLOCK_SIZE + threadIdx.x;
#pragma unroll
  for (int e = 0; e < ELEMENTS; ++e) {
    const int i = first + e * BLOCK_SIZE;
    if (i < n) y[i] = 2.0f * x[i];
  }
}

extern "C" __global__ void @NAME@_reference(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
)";

constexpr char kHostSource[] = R"(// CHUNK and UNROLL come from kernel.pbtxt, one value per config.

constexpr int kUnroll = UNROLL;  // `#pragma GCC unroll` expands no macros.

extern "C" void @NAME@(const float* x, float* y, int n) {
  for (int start = 0; start < n; start += CHUNK) {
    const int end = start + CHUNK < n ? start + CHUNK : n;
#pragma GCC unroll kUnroll
    for (int i = start; i < end; ++i) y[i] = 2.0f * x[i];
  }
}

extern "C" void @NAME@_reference(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = 2.0f * x[i];
}
)";

constexpr char kPythonDefinition[] =
    R"(# A kernel that tunefarm can tune. Everything here is data: names, values and expressions.
# Check it with:  tunefarm kernels check .        Tune it with:  tunefarm tune .

display_name: "@NAME@"
description: "Scales a vector; replace it with yours."
language: PYTHON

# Where it runs: HOST, or CUDA for Triton, CuPy or torch on a GPU.
python { device: HOST }

# The first source is the module; it can import the others.
sources { path: "@SOURCE@" }

# The problem: what a user of the kernel chooses.
dims { name: "N" default_value: 1048576 lookup: LOG description: "elements" }

# The tunables. The module reads dims and parameters as config["NAME"].
parameters { name: "CHUNK" powers_of_two { first: 1024 last: 262144 } default_value: 16384 }

# What must hold for a config to be tried: expressions in Python syntax (tunefarm help expressions).
constraints { expression: "CHUNK <= N" reason: "no more than there is" }

# How close to the expected outputs is close enough.
tolerance { atol: 1e-6 rtol: 1e-6 }

# The work of one run, so that reports show GB/s and the distance to the device's limit.
flops: "N"
bytes: "8 * N"
)";

constexpr char kPythonSource[] = R"(import numpy as np


def make_run_and_gt(config):
    """Returns what is timed, and what each of its outputs must equal."""
    x = np.random.default_rng(config.seed).standard_normal(config["N"], dtype=np.float32)
    y = np.empty_like(x)
    chunk = config["CHUNK"]

    def run():
        for start in range(0, len(x), chunk):
            np.multiply(x[start:start + chunk], 2, out=y[start:start + chunk])

    run.outputs = (y,)
    return run, 2 * x
)";

}  // namespace

std::string KernelNameFrom(const std::string& stem) {
  std::string name;
  for (const char c : stem)
    name += std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::tolower(c)) : '_';
  if (name.empty() || !std::isalpha(static_cast<unsigned char>(name[0]))) name = "kernel_" + name;
  return name.substr(0, 50);
}

std::string KernelTemplate(const std::string& name, const std::string& source_file, bool is_cuda,
                           const std::vector<std::string>& headers) {
  std::string text = kDefinition;
  text = Replaced(text, "@LANGUAGE@", is_cuda ? "CUDA" : "HOST_CXX");
  text = Replaced(text, "@PARAMETERS@",
                  is_cuda ? "parameters { name: \"BLOCK_SIZE\" powers_of_two { first: 32 last: 1024 } default_value: "
                            "256 }\n"
                            "parameters { name: \"ELEMENTS\" values: [1, 2, 4, 8] }\n"
                          : "parameters { name: \"CHUNK\" powers_of_two { first: 256 last: 65536 } default_value: "
                            "4096 }\n"
                            "parameters { name: \"UNROLL\" values: [1, 2, 4, 8] }\n");
  text = Replaced(text, "@CONSTRAINT@", is_cuda ? "BLOCK_SIZE * ELEMENTS <= 4096" : "CHUNK % UNROLL == 0");
  text = Replaced(text, "@REASON@", is_cuda ? "enough blocks to fill the device" : "whole unrolled steps");
  text = Replaced(text, "@GRID@",
                  is_cuda ? "    grid: \"ceil_div(N, BLOCK_SIZE * ELEMENTS)\"\n    block: \"BLOCK_SIZE\"\n" : "");
  text = Replaced(text, "@REFERENCE_GRID@", is_cuda ? "      grid: \"ceil_div(N, 256)\"\n      block: \"256\"\n" : "");
  text = Replaced(text, "@NAME@", name);
  return Replaced(text, "@SOURCES@\n", SourceLines(source_file, headers));
}

std::string PythonTemplate(const std::string& name, const std::string& source_file) {
  return Replaced(Replaced(kPythonDefinition, "@SOURCE@", source_file), "@NAME@", name);
}

std::string PythonSourceTemplate() { return kPythonSource; }

std::string SourceTemplate(const std::string& name, bool is_cuda) {
  return Replaced(is_cuda ? kCudaSource : kHostSource, "@NAME@", name);
}

}  // namespace tunefarm::cli
