// T1: the JSON in which tuning tools exchange problems (TuningSchema 1.0.0). Both dialects are read: Kernel Tuner's,
// with ProblemSize and GridDivX/Y/Z, and KTT's, with GlobalSize and LocalSize; where a file has both, ProblemSize and
// GridDiv count, since files are seen whose GlobalSize is a leftover.
//
// Pure: text in, values out. A T1 never changes once read; const use from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/expression/value.h"
#include "server/interchange/json_document.h"
#include "server/interchange/python_text.h"
#include "server/space/space.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::interchange {

struct T1Parameter {
  JsonRef ref;
  std::string name;
  std::vector<Value> values;  // without repeats
  // Of the off-schema "Default", where it is one of the values.
  std::optional<Value> default_value = std::nullopt;
};

struct T1Condition {
  JsonRef ref;             // of the expression's text
  std::string expression;  // in the expression language
};

// A Python expression of a size, or of the launch.
struct T1Text {
  JsonRef ref;
  std::string text;
};

struct T1Argument {
  enum class Memory { kScalar, kVector, kSymbol };
  enum class Fill { kNone, kConstant, kRandom, kGenerator, kFile };
  enum class Access { kUnspecified, kReadOnly, kWriteOnly, kReadWrite };
  JsonRef ref;
  std::string name;
  tunefarm::v1::DataType type;
  int width = 1;  // elements of `type` in one of the file's elements: 4 for float4
  Memory memory = Memory::kScalar;
  bool is_also_symbol = false;  // Kernel Tuner's MemType "Constant": passed, and copied to a __constant__ of its name
  std::optional<T1Text> size = std::nullopt;  // of vectors: the number of elements
  Fill fill = Fill::kNone;
  std::optional<double> fill_value = std::nullopt;
  std::optional<T1Text> data_source = std::nullopt;  // of generators: an expression over i
  Access access = Access::kUnspecified;
  bool is_output = false;  // Kernel Tuner's "Output"
};

struct T1Reference {
  JsonRef ref;
  std::string target;
  T1Argument::Fill fill = T1Argument::Fill::kNone;
  std::optional<double> fill_value = std::nullopt;
  std::optional<T1Text> data_source = std::nullopt;
  enum class Method { kAbsoluteDifference, kSideBySide, kSideBySideRelative } method = Method::kSideBySide;
  std::optional<double> threshold = std::nullopt;
};

struct T1 {
  enum class Language { kCuda, kOpenCl, kVulkan, kHypertuner };
  enum class GlobalSizeType { kBlocks, kThreads };

  std::unique_ptr<const JsonDocument> document;
  std::string benchmark_name;  // General.BenchmarkName, or empty
  Language language = Language::kCuda;
  std::optional<JsonRef> language_ref = std::nullopt;
  std::string kernel_name;
  std::string kernel_file;
  std::optional<JsonRef> kernel_file_ref = std::nullopt;
  std::vector<std::pair<JsonRef, std::string>> compile_options;
  int64_t shared_memory = 0;

  std::vector<T1Parameter> parameters;
  std::vector<T1Condition> conditions;

  std::vector<T1Text> problem_size;  // at most 3
  std::vector<T1Text> grid_div[3];   // factors
  bool has_grid_div = false;         // any of them, also an empty one
  std::optional<T1Text> global_size[3];
  std::optional<T1Text> local_size[3];
  GlobalSizeType global_size_type = GlobalSizeType::kBlocks;
  // Whether grid and block follow Kernel Tuner's rules.
  bool is_kernel_tuner = false;

  std::vector<T1Argument> arguments;
  std::vector<T1Reference> references;

  // The budget in the words of `tunefarm tune`: "--max-trials 10". Empty for none.
  std::string budget_options;
  // What was read but has no meaning here, or was put right, in sentences for people.
  std::vector<std::string> notes;
};

// Reads a file of at most 1 MiB. InvalidArgument "FILE:12:7: /ConfigurationSpace/...: message" with one of the reasons
// of json_document.h. What T1 allows and the readers of neither dialect understand (scripts, HDF files, local memory)
// is NOT_MAPPABLE.
absl::StatusOr<T1> ReadT1(std::string text, std::string file_name);

struct T1SpaceOptions {
  // Kernel Tuner's silent rule block_size_x * block_size_y * block_size_z <= this, over the parameters of exactly these
  // names. 0: no such rule.
  int64_t thread_limit = 0;
};

// The space of a T1, of any language.
SpaceDefinition SpaceOfT1(const T1& t1, const T1SpaceOptions& options = {});

// A kernel to compare with, from a file of its own.
struct T1ReferenceKernel {
  std::string path;  // as read_source knows it
  std::string entry;
  // Expressions of the definition's language; needed for CUDA.
  std::vector<std::string> grid = {}, block = {};
  // Names of the T1's arguments; empty: those of the kernel, in their order.
  std::vector<std::string> arguments = {};
};

struct T1KernelOptions {
  std::string display_name = {};                                  // empty: from the file
  std::optional<tunefarm::v1::Language> language = std::nullopt;  // default: the file's
  std::string source = {};                                        // path of the kernel's source instead of KernelFile
  T1SpaceOptions space = {};
  std::optional<T1ReferenceKernel> reference_kernel = std::nullopt;
  bool is_unverified = false;  // no reference at all
  std::optional<double> atol = std::nullopt;
  std::optional<double> rtol = std::nullopt;
};

struct ImportedKernel {
  tunefarm::v1::Kernel kernel;     // checked, with its sources
  std::string text;                // kernel.pbtxt
  std::vector<std::string> notes;  // also those of the T1
  std::string budget_options;
};

// A definition that does what the T1 says. `read_source` gives the bytes of a file by its path relative to the T1's
// folder; it is asked for the kernel's source and for what that includes with quotes (NotFound is fine for those).
//   - Where the T1 brings no usable reference, the kernel's own output under the default config is one.
//   - Where the defaults break a condition, the valid config that differs from them in the fewest values is the
//   default.
absl::StatusOr<ImportedKernel> KernelOfT1(
    const T1& t1, const T1KernelOptions& options,
    const std::function<absl::StatusOr<std::string>(const std::string& path)>& read_source);

}  // namespace tunefarm::interchange
